"""A tensor's error comes from pieces: those between the float value and the quantized one.

f is the float network's value and q the quantized one's. Between them stand
  a  the layer with float weights on the quantized network's inputs,
  b  the layer with quantized weights on those inputs,
  c  b clipped to what the quantizer can represent, not yet rounded;
inherited is a - f, weights b - a, clipping c - b, rounding q - c, which is measured as what the
others leave of the error q - f. A ReLU that the quantizer does is applied to a and b too, so that
cutting negatives is no error. A layer here is all that lies between one quantized tensor and those
before it.

`find_pieces` says what must be computed for one tensor. A framework shows it both networks as a
`SourceGraph`, and computes the pieces in its own way.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

NodeT = TypeVar("NodeT")

SEVERAL_SCALES = "it has more than one scale"


class NoSourcesError(Exception):
    """Why a tensor's error cannot be taken apart."""


class SourceGraph(Protocol[NodeT]):
    """One of the two networks: values by name, and the nodes that make them in running order."""

    @property
    def inputs(self) -> Collection[str]: ...

    @property
    def nodes(self) -> Sequence[NodeT]: ...

    def place_of_maker(self, value: str) -> int | None:
        """Give the place in `nodes` of the one that makes the value; None where none does."""

    def is_constant(self, value: str) -> bool:
        """Say whether a value that no node makes is stored in the file."""

    def reads(self, node: NodeT) -> Sequence[str]: ...

    def makes(self, node: NodeT) -> Sequence[str]: ...

    def kind(self, node: NodeT) -> str:
        """Give the operator's name, without what only tells its versions apart."""

    def is_clip(self, node: NodeT) -> bool:
        """Say whether the operator is a ReLU or cuts values to a range as a ReLU does."""

    def is_quantizer(self, node: NodeT) -> bool: ...

    def check_region(self, nodes: Iterable[NodeT], values: Collection[str]) -> None:
        """Raise `NoSourcesError` where these nodes cannot run again on other values.

        `values` are all that they read and make, with those at which the region begins.
        """


@dataclass(frozen=True)
class Leaf:
    """A quantized tensor that a layer reads.

    `value` is what the quantized network has it under, dequantized, and `float_value` the value of
    the float network that it stands for, `reshaped` where that has another shape. `order` is that
    of its axes; see `TensorPair`.
    """

    tensor: str
    value: str
    float_value: str
    reshaped: bool
    order: tuple[int, ...] = ()


@dataclass(frozen=True)
class Region(Generic[NodeT]):
    """The nodes between a value and those at which a walk back from it ended, its `leaves`.

    `nodes` are in order, those only that depend on a leaf; `depends` says on which, by value.
    """

    nodes: tuple[NodeT, ...] = field(repr=False)
    depends: Mapping[str, frozenset[str]] = field(repr=False)
    leaves: frozenset[str]
    has_constants: bool
    reaches_input: bool


def region_before(graph: SourceGraph[NodeT], value: str, stops: Iterable[str]) -> Region[NodeT]:
    """Walk back from a value to where the values in `stops`, or the network's inputs, begin."""
    ends = {*stops, *graph.inputs}
    waiting, seen = [value], {value}
    found: set[int] = set()
    leaves: set[str] = set()
    has_constants = False
    while waiting:
        name = waiting.pop()
        if name in ends:
            leaves.add(name)
            continue
        place = graph.place_of_maker(name)
        if place is None:
            has_constants |= graph.is_constant(name)
            continue
        found.add(place)
        fresh = set(graph.reads(graph.nodes[place])) - seen
        seen |= fresh
        waiting += fresh
    nodes = [graph.nodes[place] for place in sorted(found)]
    graph.check_region(nodes, seen)
    depends = {name: frozenset([name]) for name in leaves}
    kept = []
    for node in nodes:
        if reads := [depends[name] for name in graph.reads(node) if name in depends]:
            depends |= dict.fromkeys(graph.makes(node), frozenset().union(*reads))
            kept.append(node)
    return Region(
        nodes=tuple(kept),
        depends=depends,
        leaves=frozenset(leaves),
        has_constants=has_constants or len(kept) < len(nodes),
        reaches_input=not leaves.isdisjoint(graph.inputs),
    )


@dataclass(frozen=True)
class Pieces(Generic[NodeT]):
    """The values to compute beside the two networks for one tensor.

    `layer` is the float network's part between its `inputs` and `float_value`. `same`: the
    quantized one does the same there, so that a is b. `clip` is the ReLU that the quantizer does.
    """

    float_value: str
    inputs: tuple[Leaf, ...]
    layer: Region[NodeT] = field(repr=False)
    same: bool
    clip: NodeT | None = field(repr=False)

    @property
    def steps(self) -> tuple[tuple[Leaf, ...], ...]:
        """Give the inputs to quantize together so that each one's part of a - f can be told.

        Two inputs: only the first, only the second. More: the first, the first two, and so on,
        without all of them, which is a.
        """
        if len(self.inputs) == 2:
            return tuple((leaf,) for leaf in self.inputs)
        return tuple(self.inputs[:count] for count in range(1, len(self.inputs)))

    def chosen(self) -> Iterator[tuple[Leaf, ...]]:
        """Give each set of inputs with which the float layer runs again; all of them last."""
        yield from self.steps
        if not self.same:
            yield self.inputs

    def changed(self, value: str, leaves: Iterable[Leaf]) -> frozenset[str]:
        """Give the quantized ones of these inputs that a value of the float layer depends on."""
        depends = self.layer.depends.get(value, frozenset())
        return frozenset(leaf.value for leaf in leaves if leaf.float_value in depends)


def find_pieces(
    floats: SourceGraph[NodeT],
    quants: SourceGraph[NodeT],
    *,
    tensor: str,
    float_value: str,
    before_quantizer: str,
    leaves: Mapping[str, Leaf],
    does_relu: bool,
) -> Pieces[NodeT]:
    """Say what must be computed for a tensor, or raise `NoSourcesError`.

    `leaves` are all compared tensors, by each name that the quantized network has for them.
    """
    others = {name: leaf for name, leaf in leaves.items() if leaf.tensor != tensor}
    mine = region_before(quants, before_quantizer, others)
    if any(quants.is_quantizer(node) for node in mine.nodes):
        raise NoSourcesError("a quantized tensor that it depends on was not compared")
    # A tensor that is dequantized several times is one input.
    inputs = tuple(dict.fromkeys(leaf for name, leaf in others.items() if name in mine.leaves))
    by_float: dict[str, Leaf] = {}
    for leaf in inputs:
        if by_float.setdefault(leaf.float_value, leaf).tensor != leaf.tensor:
            raise NoSourcesError(f"{leaf.tensor} stands for the same float value as another input")
    theirs = region_before(floats, float_value, by_float)
    unpaired_inputs = theirs.leaves & set(floats.inputs) - by_float.keys()
    if unpaired_inputs and not mine.reaches_input:
        raise NoSourcesError("the float layer reads something that the quantized one does not")
    if missing := by_float.keys() - theirs.leaves:
        absent = by_float[next(iter(missing))].tensor
        raise NoSourcesError(f"the float layer does not read what {absent} stands for")
    if not inputs and not mine.reaches_input:
        raise NoSourcesError("it does not depend on the model's input")
    # Without constants both layers do the same to the same inputs.
    same = not mine.has_constants and _kinds(quants, mine) == _kinds(floats, theirs)
    clip = _last_clip(floats, float_value) if does_relu else None
    return Pieces(float_value, inputs, theirs, same, clip)


def _kinds(graph: SourceGraph[NodeT], region: Region[NodeT]) -> list[str]:
    return [graph.kind(node) for node in region.nodes if not graph.is_clip(node)]


def _last_clip(graph: SourceGraph[NodeT], value: str) -> NodeT | None:
    """Find the clipping operator that the value went through last."""
    place = graph.place_of_maker(value)
    while place is not None and not graph.is_clip(graph.nodes[place]):
        reads = graph.reads(graph.nodes[place])
        place = graph.place_of_maker(reads[0]) if reads else None
    return None if place is None else graph.nodes[place]
