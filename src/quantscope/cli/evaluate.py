"""`quantscope evaluate`"""

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.table import Table

from quantscope.cli.console import console, emit_json, progress_bar
from quantscope.cli.options import Batch, Data, Images, Int8Kernels, Json, load_images
from quantscope.cli.outputs import careful
from quantscope.plain_text import many
from quantscope.progress import Progress

if TYPE_CHECKING:
    from quantscope.data import ImageSet
    from quantscope.run import Evaluation, Execution, KernelGap, PairedDelta


@careful
def command(
    model: Annotated[
        str, typer.Argument(help="A model file, or resnet8, resnet8-int8, -uint8, -torch.")
    ],
    data: Data = "sample",
    images: Images = None,
    execution: Annotated[
        Literal["runtime", "reference", "both"] | None,
        typer.Option(
            help="runtime: the fused kernels that ship (default for ONNX). "
            "reference: the arithmetic that the file states. both: and what lies between them."
        ),
    ] = None,
    against: Annotated[
        str | None, typer.Option(help="A second model, say the float one, compared by image.")
    ] = None,
    int8_kernels: Int8Kernels = None,
    batch: Batch = None,
    as_json: Json = False,
) -> None:
    """Measure a classifier: accuracy, loss, per class, confusion.

    Example: quantscope evaluate resnet8 --data full --execution reference
    """
    from quantscope.run import evaluate, kernel_gap, paired

    chosen = load_images(data, images)
    with progress_bar() as progress:
        gap: KernelGap | None = None
        if execution == "both":
            gap = kernel_gap(
                model, chosen, batch=batch, int8_kernels=int8_kernels, progress=progress
            )
            results = [gap.reference, gap.runtime]
        else:
            results = [
                evaluate(
                    model,
                    chosen,
                    execution=execution,
                    batch=batch,
                    int8_kernels=int8_kernels,
                    progress=progress,
                )
            ]
        deltas = []
        if against:
            deltas = [
                paired(result, _baseline(against, chosen, result.execution, int8_kernels, progress))
                for result in results
            ]
    if as_json:
        emit_json(_as_dict(results, gap, deltas))
        return
    for number, result in enumerate(results):
        _show(result)
        if deltas:
            _show_delta(deltas[number])
    if gap:
        _show_gap(gap)


def _baseline(
    model: str,
    data: "ImageSet",
    execution: "Execution",
    int8_kernels: bool | None,
    progress: Progress,
) -> "Evaluation":
    """The second model in the first one's execution, or in the only one that it has."""
    from quantscope.run import evaluate, open_classifier
    from quantscope.run.classifier import TORCH_SUFFIXES
    from quantscope.zoo import find_model

    is_torch = find_model(model).suffix in TORCH_SUFFIXES
    classifier = open_classifier(
        model,
        execution=None if is_torch else execution,
        int8_kernels=None if is_torch else int8_kernels,
    )
    return evaluate(
        classifier,
        data,
        progress=lambda what, done, total: progress(f"{what} {classifier.name}", done, total),
    )


def _as_dict(
    results: "list[Evaluation]", gap: "KernelGap | None", deltas: "list[PairedDelta]"
) -> dict[str, Any]:
    """One execution as it is; both side by side under `executions`, with what they share on top."""
    dicts = [result.to_dict() for result in results]
    for result, delta in zip(dicts, deltas, strict=False):
        result["against"] = delta.to_dict()
    if gap is None:
        return dicts[0]
    shared = {key: dicts[0][key] for key in ("model", "digest", "data", "data_digest", "images")}
    executions = {result["execution"]: result for result in dicts}
    return {**shared, "executions": executions, "kernel_gap": gap.to_dict()}


def _show(result: "Evaluation") -> None:
    low, high = result.interval_95
    loss = "not finite" if result.loss is None else f"{result.loss:.4f}"
    console.print(f"{result.model}  {result.execution} execution", markup=False, style="bold")
    console.print(
        f"accuracy {result.accuracy:.2%}  [{low:.2%}, {high:.2%}] at 95 %   "
        f"{result.correct:,} of {many(result.images, 'image')} of {result.data}   loss {loss}",
        markup=False,
    )
    console.print(f"sha256 {result.digest}", markup=False, style="dim")
    if result.not_finite:
        found = many(result.not_finite, "image")
        console.print(f"{found} with a NaN among the scores", markup=False)
    if len(result.class_names) <= 20:
        console.print(_class_table(result))
        return
    seen = [c for c in result.per_class if c.accuracy is not None]
    lowest = sorted(seen, key=lambda c: c.accuracy or 0.0)[:10]
    text = ", ".join(f"{c.name} {c.correct}/{c.total}" for c in lowest)
    console.print(f"lowest classes: {text}", markup=False)


def _class_table(result: "Evaluation") -> Table:
    table = Table(title="true class by row, predicted by column", title_justify="left", box=None)
    table.add_column("class")
    table.add_column("accuracy", justify="right")
    for name in result.class_names:
        table.add_column(name[:4], justify="right", style="dim")
    for row, (kind, counts) in enumerate(zip(result.per_class, result.confusion, strict=True)):
        share = "–" if kind.accuracy is None else f"{kind.accuracy:.1%}"
        cells = [
            f"[bold not dim]{n}[/]" if column == row else (str(n) if n else "·")
            for column, n in enumerate(counts)
        ]
        table.add_row(kind.name, share, *cells)
    return table


def _show_delta(delta: "PairedDelta") -> None:
    from quantscope.report.wording import paired_text

    other = delta.second
    console.print(
        f"against {other.model}, {other.execution} execution, {other.accuracy:.2%}: "
        f"{paired_text(delta)}",
        markup=False,
    )
    changes = [
        (100 * change.delta, change.name) for change in delta.per_class if change.delta is not None
    ]
    if changes and len(changes) <= 20:
        text = ", ".join(f"{name} {points:+.1f}" for points, name in sorted(changes))
        console.print(f"by class, in points: {text}\n", markup=False)


def _show_gap(gap: "KernelGap") -> None:
    from quantscope.report.wording import paired_text

    kernels = gap.kernels
    console.print(f"kernel gap, runtime minus reference: {paired_text(gap.paired)}", markup=False)
    if why := gap.explanation():
        console.print(why, markup=False, style="yellow")
    console.print(
        f"{kernels.integer_layers} of {kernels.computing_layers} layers run as integer kernels",
        markup=False,
    )
    for layer in kernels.layers:
        if layer.kernel == "float":
            why = layer.why or "why is not known"
            console.print(f"  {layer.name} runs as float {layer.executed_as}: {why}", markup=False)
    if not kernels.names_survived:
        console.print("  the last stage of optimization changes some of these", markup=False)
