"""Run `quantscope study`: measure many quantizations of a model."""

from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quantscope.cli.console import console, emit_json, messages, progress_bar, show, show_grid
from quantscope.cli.options import (
    CalibrationData,
    Data,
    Images,
    Json,
    LowerIsBetter,
    MeasureOption,
)
from quantscope.cli.outputs import careful
from quantscope.cli.rows import takes_rows
from quantscope.errors import BadConfigError

if TYPE_CHECKING:
    from quantscope.data import RowWishes, Samples
    from quantscope.model import Execution
    from quantscope.study import StudyPlan


@careful
@takes_rows
def command(
    out: Annotated[Path, typer.Option(help="The folder for rows, results and the report.")],
    file: Annotated[
        Path | None, typer.Argument(help="The study's TOML file; or give --preset.")
    ] = None,
    preset: Annotated[str | None, typer.Option(help="A study that is built in: ptq.")] = None,
    model: Annotated[
        str,
        typer.Option(
            help="The float ONNX model, a float program (.pt2), or a bundled one: resnet8."
        ),
    ] = "resnet8",
    torch_model: Annotated[
        str | None,
        typer.Option(help="The same weights as .safetensors, for configurations of torch."),
    ] = None,
    data: Data = None,
    images: Images = None,
    rows: "RowWishes | None" = None,
    calibration_data: CalibrationData = None,
    measure: MeasureOption = None,
    lower_is_better: LowerIsBetter = False,
    workers: Annotated[
        int | None, typer.Option(help="Worker processes; one a core if not given.")
    ] = None,
    dask: Annotated[
        str | None,
        typer.Option(help="A Dask scheduler's address: the study runs on its cluster."),
    ] = None,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Run configurations again that failed.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Measure many quantizations of a model: rows, tables and a report in a folder.

    Any network and any data: without labels a classifier is measured by its agreement with the
    float model, other networks by the SQNR of their outputs, or by --measure.

    What is finished is kept: the same command goes on where it was stopped or killed.

    A TOML file has a [base], grids whose every combination is a configuration, and single ones:

    \b
        [base]
        calibration_images = 256

    \b
        [grid]
        activations = ["int8", "uint8"]
        per_channel = [true, false]

    \b
        [[config]]
        framework = "torch"
        observer = "histogram"

    Example: quantscope study --preset ptq --data full --out ptq-study

    Example: quantscope study grid.toml --model detector.onnx --data frames/ --size 320 --out s
    """
    from quantscope.report.study import study_view, write_report
    from quantscope.study import run_ptq_study, write_results
    from quantscope.study.harm import harm_of_study, write_harm

    plan = _plan(file, preset)
    if dask and workers is not None:
        raise BadConfigError("--workers is for this machine and --dask for a cluster; give one")
    try:
        with _executor(dask) as executor, progress_bar() as progress:
            result = run_ptq_study(
                plan,
                out,
                model=model,
                torch_model=torch_model,
                data=data,
                images=images,
                calibration_data=calibration_data,
                rows=rows,
                measure=measure,
                lower_is_better=lower_is_better,
                executor=executor,
                workers=workers,
                retry_failed=retry_failed,
                progress=progress,
            )
    except KeyboardInterrupt:
        finished = len(list((out / "rows").glob("*.json")))
        messages.print(
            f"{finished} rows are kept in {out}; the same command goes on from there", markup=False
        )
        raise
    write_results(result, out)
    executions: tuple[Execution, ...] = ("reference", "runtime")
    harms = {e: harm for e in executions if (harm := harm_of_study(result, e)) is not None}
    write_harm(harms, out)
    harm = harms.get("reference")
    shown = _pictures(model, data, rows, images) if harm is not None and harm.worst else None
    report = write_report(result, out, harm=harm, samples=shown)
    if as_json:
        harmed = {execution: each.to_dict() for execution, each in harms.items()}
        emit_json(result.to_dict() | {"harm": harmed})
        return
    show(study_view(result, harm), show_grid)
    console.print(f"Report: {report}", markup=False)


def _pictures(
    model: str, data: str | None, rows: "RowWishes | None", images: int | None
) -> "Samples | None":
    """Load the samples of the study again, as it did, where they are pictures to show."""
    from quantscope.data import load, usual_data
    from quantscope.model import open_model

    opened = open_model(model)
    spec = usual_data(opened, rows) if data is None else data
    if spec == "random" or spec.startswith("random:"):
        return None
    chosen = load(spec, model=opened, first=images, wishes=rows)
    return chosen if images is None else chosen.take(images)


def _plan(file: Path | None, name: str | None) -> "StudyPlan":
    from quantscope.study import preset, read_plan

    if file is not None and name is None:
        return read_plan(file)
    if name is not None and file is None:
        return preset(name)
    raise BadConfigError("Give a study's TOML file or --preset ptq, one of them")


@contextmanager
def _executor(dask: str | None) -> Iterator[Executor | None]:
    """Give the cluster's executor; None means worker processes on this machine."""
    from quantscope.study import dask_executor

    if dask is None:
        yield None
        return
    with dask_executor(dask) as executor:
        yield executor
