"""`quantscope capture`"""

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from quantscope.cli.console import emit_json, progress_bar, show, terminal_width
from quantscope.cli.options import Batch, Data, Int8Kernels, Json
from quantscope.cli.outputs import Writes, careful
from quantscope.errors import BadConfigError

if TYPE_CHECKING:
    from quantscope.report.table import Table
    from quantscope.run import Capture, CapturedTensor

_MOST_IMAGES = 1_000_000


@careful
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
    data: Data = "sample",
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
    from quantscope.data import load
    from quantscope.run import capture
    from quantscope.run.capture.file import capture_to_dict, save_capture

    rows = _rows(image or ["0"])
    chosen = load(data, first=max(rows) + 1).select(rows)
    with progress_bar() as progress:
        result = capture(
            model,
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
    show(_lines(result, rows, output, terminal_width()))


def _rows(texts: list[str]) -> list[int]:
    """Rows in the order in which they were asked for, each once."""
    return list(dict.fromkeys(row for text in texts for row in _range(text)))


def _range(text: str) -> range:
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


def _lines(
    result: "Capture", rows: list[int], output: Path, width: int | None = None
) -> Iterator[str]:
    from quantscope.plain_text import printable

    images = f"{len(rows):,} images" if len(rows) > 1 else f"image {rows[0]}"
    # The page calls an image by its number in the whole set.
    number = int(result.indices[0])
    also = f" (number {number:,} of the whole set)" if rows != [number] and len(rows) == 1 else ""
    yield f"{result.model}, {result.execution} execution, {images} of {result.data}{also}"
    yield from _table(result).lines(width)
    if result.unseen:
        yield "not seen"
        yield from (f"  {printable(name)}: {why}" for name, why in result.unseen.items())
    yield f"Wrote {printable(str(output))}; read it with numpy.load"


def _table(result: "Capture") -> "Table":
    from quantscope.report.table import Column, Table

    columns = (
        Column("tensor", kind="name"),
        Column("type"),
        Column("shape"),
        Column("scale", right=True),
        Column("zero-point", right=True),
        Column("values", right=True),
    )
    return Table("captured", columns, tuple(_row(t) for t in result.tensors.values()))


def _row(tensor: "CapturedTensor") -> tuple[str, ...]:
    import numpy as np

    from quantscope.plain_text import printable
    from quantscope.run.capture.file import value_range

    params = tensor.params
    low, high = value_range(tensor)
    scale = zero_point = "–"
    if params is not None:
        one = params.is_per_tensor
        zeros = np.asarray(params.zero_point)
        scale = f"{float(params.scale):.5g}" if one else f"{params.scale.size} scales"
        zero_point = str(int(zeros)) if one else str(zeros.flat[0]) if _same(zeros) else "several"
    return (
        printable(tensor.name),
        str(tensor.values.dtype) if params is None else params.dtype,
        "×".join(map(str, tensor.values.shape)),
        scale,
        zero_point,
        "not finite" if low is None or high is None else f"{low:.4g} … {high:.4g}",
    )


def _same(values: Any) -> bool:
    return bool((values == values.flat[0]).all())
