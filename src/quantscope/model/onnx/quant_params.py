"""This module reads scales and zero-points, and checks them against the tensor they belong to."""

from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np
import onnx_ir as ir

from quantscope.arithmetic import DTYPE_NAMES, QuantParams
from quantscope.errors import BadConfigError, BadModelError
from quantscope.model.assemble import Draft
from quantscope.model.network import Array, Shape
from quantscope.model.onnx.graph import OnnxGraph, input_names, output_names
from quantscope.model.onnx.operators import MOVES_INTEGERS


class NotShownError(Exception):
    """A quantization that is no fault of the file but that `QuantParams` cannot hold."""


def read_params(
    graph: OnnxGraph,
    *,
    tensor: str,
    scale: str,
    zero_point: str,
    dtype: str,
    axis: int | None,
    block_size: int = 0,
    shape: Shape | None = None,
    lies_along_axis: bool = False,
) -> QuantParams:
    """Read the parameters stated for `tensor`; raise `NotShownError` for those computed in a run.

    `axis` counts only where the scale has several values: a list of one is a single scale.
    `lies_along_axis`: it may have more axes than one, all but that of its channels of length 1.
    """
    stored_scale = graph.array(scale)
    stored_zero_point = graph.array(zero_point) if zero_point else None
    if stored_scale is None or (zero_point and stored_zero_point is None):
        raise NotShownError("its scale is computed when the model runs")
    if dtype not in DTYPE_NAMES:
        raise NotShownError(f"{dtype} is not a known quantized type")
    if stored_scale.size == 1 and not block_size:
        stored_scale = stored_scale.reshape(())
        axis = None
    elif lies_along_axis and stored_scale.size == max(stored_scale.shape):
        stored_scale = stored_scale.reshape(-1)
        if stored_zero_point is not None:
            stored_zero_point = stored_zero_point.reshape(-1)
    rank = None if shape is None else len(shape)
    if axis is not None and axis < 0 and rank is not None and rank + axis >= 0:
        axis += rank
    params = checked_params(
        graph,
        tensor=tensor,
        scale=stored_scale,
        zero_point=stored_zero_point,
        dtype=dtype,
        axis=axis,
        block_size=block_size,
    )
    _check_fit(graph, tensor, params, shape)
    return params


def checked_params(
    graph: OnnxGraph,
    *,
    tensor: str,
    scale: Array,
    zero_point: Array | None,
    dtype: str,
    axis: int | None = None,
    block_size: int = 0,
) -> QuantParams:
    """Make parameters of what the file holds; raise one line that names the tensor and file."""
    try:
        return QuantParams(scale, zero_point, dtype, axis=axis, block_size=block_size)
    except BadConfigError as error:
        # onnxruntime writes such scales for the bias of a channel whose weights are all but zero.
        values = scale.astype(np.float32)
        if (values > 0).all() and (values < np.finfo(np.float32).tiny).any():
            raise NotShownError("a scale of it is denormal, too small to divide by") from None
        raise _wrong(graph, tensor, str(error)) from None


def _check_fit(graph: OnnxGraph, tensor: str, params: QuantParams, shape: Shape | None) -> None:
    """Raise unless the scale has one value per channel, or per block."""
    if shape is None or params.axis is None:
        return
    if not -len(shape) <= params.axis < len(shape):
        found = f"axis {params.axis} of a tensor with {len(shape)} dimensions"
        raise _wrong(graph, tensor, f"its scales belong to {found}")
    along = shape[params.axis]
    if not params.block_size:
        if isinstance(along, int) and along != params.scale.size:
            found = f"{params.scale.size} scales for {along} channels"
            raise _wrong(graph, tensor, f"there are {found} along axis {params.axis}")
        return
    if all(isinstance(dim, int) for dim in shape):
        try:
            params.expand(np.empty(params.scale.shape, np.bool_), tuple(map(_number, shape)))
        except BadConfigError as error:
            raise _wrong(graph, tensor, str(error)) from None


def _number(dim: object) -> int:
    assert isinstance(dim, int)
    return dim


def _wrong(graph: OnnxGraph, tensor: str, reason: str) -> BadModelError:
    text = reason.removesuffix(".")
    return BadModelError(f"The quantization of {tensor!r} in {graph.file.path} is wrong: {text}")


class RunTimeInput(NamedTuple):
    """The parameters of integers whose scale and zero-point are found when the model runs."""

    source: str
    dtype: str


class RunTimeProduct(NamedTuple):
    """The real result of a product of such integers, and the bias in it ("": none)."""

    output: str
    bias: str


@dataclass
class QuantizedValues:
    """The drafts in the order of the file, and by the values that they describe.

    `absorbed` are the Q and DQ nodes that became parameters of a draft; other ones remain layers.
    `origins` lead from what absorbed nodes give back to the value before any chain of them.
    Of dynamic quantization, `run_time` has the integers by name, `products` what became of
    them, by the node that multiplies, and `merged` the nodes that are part of such a layer.
    """

    drafts: list[Draft] = field(default_factory=list)
    by_integer: dict[str, Draft] = field(default_factory=dict)
    by_float: dict[str, list[Draft]] = field(default_factory=dict)
    by_dequantized: dict[str, Draft] = field(default_factory=dict)
    absorbed: set[ir.Node] = field(default_factory=set)
    origins: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    run_time: dict[str, RunTimeInput] = field(default_factory=dict)
    products: dict[ir.Node, RunTimeProduct] = field(default_factory=dict)
    merged: set[ir.Node] = field(default_factory=set)

    def written(self, name: str) -> list[Draft]:
        """Give the drafts of a value that a layer writes: of its integers, or of each quantizer."""
        integer = self.by_integer.get(name)
        return [integer] if integer else self.by_float.get(name, [])


def register(found: QuantizedValues, draft: Draft) -> None:
    """Add a draft, to be found by its integers and by what it quantizes."""
    found.drafts.append(draft)
    for name in draft.integer_names:
        found.by_integer[name] = draft
    if draft.float_name:
        found.by_float.setdefault(draft.float_name, []).append(draft)


def describe(
    graph: OnnxGraph,
    found: QuantizedValues,
    integer: str,
    scale: str,
    zero_point: str,
    *,
    axis: int | None,
    block_size: int = 0,
    lies_along_axis: bool = False,
) -> Draft:
    """Find or make the draft of an integer value that somebody reads with this scale.

    A draft whose parameters were only carried over takes those that are stated here.
    """
    _describe_table(graph, found, integer, scale, zero_point)
    kind = graph.type(integer)
    before = found.by_integer.get(integer)
    stored = graph.tensor(integer)
    dtype = before.params.dtype if before else kind.dtype
    if dtype == "unknown" and zero_point:
        dtype = graph.type(zero_point).dtype
    params = read_params(
        graph,
        tensor=integer,
        scale=scale,
        zero_point=zero_point,
        dtype=dtype,
        axis=axis,
        block_size=block_size,
        shape=kind.shape,
        lies_along_axis=lies_along_axis,
    )
    if before is None:
        draft = Draft(params, [integer], scale, zero_point or None, kind.shape)
        if stored is not None:
            draft.read_integers = partial(graph.read, stored)
        register(found, draft)
        return draft
    if not before.params.has_grid_of(params):
        if before.follows is None:
            found.notes.append(
                f"{integer} is written with one scale or zero-point and read with another; "
                "the written one is shown"
            )
            return before
        before.params = params
    if before.follows is not None:
        before.scale_name, before.zero_point_name = scale, zero_point or None
        before.follows = None
    return before


def _describe_table(
    graph: OnnxGraph, found: QuantizedValues, integer: str, scale: str, zero_point: str
) -> None:
    """Make a draft of the stored table that integers are rows of, as embeddings are quantized.

    The integers and what they were on the way from there follow it.
    """
    scales = graph.array(scale)
    path: list[ir.Node] = []
    value = integer
    while value not in found.by_integer and graph.tensor(value) is None:
        maker = graph.makers.get(value)
        if maker is None or maker.op_type not in MOVES_INTEGERS:
            return
        path.append(maker)
        value = input_names(maker)[0]
    if not path or value in found.by_integer or scales is None or scales.size != 1:
        return
    describe(graph, found, value, scale, zero_point, axis=None)
    for maker in reversed(path):
        carry_over(graph, found, maker)


def padded_inputs(node: ir.Node, count: int) -> tuple[str, ...]:
    """Give the input names, with "" for those that the node does not have."""
    names = input_names(node)
    return (*names, *[""] * (count - len(names)))


def carry_over(graph: OnnxGraph, found: QuantizedValues, node: ir.Node) -> None:
    """Let what a node moves keep its source's parameters; scales by channel may not fit it."""
    source = found.by_integer.get(padded_inputs(node, 1)[0])
    if source is None or source.params.scale.ndim:
        return
    for name in filter(None, output_names(node)):
        shape = graph.type(name).shape
        names = source.scale_name, source.zero_point_name
        register(found, Draft(source.params, [name], *names, shape, follows=source))
