"""Run `quantscope evaluate`: measure a model."""

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from quantscope.cli.console import emit_json, messages, progress_bar, show, show_grid
from quantscope.cli.options import (
    Batch,
    Data,
    Evenly,
    FloatModelOrProgram,
    Images,
    Int8Kernels,
    Json,
    LowerIsBetter,
    MeasureOption,
    load_measure,
)
from quantscope.cli.outputs import careful
from quantscope.cli.rows import load_samples, takes_rows

if TYPE_CHECKING:
    from quantscope.data import RowWishes
    from quantscope.model import Execution, Model
    from quantscope.run import Evaluation, EvaluationDelta, KernelGap


@careful
@takes_rows
def command(
    model: Annotated[
        str, typer.Argument(help="A model file, or resnet8, resnet8-int8, -uint8, -torch.")
    ],
    data: Data = None,
    rows: "RowWishes | None" = None,
    images: Images = None,
    evenly: Evenly = False,
    execution: Annotated[
        Literal["runtime", "reference", "both"] | None,
        typer.Option(
            help="runtime: the fused kernels that ship (default for ONNX). "
            "reference: the arithmetic that the file states. both: and what lies between them."
        ),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(help="A second model, say the float one, compared by sample."),
    ] = None,
    measure: MeasureOption = None,
    lower_is_better: LowerIsBetter = False,
    float_model: FloatModelOrProgram = None,
    int8_kernels: Int8Kernels = None,
    batch: Batch = None,
    as_json: Json = False,
) -> None:
    """Measure a model: accuracy, loss, per class, confusion; or how it agrees with the float one.

    Example: quantscope evaluate resnet8 --data full --execution reference
    """
    from quantscope.model import need_original, open_model, read_network
    from quantscope.report import evaluation_view
    from quantscope.run import compare_evaluations, evaluate, kernel_gap

    counted = load_measure(measure, lower_is_better=lower_is_better)
    opened, other = open_model(model), None if against is None else open_model(against)
    chosen = load_samples(opened, data, rows, images=images, evenly=evenly)
    compares = counted.needs_floats if counted is not None else chosen.targets is None
    floats: Model | str | None = float_model
    if floats is None and compares and other is not None and other.is_float:
        # What the measure compares with is the second model: there is no other to hold it against.
        floats, other = other, None
    with progress_bar() as progress:
        gap: KernelGap | None = None
        if execution == "both":
            gap = kernel_gap(
                opened,
                chosen,
                measure=counted,
                float_model=floats,
                batch=batch,
                int8_kernels=int8_kernels,
                progress=progress,
            )
            results = [gap.reference, gap.runtime]
        else:
            results = [
                evaluate(
                    opened,
                    chosen,
                    measure=counted,
                    float_model=floats,
                    execution=execution,
                    batch=batch,
                    int8_kernels=int8_kernels,
                    progress=progress,
                )
            ]
        deltas = []
        if other is not None:
            if compares and floats is None:
                floats = need_original(opened)  # one float model for both
            evaluate_other = partial(
                evaluate,
                other,
                chosen,
                measure=counted,
                float_model=floats,
                int8_kernels=other.own_int8_kernels(int8_kernels),
                progress=lambda what, done, of: progress(f"{what} {other.name}", done, of),
            )
            # In the first one's execution, or in the only one that it has.
            deltas = [
                compare_evaluations(result, evaluate_other(execution=_in(other, result.execution)))
                for result in results
            ]
    if as_json:
        emit_json(_as_dict(results, gap, deltas))
        return
    show(evaluation_view(results, deltas, gap), show_grid)
    if opened.path.suffix == ".onnx" and (note := read_network(opened).run_time_note):
        messages.print(note, markup=False)


def _in(model: "Model", execution: "Execution") -> "Execution | None":
    return execution if execution in model.executions else None


def _as_dict(
    results: "list[Evaluation]", gap: "KernelGap | None", deltas: "list[EvaluationDelta]"
) -> dict[str, Any]:
    """Give one execution as it is, or both under `executions` with what they share on top."""
    dicts = [result.to_dict() for result in results]
    for result, delta in zip(dicts, deltas, strict=False):
        result["against"] = delta.to_dict()
    if gap is None:
        return dicts[0]
    shared = {key: dicts[0][key] for key in ("model", "digest", "data", "data_digest", "images")}
    executions = {result["execution"]: result for result in dicts}
    return {**shared, "executions": executions, "kernel_gap": gap.to_dict()}
