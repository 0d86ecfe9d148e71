"""This module finds the quantized tensors of a PT2E program: quantizers and integer weights."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

from quantscope.arithmetic import QuantParams, storage_dtype
from quantscope.arithmetic import limits as type_limits
from quantscope.errors import BadConfigError, BadModelError
from quantscope.model.assemble import Draft
from quantscope.model.network import Array
from quantscope.model.torch.file import Pt2File, StoredTensor
from quantscope.model.torch.pt2_graph import ProgramGraph, ProgramNode, Ref

_QUANTIZE = ("quantize_per_tensor", "quantize_per_channel")
_DEQUANTIZE = ("dequantize_per_tensor", "dequantize_per_channel")
_SMALL_FLOATS = {
    "bfloat16": ml_dtypes.bfloat16,
    "float8e4m3fn": ml_dtypes.float8_e4m3fn,
    "float8e4m3fnuz": ml_dtypes.float8_e4m3fnuz,
    "float8e5m2": ml_dtypes.float8_e5m2,
    "float8e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
}


@dataclass
class Quantizers:
    """The drafts in the order of the program, and by the values that they describe.

    `absorbed` are the nodes that became parameters of a draft; `origins` lead from what they give
    back to what they were given; `narrow` are drafts that use less than their type's range;
    `limits` the smallest and largest integer of each integer value.
    """

    drafts: list[Draft] = field(default_factory=list)
    by_integer: dict[str, Draft] = field(default_factory=dict)
    by_dequantized: dict[str, Draft] = field(default_factory=dict)
    absorbed: set[str] = field(default_factory=set)
    origins: dict[str, str] = field(default_factory=dict)
    narrow: list[tuple[Draft, int, int]] = field(default_factory=list)
    limits: dict[str, tuple[int, int]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def of(self, name: str) -> Draft | None:
        return self.by_dequantized.get(name) or self.by_integer.get(name)


def find_quantizers(file: Pt2File, graph: ProgramGraph) -> Quantizers:
    """Find the quantizers whose scales the file states; dynamic ones remain operators."""
    found = Quantizers()
    for node in graph.nodes:
        namespace, operator, *_ = node.op.split(".")
        if namespace != "quantized_decomposed" or operator not in (*_QUANTIZE, *_DEQUANTIZE):
            continue
        given = node.arguments.get("input")
        try:
            params = _params(file, graph, node)
        except BadConfigError as error:
            raise BadModelError(f"{file.path.name}, {node.name}: {error}") from None
        if len(node.outputs) != 1:
            raise BadModelError(f"{file.path.name}, {node.name}: a quantizer gives one tensor")
        if params is None or not isinstance(given, Ref):
            continue
        (output,), source = node.outputs, str(given)
        found.absorbed.add(node.name)
        found.origins[output] = found.origins.get(source, source)
        if operator in _QUANTIZE:
            _describe(file, graph, found, node, params, float_name=source, integer=output)
            continue
        draft = found.by_integer.get(source) or _describe(
            file, graph, found, node, params, float_name=None, integer=source
        )
        if draft.params != params:
            found.notes.append(
                f"{source} is written with one scale or zero-point and read with another; "
                "the written one is shown"
            )
        draft.dequantized_names.append(output)
        found.by_dequantized[output] = draft
    return found


def read_stored(file: Pt2File, stored: StoredTensor) -> Array:
    """Read a tensor with its shape from the archive; it is read-only."""
    dtype = np.dtype(_SMALL_FLOATS.get(stored.dtype, stored.dtype))
    content = file.archive.read(stored.member)
    flat = np.frombuffer(content, dtype, count=len(content) // dtype.itemsize)[stored.offset :]
    strides = [step * dtype.itemsize for step in stored.strides]
    return np.lib.stride_tricks.as_strided(flat, stored.shape, strides, writeable=False)


def _describe(
    file: Pt2File,
    graph: ProgramGraph,
    found: Quantizers,
    node: ProgramNode,
    params: QuantParams,
    *,
    float_name: str | None,
    integer: str,
) -> Draft:
    """Make the draft of an integer value, or take one that quantizes the same in the same way."""
    found.limits[integer] = limits = _limits(node, params)
    for draft in found.drafts:
        is_same = draft.params == params and found.limits[draft.integer_names[0]] == limits
        if float_name and draft.float_name == float_name and is_same:
            draft.integer_names.append(integer)
            found.by_integer[integer] = draft
            return draft
    scale, zero_point = _parameters(node)
    draft = Draft(
        params=params,
        integer_names=[integer],
        scale_name=graph.constants.get(scale) if isinstance(scale, Ref) else None,
        zero_point_name=graph.constants.get(zero_point) if isinstance(zero_point, Ref) else None,
        shape=graph.types[integer].shape,
        float_name=float_name,
        read_integers=_integers(file, graph, node, params, float_name, integer),
    )
    if limits != type_limits(params.dtype):
        found.narrow.append((draft, *limits))
    found.drafts.append(draft)
    found.by_integer[integer] = draft
    return draft


def _limits(node: ProgramNode, params: QuantParams) -> tuple[int, int]:
    """Give the smallest and largest integer used, which may be fewer than the type has."""
    low, high = node.arguments.get("quant_min"), node.arguments.get("quant_max")
    if isinstance(low, int) and isinstance(high, int):
        return low, high
    return int(params.qmin), int(params.qmax)


def _parameters(node: ProgramNode) -> tuple[Any, Any]:
    plural = "s" if "per_channel" in node.op else ""
    return node.arguments.get(f"scale{plural}"), node.arguments.get(f"zero_point{plural}")


def _params(file: Pt2File, graph: ProgramGraph, node: ProgramNode) -> QuantParams | None:
    """Read a quantizer's parameters; None where the scale is computed when the program runs."""
    scale, zero_point = (_number(file, graph, value) for value in _parameters(node))
    if scale is None:
        return None
    axis = node.arguments.get("axis")
    if axis is None:  # stored as tensors of one number by the overload `tensor`
        scale, zero_point = np.squeeze(scale), np.squeeze(0 if zero_point is None else zero_point)
    params = QuantParams(scale, zero_point, str(node.arguments.get("dtype")), axis=axis)
    low, high = _limits(node, params)
    # Symmetric weights leave -128 out and have 8 bits all the same: fewer bits are what ends say.
    if not 0 < (high - low).bit_length() < params.type_bits:
        return params
    try:
        return params.changed(ends=(low, high))
    except BadConfigError:  # a zero-point beyond them: the note on the integers in use is all
        return params


def _number(file: Pt2File, graph: ProgramGraph, value: Any) -> Any:
    if not isinstance(value, Ref):
        return value
    stored = file.stored.get(graph.constants.get(value, ""))
    return None if stored is None else read_stored(file, stored)


def _integers(
    file: Pt2File,
    graph: ProgramGraph,
    node: ProgramNode,
    params: QuantParams,
    float_name: str | None,
    integer: str,
) -> Callable[[], Array] | None:
    """Give a way to read a constant's integers: as stored, or quantized in the graph from floats.

    It is None for what is no constant.
    """
    stored = file.stored.get(graph.constants.get(float_name or integer, ""))
    if stored is None:
        return None
    if float_name is None:
        return lambda: read_stored(file, stored)
    scale = np.asarray(_number(file, graph, _parameters(node)[0]))
    low, high = _limits(node, params)

    def quantized() -> Array:
        # quantized_decomposed multiplies by the reciprocal, which it takes in the scale's own type.
        values = read_stored(file, stored)
        inverse = params.expand(1.0 / scale, values.shape).astype(np.float32)
        _, zero_point = params.expand_to(values.shape)
        steps = np.rint(values.astype(np.float32) * inverse) + zero_point
        return np.asarray(np.clip(steps, low, high).astype(storage_dtype(params.dtype)))

    return quantized
