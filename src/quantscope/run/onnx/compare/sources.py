"""The pieces of a tensor's error in the comparison's graph; see `run/compare/sources.py`.

What lies between the float value and the quantized one is computed by copies of the float half's
nodes that read values of the quantized half.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import onnx

from quantscope.run.compare import Leaf, NoSourcesError, Pieces
from quantscope.run.onnx.compare.merge import Canvas

_CLIPS = ("Relu", "Clip")
_SIZES = ("Shape", "Size")


@dataclass(frozen=True, eq=False)
class Half:
    """One of the two networks of a `Canvas`, as the walk to a layer's inputs sees it."""

    nodes: tuple[onnx.NodeProto, ...] = field(repr=False)
    inputs: tuple[str, ...]

    @cached_property
    def _places(self) -> dict[str, int]:
        # What a shape says does not change with the values: a walk back ends there.
        of_values = ((at, node) for at, node in enumerate(self.nodes) if node.op_type not in _SIZES)
        return {name: at for at, node in of_values for name in node.output}

    @cached_property
    def _sizes(self) -> frozenset[str]:
        found = (node.output for node in self.nodes if node.op_type in _SIZES)
        return frozenset(name for names in found for name in names)

    def maker(self, value: str) -> onnx.NodeProto | None:
        place = self.place_of_maker(value)
        return None if place is None else self.nodes[place]

    def place_of_maker(self, value: str) -> int | None:
        return self._places.get(value)

    def is_constant(self, value: str) -> bool:
        return value not in self._places and value not in self._sizes

    def reads(self, node: onnx.NodeProto) -> list[str]:
        return [name for name in node.input if name]

    def makes(self, node: onnx.NodeProto) -> list[str]:
        return [name for name in node.output if name]

    def kind(self, node: onnx.NodeProto) -> str:
        return node.op_type

    def is_clip(self, node: onnx.NodeProto) -> bool:
        return node.op_type in _CLIPS

    def is_quantizer(self, node: onnx.NodeProto) -> bool:
        return node.op_type == "QuantizeLinear"

    def check_region(self, nodes: Iterable[onnx.NodeProto], values: Collection[str]) -> None:
        del values
        for node in nodes:
            if any(attribute.HasField("g") for attribute in node.attribute):
                raise NoSourcesError(f"{node.op_type} holds a graph of its own")


@dataclass(frozen=True)
class NamedPieces:
    """Names in the graph: of a, of b, and of the float layer at each of `Pieces.steps`."""

    inherited: str
    """a; the same as b where the layer has no weights."""
    weighted: str
    """b"""
    steps: tuple[str, ...]


def add_pieces(
    canvas: Canvas, pieces: Pieces[onnx.NodeProto], before_quantizer: str
) -> NamedPieces:
    """Add the layer's variants to the graph."""
    weighted = before_quantizer
    if pieces.clip is not None:
        renamed = {pieces.clip.input[0]: before_quantizer}
        canvas.clone(pieces.clip, renamed)
        weighted = renamed[pieces.clip.output[0]]
    inherited = weighted if pieces.same else _add_variant(canvas, pieces, pieces.inputs)
    steps = tuple(_add_variant(canvas, pieces, leaves) for leaves in pieces.steps)
    return NamedPieces(inherited, weighted, steps)


def _add_variant(canvas: Canvas, pieces: Pieces[onnx.NodeProto], quantized: Iterable[Leaf]) -> str:
    """Add the float layer once more, on these of its inputs as the quantized network has them."""
    renamed = {leaf.float_value: _as_float(canvas, leaf) for leaf in quantized}
    for node in pieces.layer.nodes:
        canvas.clone(node, renamed)
    return renamed.get(pieces.float_value, pieces.float_value)


def _as_float(canvas: Canvas, leaf: Leaf) -> str:
    value, order = leaf.value, leaf.order
    if leaf.reshaped:
        shape = canvas.add("Shape", [leaf.float_value])
        if order:
            shape = canvas.add("Gather", [shape, canvas.constant(np.array(order, np.int64))])
        value = canvas.add("Reshape", [value, shape])
    if not order:
        return value
    back = sorted(range(len(order)), key=order.__getitem__)
    return canvas.add("Transpose", [value], perm=back)
