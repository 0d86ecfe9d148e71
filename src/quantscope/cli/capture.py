"""Run `quantscope capture`: keep the values of tensors in a file."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from quantscope.cli.console import emit_json, progress_bar, show, terminal_width
from quantscope.cli.options import Batch, Data, Int8Kernels, Json
from quantscope.cli.outputs import Writes, careful
from quantscope.cli.rows import load_samples, takes_rows
from quantscope.errors import BadConfigError

# A mistyped range would otherwise become a list of billions of rows.
_MOST_IMAGES = 1_000_000

if TYPE_CHECKING:
    from quantscope.data import RowWishes


@careful
@takes_rows
def command(
    model: Annotated[
        str, typer.Argument(help="An ONNX, .pt2, .pt or .safetensors file, or a bundled model.")
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The .npz file to write."), Writes(".npz")
    ],
    layer: Annotated[
        list[str] | None,
        typer.Option(
            help="A layer, for its output, or a tensor; may be given again. Left out: all "
            "quantized activations."
        ),
    ] = None,
    image: Annotated[
        list[str] | None,
        typer.Option(
            help="Which images of --data, from 0: 3, or 10-19; may be given again. Left out: image "
            "0 alone."
        ),
    ] = None,
    data: Data = None,
    rows: "RowWishes | None" = None,
    execution: Annotated[
        Literal["reference", "runtime"] | None,
        typer.Option(
            help="reference: the arithmetic that the file states (default for ONNX). runtime: the "
            "kernels that ship, where looking does not change them."
        ),
    ] = None,
    int8_kernels: Int8Kernels = None,
    batch: Batch = None,
    as_json: Json = False,
) -> None:
    """Keep the values of chosen tensors for chosen images, as integers and as real numbers.

    Example: quantscope capture resnet8-int8 --layer stack1.conv1 --image 0-9 -o conv1.npz
    """
    from quantscope.model import open_model
    from quantscope.report import capture_lines
    from quantscope.run import capture
    from quantscope.run.capture import capture_to_dict, save_capture

    wanted = _rows(image or ["0"])
    opened = open_model(model)
    chosen = load_samples(opened, data, rows, needed=max(wanted) + 1).select(wanted)
    with progress_bar() as progress:
        result = capture(
            opened,
            chosen,
            layer,
            execution=execution,
            int8_kernels=int8_kernels,
            batch=batch,
            progress=progress,
        )
    if not result.tensors and result.unseen:
        name, why = next(iter(result.unseen.items()))
        # Only in runtime execution of ONNX files there are kernels that looking could change.
        how = "name others with --layer" if result.kernels is None else "use --execution reference"
        raise BadConfigError(
            f"Nothing of what was asked for can be seen in {result.execution} execution, first "
            f"{name}: {why}; {how}"
        )
    if not result.tensors:
        raise BadConfigError(
            f"{result.model} has no quantized activations; name the layers with --layer. "
            f"List them with: quantscope inspect {shlex.quote(model)}"
        )
    save_capture(result, output)
    if as_json:
        emit_json({"file": str(output), **capture_to_dict(result)})
        return
    show(capture_lines(result, wanted, output, terminal_width()))


def _rows(texts: list[str]) -> list[int]:
    """List the rows in the order in which they were asked for, each once."""
    return list(dict.fromkeys(row for text in texts for row in _range(text)))


def _range(text: str) -> range:
    """Read `3` or `10-19`, whose ends both count."""
    first, dash, last = text.partition("-")
    try:
        found = range(int(first), int(last if dash else first) + 1)
    except ValueError:
        found = range(0)
    if found.stop <= found.start:
        raise BadConfigError(f"--image takes a number or a range, such as 3 or 10-19, not '{text}'")
    if found.stop > _MOST_IMAGES:
        raise BadConfigError(f"--image {text} goes beyond any data set here")
    return found
