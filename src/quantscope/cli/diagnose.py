"""Run `quantscope diagnose`: what is wrong with a model, why, and what can be tried."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from quantscope.cli.console import console, emit_json, progress_bar, show
from quantscope.cli.options import (
    THOUSAND,
    DataOfThousand,
    Evenly,
    FloatModel,
    ImagesOfThousand,
    Json,
    LowerIsBetter,
    MeasureOption,
    QuantizedOnnx,
    load_measure,
)
from quantscope.cli.outputs import Writes, careful
from quantscope.cli.rows import load_samples, takes_rows

if TYPE_CHECKING:
    from quantscope.data import RowWishes


@careful
@takes_rows
def command(
    model: QuantizedOnnx,
    float_model: FloatModel = None,
    images: ImagesOfThousand = None,
    evenly: Evenly = False,
    data: DataOfThousand = None,
    rows: "RowWishes | None" = None,
    calibration_data: Annotated[
        str | None,
        typer.Option(
            help="What it was calibrated with: FILE.npz or a folder of pictures; bundled models, "
            "and those calibrated with CIFAR-10's bundled images, know theirs."
        ),
    ] = None,
    tries: Annotated[
        bool,
        typer.Option("--try", help="Try what each finding proposes, and all that helps together."),
    ] = False,
    cpu: Annotated[
        Literal["this", "no-vnni"],
        typer.Option(
            help="Whose kernels: this, or no-vnni: an x86 CPU without VNNI, predicted where this "
            "one is another (about 20 images a second)."
        ),
    ] = "this",
    allow_calibration_data: Annotated[
        bool,
        typer.Option(
            "--allow-calibration-data",
            help="Judge it even by the samples that it was calibrated with.",
        ),
    ] = False,
    measure: MeasureOption = None,
    lower_is_better: LowerIsBetter = False,
    html: Annotated[
        Path | None,
        typer.Option(help="Also write it as a page that works offline."),
        Writes(".html", ".htm"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Say what is wrong with a quantized model, what each of it costs, and what can be tried.

    Nothing is changed: with --try every proposal is measured, and one that does not help says so.

    Example: quantscope diagnose resnet8-int8 --try
    """
    from quantscope.data import load
    from quantscope.diagnose import diagnose
    from quantscope.files import write_whole
    from quantscope.model import open_model
    from quantscope.report import diagnosis_html, diagnosis_view

    counted = load_measure(measure, lower_is_better=lower_is_better)
    opened = open_model(model)
    chosen = load_samples(opened, data, rows, images=images, evenly=evenly, unless_given=THOUSAND)
    calibration = (
        None if calibration_data is None else load(calibration_data, model=opened, wishes=rows)
    )
    with progress_bar() as progress:
        result = diagnose(
            opened,
            chosen,
            float_model=float_model,
            calibration=calibration,
            tries=tries,
            cpu=cpu,
            measure=counted,
            allow_calibration_data=allow_calibration_data,
            progress=progress,
        )
    if html is not None:
        write_whole(html, diagnosis_html(result).encode())
    if as_json:
        emit_json(result.to_dict())
        return
    show(diagnosis_view(result))
    if html is not None:
        console.print(f"\nWrote {html}", markup=False)
