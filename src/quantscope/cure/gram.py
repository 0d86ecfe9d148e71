"""The products of a layer's inputs with each other: all that its outputs' error depends on.

A layer with weights W gives X W^T, where each row of X holds the inputs of one output: a window of
a convolution, a row of a matrix product. Other weights V give outputs that differ by X (V - W)^T,
and the squared error of a channel is (v - w) G (v - w)^T with G = X^T X.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantscope.errors import BadModelError
from quantscope.model import Layer

Array = NDArray[Any]

MOST_COLUMNS = 4608
"""The most inputs of one output that a layer may have: 170 MB for their products."""
_BYTES_AT_ONCE = 64 << 20


class Gram:
    """Adds up X^T X and the sums of X, batch by batch, for each group of a layer's channels."""

    def __init__(self, layer: Layer, weight_shape: Sequence[int]) -> None:
        self._layer, self._shape = layer, tuple(weight_shape)
        self.groups = group_count(layer)
        columns = column_count(layer, self._shape)
        self.products = np.zeros((self.groups, columns, columns))
        self.sums = np.zeros((self.groups, columns))
        self.rows = 0

    def add(self, values: Array) -> None:
        """Add the layer's input of some samples."""
        for group in rows_of_inputs(self._layer, values, self._shape):
            for place, rows in enumerate(group):
                self.products[place] += (rows.T @ rows).astype(np.float64)
                self.sums[place] += rows.sum(axis=0, dtype=np.float64)
            self.rows += len(group[0])


def group_count(layer: Layer) -> int:
    found = layer.attributes.get("group", 1)
    return found if isinstance(found, int) else 1


def column_count(layer: Layer, weight_shape: Sequence[int]) -> int:
    """Count the inputs of one output."""
    if layer.op_type == "Conv":
        return prod(weight_shape[1:])
    return weight_shape[1] if transposes_weight(layer) else weight_shape[0]


def transposes_weight(layer: Layer) -> bool:
    """Say whether the weight has a row for each output: Gemm's transB."""
    return layer.op_type == "Gemm" and bool(layer.attributes.get("transB", 0))


def check_layer(layer: Layer, weight_shape: Sequence[int]) -> None:
    """Raise half a line for a layer whose inputs are not put into rows here."""
    if layer.op_type not in ("Conv", "Gemm", "MatMul"):
        raise BadModelError(f"{layer.op_type} is not rounded anew, only Conv, Gemm and MatMul are")
    if layer.op_type == "MatMul" and len(weight_shape) != 2:
        raise BadModelError("its weights are no matrix")
    if layer.op_type == "Gemm" and layer.attributes.get("transA", 0):
        raise BadModelError("its input is transposed")
    if layer.op_type == "Conv" and layer.attributes.get("auto_pad", "NOTSET") not in (
        "NOTSET",
        "VALID",
    ):
        raise BadModelError(f"its padding is {layer.attributes['auto_pad']}, not numbers")
    columns = column_count(layer, weight_shape)
    if columns > MOST_COLUMNS:
        raise BadModelError(
            f"each of its outputs has {columns:,} inputs, more than the {MOST_COLUMNS:,} whose "
            f"products fit in memory"
        )


def as_rows(layer: Layer, weight: Array) -> Array:
    """Lay weights out as [groups, outputs of a group, inputs of an output]; a view where it can."""
    if layer.op_type == "Conv":
        groups = group_count(layer)
        return weight.reshape(groups, weight.shape[0] // groups, -1)
    return (weight if transposes_weight(layer) else weight.T)[None]


def from_rows(layer: Layer, rows: Array, shape: Sequence[int]) -> Array:
    """Lay weights out as the file has them."""
    if layer.op_type == "Conv" or transposes_weight(layer):
        return rows.reshape(shape)
    return np.asarray(rows[0].T)


def rows_of_inputs(
    layer: Layer, values: Array, weight_shape: Sequence[int]
) -> Iterator[list[Array]]:
    """Give the rows of X for each group, a part of the samples at a time; float32."""
    if layer.op_type != "Conv":
        yield [values.reshape(-1, values.shape[-1]).astype(np.float32)]
        return
    windows = _windows(layer, values, weight_shape)
    groups = group_count(layer)
    size = prod(weight_shape[1:])
    samples, channels = windows.shape[:2]
    spatial = values.ndim - 2
    places = prod(windows.shape[2 : 2 + spatial])
    at_once = max(1, _BYTES_AT_ONCE // max(1, places * size * groups * 4))
    for start in range(0, samples, at_once):
        part = windows[start : start + at_once]
        # [samples, channels, places, kernel] to [samples, places, channels, kernel]
        part = np.moveaxis(part, 1, 1 + spatial)
        found = []
        for group in range(groups):
            own = slice(group * channels // groups, (group + 1) * channels // groups)
            cut = part[(slice(None),) * (1 + spatial) + (own,)]
            found.append(np.ascontiguousarray(cut, np.float32).reshape(-1, size))
        yield found


def _windows(layer: Layer, values: Array, weight_shape: Sequence[int]) -> Array:
    """See a convolution's input as windows: [samples, channels, *places, *kernel]."""
    kernel, spatial = tuple(weight_shape[2:]), values.ndim - 2
    attributes: Mapping[str, Any] = layer.attributes
    pads = tuple(attributes.get("pads", ())) or (0,) * (2 * spatial)
    strides = tuple(attributes.get("strides", ())) or (1,) * spatial
    dilations = tuple(attributes.get("dilations", ())) or (1,) * spatial
    padded = np.pad(values, [(0, 0), (0, 0), *zip(pads[:spatial], pads[spatial:], strict=True)])
    reach = tuple((k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True))
    axes = tuple(range(2, 2 + spatial))
    seen = np.lib.stride_tricks.sliding_window_view(padded, reach, axis=axes)
    places = tuple(slice(None, None, step) for step in strides)
    taken = tuple(slice(None, None, step) for step in dilations)
    return seen[(slice(None), slice(None), *places, *taken)]
