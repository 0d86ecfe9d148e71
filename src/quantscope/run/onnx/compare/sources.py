"""Where a tensor's error comes from: the pieces between the float value and the quantized one.

f is the float network's value and q the quantized one's. Between them stand
  a  the layer with float weights on the quantized network's inputs,
  b  the layer with quantized weights on those inputs,
  c  b clipped to what the quantizer can represent, not yet rounded;
inherited is a - f, weights b - a, clipping c - b, rounding q - c, which is measured as what the
others leave of the error q - f. A ReLU that the quantizer does is applied to a and b too, so that
cutting negatives is no error. A layer here is all that lies between one quantized tensor and those
before it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

import onnx

from quantscope.run.compare.pair import NoSourcesError
from quantscope.run.onnx.compare.merge import Canvas

_CLIPS = ("Relu", "Clip")


@dataclass(frozen=True)
class Leaf:
    """A quantized tensor that the layer reads: its names in the two halves of the graph."""

    tensor: str
    quantized: str
    float_value: str
    reshaped: bool


@dataclass(frozen=True)
class Region:
    """`nodes` in order, those only that depend on a leaf."""

    nodes: tuple[onnx.NodeProto, ...]
    leaves: frozenset[str]
    has_constants: bool
    reaches_input: bool


@dataclass
class Regions:
    """Walks back from a value to where given values begin."""

    nodes: tuple[onnx.NodeProto, ...]
    graph_input: str
    _makers: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        self._makers = {name: at for at, node in enumerate(self.nodes) for name in node.output}

    def maker(self, value: str) -> onnx.NodeProto | None:
        at = self._makers.get(value)
        return None if at is None else self.nodes[at]

    def before(self, value: str, stops: Iterable[str]) -> Region:
        ends = set(stops)
        waiting, seen = [value], {value}
        found: set[int] = set()
        leaves: set[str] = set()
        has_constants = False
        while waiting:
            name = waiting.pop()
            if name in ends or name == self.graph_input:
                leaves.add(name)
                continue
            at = self._makers.get(name)
            if at is None:
                has_constants = True
                continue
            node = self.nodes[at]
            if any(attribute.HasField("g") for attribute in node.attribute):
                raise NoSourcesError(f"{node.op_type} holds a graph of its own")
            found.add(at)
            fresh = {name for name in node.input if name} - seen
            seen |= fresh
            waiting += fresh
        live = set(leaves)
        kept = []
        for at in sorted(found):
            if live & set(self.nodes[at].input):
                live |= set(self.nodes[at].output)
                kept.append(self.nodes[at])
        return Region(
            nodes=tuple(kept),
            leaves=frozenset(leaves),
            has_constants=has_constants or len(kept) < len(found),
            reaches_input=self.graph_input in leaves,
        )


@dataclass(frozen=True)
class Pieces:
    """Names of a, b in the graph, and of the float layer with one input quantized at a time."""

    inherited: str
    """a; the same as b where the layer has no weights."""
    weighted: str
    """b"""
    leaves: tuple[str, ...]
    steps: tuple[str, ...]
    """Two inputs: float layer with only the first quantized, with only the second. More: with the
    first quantized, the first two, and so on, without the last, which is a."""


def pieces(
    canvas: Canvas,
    floats: Regions,
    quants: Regions,
    *,
    float_value: str,
    before_quantizer: str,
    leaves: dict[str, Leaf],
    does_relu: bool,
) -> Pieces:
    """Add the layer's variants to the graph. `leaves` are by their names in the quantized half."""
    mine = quants.before(before_quantizer, leaves)
    if any(node.op_type == "QuantizeLinear" for node in mine.nodes):
        raise NoSourcesError("a quantized tensor that it depends on was not compared")
    # A tensor that is dequantized several times is one input.
    inputs = list(dict.fromkeys(leaves[name] for name in leaves if name in mine.leaves))
    by_float: dict[str, Leaf] = {}
    for leaf in inputs:
        if by_float.setdefault(leaf.float_value, leaf).tensor != leaf.tensor:
            raise NoSourcesError(f"{leaf.tensor} stands for the same float value as another input")
    theirs = floats.before(float_value, by_float)
    if theirs.reaches_input and floats.graph_input not in by_float and not mine.reaches_input:
        raise NoSourcesError("the float layer reads something that the quantized one does not")
    if missing := by_float.keys() - theirs.leaves:
        tensor = by_float[next(iter(missing))].tensor
        raise NoSourcesError(f"the float layer does not read what {tensor} stands for")
    if not inputs and not mine.reaches_input:
        raise NoSourcesError("it does not depend on the model's input")
    relu = _relu(floats, float_value) if does_relu else None
    weighted = before_quantizer
    if relu is not None:
        renamed = {relu.input[0]: before_quantizer}
        canvas.clone(relu, renamed)
        weighted = renamed[relu.output[0]]

    def variant(quantized: Iterable[Leaf]) -> str:
        renamed = {leaf.float_value: _as_float(canvas, leaf) for leaf in quantized}
        for node in theirs.nodes:
            canvas.clone(node, renamed)
        return renamed.get(float_value, float_value)

    # Without constants both layers do the same to the same inputs.
    same = not mine.has_constants and _kinds(mine) == _kinds(theirs)
    inherited = weighted if same else variant(inputs)
    if len(inputs) < 2:
        steps: tuple[str, ...] = ()
    elif len(inputs) == 2:
        steps = tuple(variant([leaf]) for leaf in inputs)
    else:
        steps = tuple(variant(inputs[:count]) for count in range(1, len(inputs)))
    return Pieces(inherited, weighted, tuple(leaf.tensor for leaf in inputs), steps)


def _kinds(region: Region) -> list[str]:
    return [node.op_type for node in region.nodes if node.op_type not in _CLIPS]


def _relu(floats: Regions, value: str) -> onnx.NodeProto | None:
    """The clipping operator that the float value went through last."""
    node = floats.maker(value)
    while node is not None and node.op_type not in _CLIPS:
        node = floats.maker(node.input[0])
    return node


def _as_float(canvas: Canvas, leaf: Leaf) -> str:
    if not leaf.reshaped:
        return leaf.quantized
    shape = canvas.add("Shape", [leaf.float_value])
    return canvas.add("Reshape", [leaf.quantized, shape])
