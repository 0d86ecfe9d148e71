"""Run `quantscope accumulators`: the bits that each layer's accumulator needs."""

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quantscope.cli.console import emit_json, progress_bar, show, show_grid
from quantscope.cli.options import Data, Int8Kernels, Json, QuantizedOnnx
from quantscope.cli.outputs import careful
from quantscope.cli.rows import load_samples, takes_rows

_IMAGES = 100

if TYPE_CHECKING:
    from quantscope.data import RowWishes


@careful
@takes_rows
def command(
    model: QuantizedOnnx,
    data: Data = None,
    rows: "RowWishes | None" = None,
    images: Annotated[
        int | None, typer.Option(help="How many images to measure over; 100 unless given.")
    ] = None,
    predict: Annotated[
        bool,
        typer.Option(
            "--predict-saturation",
            help="Also run the network with modelled x86 kernels that saturate 16-bit sums.",
        ),
    ] = False,
    int8_kernels: Int8Kernels = None,
    as_json: Json = False,
) -> None:
    """Bits that each layer's accumulator needs: at worst, and as measured over images.

    Example: quantscope accumulators resnet8-uint8 --images 100 --predict-saturation
    """
    from quantscope.model import open_model
    from quantscope.report import accumulators_view, saturation_view
    from quantscope.run import accumulators, predict_saturation

    opened = open_model(model)
    chosen = load_samples(opened, data, rows, images=images, unless_given=_IMAGES)
    with progress_bar() as progress:
        found = accumulators(opened, chosen, progress=progress)
        prediction = None
        if predict:
            prediction = predict_saturation(
                opened, chosen, int8_kernels=int8_kernels, progress=progress
            )
    if as_json:
        result: dict[str, Any] = found.to_dict()
        if prediction is not None:
            result["saturation"] = prediction.to_dict()
        emit_json(result)
        return
    show(accumulators_view(found), partial(show_grid, wraps=False))
    if prediction is not None:
        show(saturation_view(prediction))
