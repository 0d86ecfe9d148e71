"""Run `quantscope import-keras`: turn the Keras ResNet8 into ONNX."""

from pathlib import Path
from typing import Annotated

import typer

from quantscope.cli.console import console, emit_json
from quantscope.cli.options import Json
from quantscope.cli.outputs import Writes, careful


@careful
def command(
    file: Annotated[Path, typer.Argument(help="The Keras HDF5 file (.h5).")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The ONNX file to write."), Writes(".onnx")
    ],
    torch: Annotated[
        Path | None,
        typer.Option("--torch", help="Also write the weights as safetensors."),
        Writes(".safetensors"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Turn the MLPerf Tiny ResNet8 from Keras into ONNX. Needs no TensorFlow.

    Example: quantscope import-keras pretrainedResnet.h5 -o resnet8.onnx
    """
    from quantscope.zoo import read_keras, write_onnx, write_safetensors

    weights = read_keras(file)
    written = {"onnx": str(output), "onnx_digest": write_onnx(weights, output)}
    if torch:
        written |= {"torch": str(torch), "torch_digest": write_safetensors(weights, torch)}
    if as_json:
        emit_json({"source": str(file), **written})
        return
    console.print(f"Wrote {output}" + (f" and {torch}" if torch else ""), markup=False)
    console.print(f"Measure it with: quantscope evaluate {output}", markup=False)
