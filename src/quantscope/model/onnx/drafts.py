"""This module gathers quantized tensors while they are being found in an ONNX file."""

from dataclasses import dataclass, field
from functools import partial

import onnx_ir as ir

from quantscope.model.assemble import Draft
from quantscope.model.onnx.graph import OnnxGraph, input_names
from quantscope.model.onnx.quant_params import read_params


@dataclass
class QuantizedValues:
    """The drafts in the order of the file, and by the values that they describe.

    `absorbed` are the Q and DQ nodes that became parameters of a draft; other ones (of dynamic
    quantization) remain layers. `origins` lead from what absorbed nodes give back to the value
    before any chain of them.
    """

    drafts: list[Draft] = field(default_factory=list)
    by_integer: dict[str, Draft] = field(default_factory=dict)
    by_float: dict[str, list[Draft]] = field(default_factory=dict)
    by_dequantized: dict[str, Draft] = field(default_factory=dict)
    absorbed: set[ir.Node] = field(default_factory=set)
    origins: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

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
) -> Draft:
    """Find or make the draft of an integer value that somebody reads with this scale.

    A draft whose parameters were only carried over takes those that are stated here.
    """
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
    )
    if before is None:
        draft = Draft(params, [integer], scale, zero_point or None, kind.shape)
        if stored is not None:
            draft.read_integers = partial(graph.read, stored)
        register(found, draft)
        return draft
    if before.params != params:
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


def padded_inputs(node: ir.Node, count: int) -> tuple[str, ...]:
    """Give the input names, with "" for those that the node does not have."""
    names = input_names(node)
    return (*names, *[""] * (count - len(names)))
