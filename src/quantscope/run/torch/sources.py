"""Where a tensor's error comes from, in PyTorch programs; see `run/onnx/compare/sources.py`.

The layer with float weights on the quantized network's inputs is the float program's part between
the tensors that these stand for, run once more.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from quantscope.run.compare.pair import NoSourcesError
from quantscope.run.torch.nodes import Values, call
from quantscope.run.torch.quantizers import is_quantize, operator_of

if TYPE_CHECKING:
    from torch.fx import Node

_CLIPS = frozenset({"relu", "relu_", "relu6", "relu6_", "clamp", "clamp_", "hardtanh", "hardtanh_"})


VariantKey = tuple[str, frozenset[str]]
"""A node of the float program, and the quantized values that stand for some before it."""


def kind_of(node: "Node") -> str:
    return operator_of(node).split(".")[-1]


def is_clip(node: "Node") -> bool:
    return kind_of(node) in _CLIPS


@dataclass(frozen=True)
class Leaf:
    """A quantized tensor that the layer reads, and the float value that it stands for.

    `value` is what the quantized program has it under, dequantized.
    """

    tensor: str
    value: str
    float_value: str
    reshaped: bool


@dataclass(frozen=True)
class Region:
    """`nodes` in order, those only that depend on a leaf, and on which, by name."""

    nodes: "tuple[Node, ...]" = field(repr=False)
    depends: Mapping[str, frozenset[str]] = field(repr=False)
    leaves: frozenset[str]
    has_constants: bool
    reaches_input: bool


@dataclass(frozen=True)
class Regions:
    """Walks back from a value to where given values begin; `changing` as in `writes`."""

    nodes: "Mapping[str, Node]" = field(repr=False)
    constants: Mapping[str, Any] = field(repr=False)
    graph_input: str
    changing: Collection[str] = ()

    def before(self, value: str, stops: Iterable[str]) -> Region:
        ends = {*stops, self.graph_input}
        waiting, seen = [value], {value}
        found: set[str] = set()
        leaves: set[str] = set()
        has_constants = False
        while waiting:
            name = waiting.pop()
            if name in ends:
                leaves.add(name)
            elif name in self.constants:
                has_constants = True
            elif name in self.nodes:
                found.add(name)
                fresh = {each.name for each in self.nodes[name].all_input_nodes} - seen
                seen |= fresh
                waiting += fresh
        if not seen.isdisjoint(self.changing):
            raise NoSourcesError("an operator writes into a value of its layer under another name")
        depends = {name: frozenset([name]) for name in leaves}
        kept = []
        for name, node in self.nodes.items():
            reads = [depends[x.name] for x in node.all_input_nodes if x.name in depends]
            if name in found and reads:
                depends[name] = frozenset().union(*reads)
                kept.append(node)
        return Region(
            nodes=tuple(kept),
            depends=depends,
            leaves=frozenset(leaves),
            has_constants=has_constants or len(kept) < len(found),
            reaches_input=self.graph_input in leaves,
        )

    def clip_before(self, value: str) -> "Node | None":
        """The clipping operator that the value went through last."""
        node = self.nodes.get(value)
        while node is not None and not is_clip(node):
            before = node.all_input_nodes
            node = self.nodes.get(before[0].name) if before else None
        return node


@dataclass(frozen=True)
class Pieces:
    """What to compute beside the two networks for one tensor.

    `layer` is the float program's part between its `inputs` and `float_value`. `same`: the
    quantized one does the same there. `clip` is the ReLU that the quantizer does.
    """

    float_value: str
    inputs: tuple[Leaf, ...]
    layer: Region = field(repr=False)
    same: bool
    clip: "Node | None" = field(repr=False)

    def chosen(self) -> Iterator[tuple[Leaf, ...]]:
        """The inputs to quantize together, as ONNX has them; all last."""
        if len(self.inputs) == 2:
            yield from ((leaf,) for leaf in self.inputs)
        else:
            yield from (self.inputs[:count] for count in range(1, len(self.inputs)))
        if not self.same:
            yield self.inputs

    def variants(self) -> Iterator[VariantKey]:
        """What `Variants` computes for it."""
        for leaves in self.chosen():
            for node in self.layer.nodes:
                if changed := self.changed(node.name, leaves):
                    yield node.name, changed

    def changed(self, value: str, leaves: Iterable[Leaf]) -> frozenset[str]:
        """The quantized ones of these inputs that the value depends on."""
        depends = self.layer.depends.get(value, frozenset())
        return frozenset(leaf.value for leaf in leaves if leaf.float_value in depends)


@dataclass(frozen=True)
class Variants:
    """The float program on one batch with some of its values replaced by quantized ones.

    `floats` are its own values, `quantized` those of the other program, `known` what was computed
    already: several tensors may need the same.
    """

    floats: Values
    quantized: Values
    model: str
    known: dict[VariantKey, Any] = field(default_factory=dict)

    def weighted(self, pieces: Pieces, before: Any) -> Any:
        """b: the layer with quantized weights, from what the quantizer is given."""
        if pieces.clip is None:
            return before
        return call(pieces.clip, lambda _: before, model=self.model, protect=True)

    def inherited(self, pieces: Pieces, weighted: Any) -> Any:
        """a: the layer with float weights on the quantized network's inputs."""
        return weighted if pieces.same else self.value(pieces, pieces.inputs)

    def one_by_one(self, pieces: Pieces) -> list[Any]:
        """The float layer with one input quantized at a time."""
        steps = [leaves for leaves in pieces.chosen() if len(leaves) < len(pieces.inputs)]
        return [self.value(pieces, leaves) for leaves in steps]

    def value(self, pieces: Pieces, leaves: Sequence[Leaf]) -> Any:
        """The float layer's output with these inputs quantized."""
        replaced = {leaf.float_value: self._as_float(leaf) for leaf in leaves}

        def read(name: str) -> Any:
            if name in replaced:
                return replaced[name]
            key = name, pieces.changed(name, leaves)
            return self.known[key] if key[1] else self.floats[name]

        for node in pieces.layer.nodes:
            key = node.name, pieces.changed(node.name, leaves)
            if key[1] and key not in self.known:
                self.known[key] = call(node, read, model=self.model, protect=True)
        return read(pieces.float_value)

    def _as_float(self, leaf: Leaf) -> Any:
        value = self.quantized[leaf.value]
        return value.reshape(self.floats[leaf.float_value].shape) if leaf.reshaped else value


def pieces(
    floats: Regions,
    quants: Regions,
    *,
    float_value: str,
    before_quantizer: str,
    leaves: Mapping[str, Leaf],
    does_relu: bool,
) -> Pieces:
    """`leaves` are by their names in the quantized program."""
    mine = quants.before(before_quantizer, leaves)
    if any(is_quantize(node) for node in mine.nodes):
        raise NoSourcesError("a quantized tensor that it depends on was not compared")
    inputs = tuple({leaves[n].tensor: leaves[n] for n in leaves if n in mine.leaves}.values())
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
    # Without constants both layers do the same to the same inputs.
    return Pieces(
        float_value=float_value,
        inputs=inputs,
        layer=theirs,
        same=not mine.has_constants and _kinds(mine) == _kinds(theirs),
        clip=floats.clip_before(float_value) if does_relu else None,
    )


def _kinds(region: Region) -> list[str]:
    return [kind_of(node) for node in region.nodes if not is_clip(node)]
