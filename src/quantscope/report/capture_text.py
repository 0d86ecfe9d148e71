"""Show captured values as lines and a table."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantscope.plain_text import printable
from quantscope.report.table import Column, Table
from quantscope.run.capture import Capture, CapturedTensor, value_range


def capture_lines(
    result: Capture, rows: Sequence[int], output: Path, width: int | None = None
) -> Iterator[str]:
    """Say what was kept, and in which file; `rows` are the images by their place in the data."""
    images = f"{len(rows):,} images" if len(rows) > 1 else f"image {rows[0]}"
    # The page calls an image by its number in the whole set.
    number = int(result.indices[0])
    also = (
        f" (number {number:,} of the whole set)"
        if list(rows) != [number] and len(rows) == 1
        else ""
    )
    yield f"{result.model}, {result.execution} execution, {images} of {result.data}{also}"
    yield from captured_table(result).lines(width)
    if result.unseen:
        yield "not seen"
        yield from (f"  {printable(name)}: {why}" for name, why in result.unseen.items())
    for name, why in result.left_out.items():
        yield f"output {printable(name)} is left out: {why}"
    yield f"Wrote {printable(str(output))}; read it with numpy.load"


def captured_table(result: Capture) -> Table:
    """Make a table with a row for each tensor."""
    columns = (
        Column("tensor", kind="name"),
        Column("type"),
        Column("shape"),
        Column("scale", right=True),
        Column("zero-point", right=True),
        Column("values", right=True),
    )
    return Table("captured", columns, tuple(_row(t) for t in result.tensors.values()))


def _row(tensor: CapturedTensor) -> tuple[str, ...]:
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


def _same(values: NDArray[Any]) -> bool:
    return bool((values == values.flat[0]).all())
