"""This module unpacks weights of 2, 4 or 8 bits in blocks: MatMulNBits, GatherBlockQuantized."""

from typing import NamedTuple

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from quantscope.errors import BadModelError
from quantscope.model.assemble import Draft
from quantscope.model.network import Array
from quantscope.model.onnx.graph import OnnxGraph, attribute_int
from quantscope.model.onnx.quant_params import (
    NotShownError,
    QuantizedValues,
    checked_params,
    describe,
    padded_inputs,
    register,
)


class NBitsWeight(NamedTuple):
    """A MatMulNBits weight: [N, K] integers in blocks along K, as the operator stores them.

    `columns` is N, `rows` is K. Each block is padded to whole bytes.
    """

    columns: int
    rows: int
    bits: int
    block_size: int

    @property
    def blocks(self) -> int:
        return -(-self.rows // self.block_size)

    @property
    def blob_bytes(self) -> int:
        return -(-self.block_size * self.bits // 8)

    @property
    def packed_bytes(self) -> int:
        return self.columns * self.blocks * self.blob_bytes

    def unpack(self, packed: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Unpack to [N, K], without what fills up the last block."""
        blobs = packed.reshape(self.columns, self.blocks, self.blob_bytes)
        values = _unpack_bits(blobs, self.bits)[..., : self.block_size]
        return values.reshape(self.columns, -1)[:, : self.rows]

    def unpack_zero_points(self, packed: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Unpack to [N, blocks]; each row is padded to whole bytes."""
        row_bytes = -(-self.blocks * self.bits // 8)
        return _unpack_bits(packed.reshape(self.columns, row_bytes), self.bits)[:, : self.blocks]


def _unpack_bits(packed: NDArray[np.uint8], bits: int) -> NDArray[np.uint8]:
    """Take small values out of bytes along the last axis, the lowest bits first."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    spread = (packed[..., np.newaxis] >> shifts) & np.uint8(2**bits - 1)
    return spread.reshape(*packed.shape[:-1], -1)


def add_nbits(graph: OnnxGraph, found: QuantizedValues, node: ir.Node) -> None:
    """Add a draft of a MatMulNBits' weight, or a note that says why not."""
    try:
        _add_weight(graph, found, node)
    except NotShownError as reason:
        found.notes.append(f"The weight of {node.name} is not shown as quantized: {reason}")


def _add_weight(graph: OnnxGraph, found: QuantizedValues, node: ir.Node) -> None:
    _, packed_name, scale_name, zero_point_name = padded_inputs(node, 4)[:4]
    weight = NBitsWeight(
        columns=attribute_int(node, "N", 0),
        rows=attribute_int(node, "K", 0),
        bits=attribute_int(node, "bits", 4),
        block_size=attribute_int(node, "block_size", 0),
    )
    packed, scale = graph.tensor(packed_name), graph.array(scale_name)
    packed_zero_point = graph.array(zero_point_name)
    float_zero_point = packed_zero_point is not None and packed_zero_point.dtype != np.uint8
    if packed is None or packed.dtype != ir.DataType.UINT8 or scale is None or float_zero_point:
        raise NotShownError("it is of a kind that is not known here")
    if weight.bits not in (2, 4, 8):
        raise NotShownError("it is of a kind that is not known here")
    if min(weight.columns, weight.rows, weight.block_size) < 1:
        raise BadModelError(f"{node.name!r} in {graph.file.path} has a weight of no size")
    row_bytes = weight.columns * -(-weight.blocks * weight.bits // 8)
    fits = packed.nbytes == weight.packed_bytes and scale.size == weight.columns * weight.blocks
    if not fits or (packed_zero_point is not None and packed_zero_point.size != row_bytes):
        raise BadModelError(
            f"The weight {packed_name!r} in {graph.file.path} does not hold {weight.columns} x "
            f"{weight.rows} values of {weight.bits} bits in blocks of {weight.block_size}"
        )
    if packed_zero_point is None:  # the operator's default is the middle of the type
        zero_point: Array = np.full((weight.columns, weight.blocks), 2 ** (weight.bits - 1))
    else:
        zero_point = weight.unpack_zero_points(packed_zero_point)
    params = checked_params(
        graph,
        tensor=packed_name,
        scale=scale.reshape(weight.columns, weight.blocks),
        zero_point=zero_point,
        dtype=f"uint{weight.bits}",
        axis=1,
        block_size=weight.block_size,
    )
    shape = (weight.columns, weight.rows)
    draft = Draft(params, [packed_name], scale_name, zero_point_name or None, shape)
    draft.read_integers = lambda: weight.unpack(graph.read(packed).reshape(-1)).astype(
        ir.DataType[f"UINT{weight.bits}"].numpy()
    )
    register(found, draft)


def add_block_table(graph: OnnxGraph, found: QuantizedValues, node: ir.Node) -> None:
    """Add a draft of a GatherBlockQuantized's table, or a note that says why not."""
    data, _, scale, zero_point = padded_inputs(node, 4)[:4]
    stored = graph.tensor(data)
    axis, bits = attribute_int(node, "quantize_axis", 1), attribute_int(node, "bits", 4)
    block_size = attribute_int(node, "block_size", 128)
    try:
        if stored is not None and stored.dtype == ir.DataType.UINT8 and bits < 8:
            _add_packed_table(graph, found, stored, (data, scale, zero_point), axis, bits=bits)
        else:
            describe(graph, found, data, scale, zero_point, axis=axis, block_size=block_size)
    except NotShownError as reason:
        found.notes.append(f"The table of {node.name} is not shown as quantized: {reason}")


def _add_packed_table(
    graph: OnnxGraph,
    found: QuantizedValues,
    stored: ir.TensorProtocol,
    names: tuple[str, str, str],
    axis: int,
    *,
    bits: int,
) -> None:
    """Add a table whose small integers lie in bytes, along the last axis."""
    data, scale_name, zero_point_name = names
    scale, packed = graph.array(scale_name), graph.array(zero_point_name)
    if scale is None or data in found.by_integer or bits not in (2, 4):
        raise NotShownError("it is of a kind that is not known here")
    *ahead, last = (int(dim) for dim in stored.shape.numpy())
    shape = (*ahead, last * 8 // bits)
    if packed is None:  # the operator's default is the middle of the type
        zero_point: Array = np.full(scale.shape, 2 ** (bits - 1))
    else:
        zero_point = _unpack_bits(packed.astype(np.uint8), bits)[..., : scale.shape[-1]]
    along = shape[axis]
    params = checked_params(
        graph,
        tensor=data,
        scale=scale,
        zero_point=zero_point,
        dtype=f"uint{bits}",
        axis=axis % len(shape),
        block_size=-(-along // scale.shape[axis]),
    )
    draft = Draft(params, [data], scale_name, zero_point_name or None, shape)
    draft.read_integers = lambda: _unpack_bits(graph.read(stored), bits).astype(
        ir.DataType[f"UINT{bits}"].numpy()
    )
    register(found, draft)
