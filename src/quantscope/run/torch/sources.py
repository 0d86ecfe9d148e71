"""The pieces of a tensor's error in PyTorch programs; see `run/compare/sources.py`.

The layer with float weights on the quantized network's inputs is the float program's part between
the tensors that these stand for, run once more.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from quantscope.run.compare import Leaf, NoSourcesError, Pieces
from quantscope.run.torch.nodes import Values, call
from quantscope.run.torch.quantizers import is_quantize, operator_of

if TYPE_CHECKING:
    from torch.fx import Node

_CLIPS = frozenset({"relu", "relu_", "relu6", "relu6_", "clamp", "clamp_", "hardtanh", "hardtanh_"})


VariantKey = tuple[str, frozenset[str]]
"""A node of the float program, and the quantized values that stand for some before it."""


@dataclass(frozen=True, eq=False)
class NodeGraph:
    """A program, as the walk to a layer's inputs sees it; `changing` as in `writes`."""

    by_name: "Mapping[str, Node]" = field(repr=False)
    constants: Mapping[str, Any] = field(repr=False)
    inputs: Collection[str]
    changing: Collection[str] = ()

    @cached_property
    def nodes(self) -> "tuple[Node, ...]":
        return tuple(self.by_name.values())

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name: place for place, name in enumerate(self.by_name)}

    def place_of_maker(self, value: str) -> int | None:
        return self._places.get(value)

    def is_constant(self, value: str) -> bool:
        return value in self.constants

    def reads(self, node: "Node") -> list[str]:
        return [each.name for each in node.all_input_nodes]

    def makes(self, node: "Node") -> list[str]:
        return [node.name]

    def kind(self, node: "Node") -> str:
        return operator_of(node).split(".")[-1]

    def is_clip(self, node: "Node") -> bool:
        return self.kind(node) in _CLIPS

    def is_quantizer(self, node: "Node") -> bool:
        return is_quantize(node)

    def check_region(self, nodes: "Iterable[Node]", values: Collection[str]) -> None:
        del nodes
        if not set(values).isdisjoint(self.changing):
            raise NoSourcesError("an operator writes into a value of its layer under another name")


def variants_of(pieces: "Pieces[Node]") -> Iterator[VariantKey]:
    """Give what `Variants` computes for a tensor."""
    for leaves in pieces.chosen():
        for node in pieces.layer.nodes:
            if changed := pieces.changed(node.name, leaves):
                yield node.name, changed


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

    def weighted(self, pieces: "Pieces[Node]", before: Any) -> Any:
        """b: the layer with quantized weights, from what the quantizer is given."""
        if pieces.clip is None:
            return before
        return call(pieces.clip, lambda _: before, model=self.model, protect=True)

    def inherited(self, pieces: "Pieces[Node]", weighted: Any) -> Any:
        """a: the layer with float weights on the quantized network's inputs."""
        return weighted if pieces.same else self.value(pieces, pieces.inputs)

    def one_by_one(self, pieces: "Pieces[Node]") -> list[Any]:
        """The float layer with one input quantized at a time."""
        return [self.value(pieces, leaves) for leaves in pieces.steps]

    def value(self, pieces: "Pieces[Node]", leaves: Sequence[Leaf]) -> Any:
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
