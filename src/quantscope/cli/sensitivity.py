"""Run `quantscope sensitivity`: rank the layers by what their quantization costs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from quantscope.cli.console import emit_json, messages, progress_bar, show, terminal_width
from quantscope.cli.options import (
    THOUSAND,
    Batch,
    DataOfThousand,
    FloatModel,
    ImagesOfThousand,
    Int8Kernels,
    Json,
    LowerIsBetter,
    MeasureOption,
    QuantizedOnnx,
    load_measure,
    stated_or_shipped,
)
from quantscope.cli.outputs import Writes, careful
from quantscope.cli.rows import load_samples, takes_rows

if TYPE_CHECKING:
    from quantscope.data import RowWishes
    from quantscope.study.sensitivity import Sensitivity


@careful
@takes_rows
def command(
    model: QuantizedOnnx,
    float_model: FloatModel = None,
    mode: Annotated[
        Literal["disable", "enable", "both"],
        typer.Option(
            help="disable: each layer's quantization off in the quantized network. "
            "enable: on alone in the float one."
        ),
    ] = "disable",
    images: ImagesOfThousand = None,
    data: DataOfThousand = None,
    rows: "RowWishes | None" = None,
    execution: Annotated[
        Literal["reference", "runtime"], stated_or_shipped(" (with --mode disable).")
    ] = "reference",
    measure: MeasureOption = None,
    lower_is_better: LowerIsBetter = False,
    int8_kernels: Int8Kernels = None,
    batch: Batch = None,
    figure: Annotated[
        Path | None,
        typer.Option(help="Also draw the ranking, as FILE.png or FILE.svg."),
        Writes(".png", ".svg"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Rank the layers by what their quantization costs the whole network.

    A layer is switched with its weight, bias and output; the ranking is by SQNR, or by --measure.

    Example: quantscope sensitivity resnet8-int8 --images 200
    """
    from quantscope.model import open_model
    from quantscope.report import sensitivity_lines
    from quantscope.study.sensitivity import sensitivity

    counted = load_measure(measure, lower_is_better=lower_is_better)
    opened = open_model(model)
    chosen = load_samples(opened, data, rows, images=images, unless_given=THOUSAND)
    with progress_bar() as progress:
        result = sensitivity(
            opened,
            chosen,
            float_model=float_model,
            measure=counted,
            mode=mode,
            execution=execution,
            int8_kernels=int8_kernels,
            batch=batch,
            progress=progress,
        )
    if figure is not None:
        _draw(result, figure)
        messages.print(f"Wrote {figure}", markup=False)
    if as_json:
        emit_json(result.to_dict())
        return
    show(sensitivity_lines(result, terminal_width()))


def _draw(result: "Sensitivity", path: Path) -> None:
    from quantscope.files import write_whole
    from quantscope.report.figures import png_bytes, sensitivity_ranking, svg_bytes

    drawn = sensitivity_ranking(result)
    write_whole(path, png_bytes(drawn) if path.suffix.lower() == ".png" else svg_bytes(drawn))
