"""Run `quantscope calibration`: look into a calibration set, tensor by tensor."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quantscope.cli.console import emit_json, messages, progress_bar, show
from quantscope.cli.options import (
    THOUSAND,
    AnyModel,
    CalibrationData,
    DataOfThousand,
    ImagesOfThousand,
    Json,
)
from quantscope.cli.outputs import Writes, careful
from quantscope.cli.rows import load_samples, takes_rows

if TYPE_CHECKING:
    from quantscope.data import RowWishes, Samples
    from quantscope.model import Model

_USUAL_ROWS = 256


@careful
@takes_rows
def command(
    model: AnyModel,
    data: DataOfThousand = None,
    images: ImagesOfThousand = None,
    calibration_data: CalibrationData = None,
    calibration_images: Annotated[
        int | None,
        typer.Option(help="How many rows calibrate. Default: 256, or all if there are fewer."),
    ] = None,
    calibration_seed: Annotated[int, typer.Option(help="Which rows calibrate.")] = 0,
    rows: "RowWishes | None" = None,
    allow_calibration_data: Annotated[
        bool,
        typer.Option(
            "--allow-calibration-data", help="Let --data have rows that calibrate as well."
        ),
    ] = False,
    figure: Annotated[
        Path | None,
        typer.Option(help="Also draw the ranges, as FILE.png or FILE.svg."),
        Writes(".png", ".svg"),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(help="Also write a page with the figure and a table that sorts."),
        Writes(".html", ".htm"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show of a float model which calibration sample sets each range, and what goes beyond it.

    Of every tensor: the range without the sample that set its end, how it grew with the number of
    samples, and how the rows of --data, which must be others, go beyond it.

    Example: quantscope calibration resnet8 --data sample --calibration-images 64
    """
    from quantscope.model import open_model
    from quantscope.report.calibration import calibration_page, calibration_view
    from quantscope.study.calibration import inspect_calibration

    opened = open_model(model)
    calibration = _calibration(opened, calibration_data, calibration_images, calibration_seed, rows)
    chosen = load_samples(opened, data, rows, images=images, unless_given=THOUSAND)
    with progress_bar() as progress:
        result = inspect_calibration(
            opened, calibration, chosen, allow_same=allow_calibration_data, progress=progress
        )
    if figure is not None or html is not None:
        from quantscope.files import write_whole
        from quantscope.report.figures import calibration_ranges, png_bytes, svg_bytes

        drawn = calibration_ranges(result)
        if figure is not None:
            is_png = figure.suffix.lower() == ".png"
            write_whole(figure, png_bytes(drawn) if is_png else svg_bytes(drawn))
        if html is not None:
            write_whole(html, calibration_page(result, png_bytes(drawn)).encode())
        for path in filter(None, (figure, html)):
            messages.print(f"Wrote {path}", markup=False)
    if as_json:
        emit_json(result.to_dict())
        return
    show(calibration_view(result))


def _calibration(
    model: "Model", spec: str | None, count: int | None, seed: int, rows: "RowWishes | None"
) -> "Samples":
    """Choose the rows as `quantize` does with the same options."""
    from quantscope.data import RowWishes
    from quantscope.quantize import PtqConfig, choose_images

    given = None
    if spec is not None:
        if rows is None or not rows.seed:
            rows = replace(rows or RowWishes(), seed=seed + 1)  # not the rows of --data
        if spec == "random" and count is not None:
            spec = f"random:{count}"
        given = load_samples(model, spec, rows)
    if count is None:
        count = _USUAL_ROWS if given is None else min(_USUAL_ROWS, len(given))
    config = PtqConfig(calibration_images=count, calibration_seed=seed)
    return choose_images(config, given, model=model.name, ports=model.inputs)
