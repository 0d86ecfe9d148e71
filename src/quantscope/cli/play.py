"""Run `quantscope play`: open the playground."""

from typing import TYPE_CHECKING, Annotated

import typer

from quantscope.cli.options import Data, FloatModel, LowerIsBetter, MeasureOption
from quantscope.cli.rows import takes_rows

if TYPE_CHECKING:
    from quantscope.data import RowWishes


@takes_rows
def command(
    model: Annotated[
        str | None,
        typer.Argument(help="A model, or a bundled one (resnet8-int8).", metavar="MODEL"),
    ] = None,
    float_model: FloatModel = None,
    data: Data = None,
    rows: "RowWishes | None" = None,
    measure: MeasureOption = None,
    lower_is_better: LowerIsBetter = False,
    port: Annotated[
        int | None, typer.Option(help="The port; left out, the first free one from 2718 on.")
    ] = None,
    host: Annotated[
        str, typer.Option(help="The address to serve at; only this machine can reach the default.")
    ] = "127.0.0.1",
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Whether to open the page in a browser.")
    ] = True,
    edit: Annotated[
        bool, typer.Option("--edit", help="Open a copy of the notebook, with its code.")
    ] = False,
) -> None:
    """Open the playground: a page on which a model is seen, changed and understood.

    Example: quantscope play resnet8-uint8
    Example: quantscope play my_int8.onnx --float my_float.onnx --data my_images.npz
    Example: quantscope play any_network.onnx
    """
    from quantscope.app.launch import launch

    launch(
        model,
        float_model,
        data,
        wishes=rows,
        measure=measure,
        lower_is_better=lower_is_better,
        host=host,
        port=port,
        browser=browser,
        edit=edit,
    )
