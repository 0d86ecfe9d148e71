"""Run `quantscope play`: open the playground."""

from typing import Annotated

import typer

from quantscope.cli.options import FloatModel


def command(
    model: Annotated[
        str | None,
        typer.Argument(help="A quantized model, or a bundled one (resnet8-int8).", metavar="QUANT"),
    ] = None,
    float_model: FloatModel = None,
    data: Annotated[
        str | None,
        typer.Option(
            help="FILE.npz with images and labels to measure with, instead of CIFAR-10's."
        ),
    ] = None,
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
    """
    from quantscope.app.launch import launch

    launch(model, float_model, data, host=host, port=port, browser=browser, edit=edit)
