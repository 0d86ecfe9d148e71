"""This module finds how the quantizers of a QDQ graph hang together.

It says which of them move with one another, and in which steps a bias counts.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from quantscope.model import Network, QuantTensor
from quantscope.model.onnx import MOVES_INTEGERS, subgraphs

Array = NDArray[Any]

_WITH_BIAS = frozenset({"Conv", "ConvTranspose", "Gemm"})
_BIAS_PLACE = 2


@dataclass(frozen=True)
class BiasSite:
    """A layer that adds an int32 bias, which counts in steps of factor * s_x * s_w.

    `node` reads the bias from `dequantize`, both places in the graph's node list. `x` and `w` are
    the quantized tensors behind the layer's other two inputs. `name` is the bias as a person calls
    it. `factor` is a Gemm's alpha, else 1.
    """

    layer: str
    name: str
    node: int
    dequantize: int
    x: str
    w: str
    factor: float


class QdqGraph:
    """An index of who makes and who reads each value, for a graph that stays as it is."""

    def __init__(self, proto: onnx.ModelProto) -> None:
        self.proto = proto
        graph = proto.graph
        self.makers = {
            name: index for index, node in enumerate(graph.node) for name in node.output if name
        }
        self.readers: dict[str, list[int]] = {}
        for index, node in enumerate(graph.node):
            for name in dict.fromkeys(reads(node)):
                self.readers.setdefault(name, []).append(index)
        self.initializers = {tensor.name: i for i, tensor in enumerate(graph.initializer)}
        self.inputs = {value.name for value in graph.input}
        self.outputs = {value.name for value in graph.output}
        self._arrays: dict[str, Array] = {}

    @cached_property
    def names(self) -> frozenset[str]:
        """All names of values and nodes, which a new one must differ from."""
        nodes = {node.name for node in self.proto.graph.node}
        return frozenset({*self.makers, *self.readers, *self.initializers, *self.inputs} | nodes)

    def node(self, index: int) -> onnx.NodeProto:
        node: onnx.NodeProto = self.proto.graph.node[index]
        return node

    def maker(self, name: str) -> onnx.NodeProto | None:
        index = self.makers.get(name)
        return None if index is None else self.node(index)

    def constant(self, name: str) -> onnx.TensorProto | None:
        """Give the stored tensor of an initializer or a Constant node; None if there is none."""
        if name in self.initializers:
            stored: onnx.TensorProto = self.proto.graph.initializer[self.initializers[name]]
            return stored
        node = self.maker(name)
        if node is None or node.op_type != "Constant":
            return None
        return next((a.t for a in node.attribute if a.name == "value"), None)

    def array(self, name: str) -> Array | None:
        """Give the numbers of a stored tensor, decoded once and not to be changed."""
        if name not in self._arrays:
            stored = self.constant(name)
            if stored is None:
                return None
            self._arrays[name] = numpy_helper.to_array(stored)
        return self._arrays[name]

    def before_moves(self, name: str) -> str:
        """Find the value whose numbers these are, back through layers that only move numbers."""
        node = self.maker(name)
        while node is not None and node.op_type in MOVES_INTEGERS and node.input:
            name = node.input[0]
            node = self.maker(name)
        return name


def reads(node: onnx.NodeProto) -> Iterator[str]:
    """List the names that a node reads, in its subgraphs too."""
    yield from (name for name in node.input if name)
    for attribute in node.attribute:
        for inner in subgraphs(attribute):
            for each in inner.node:
                yield from reads(each)
            yield from (value.name for value in inner.output)


@dataclass(frozen=True)
class Wiring:
    """The quantizers of each tensor, and the tensors that move along with it.

    Names are those of the network's tensors; numbers are places in the graph's node list.
    `scale_mates` have the scale in common, `zero_point_mates` the zero-point as well. `value_mates`
    hold the same numbers, moved about, with the same parameters, so that one cannot be switched off
    alone. None of them has the tensor itself.
    """

    graph: QdqGraph
    tensors: Mapping[str, QuantTensor]
    quantizers: Mapping[str, tuple[int, ...]]
    dequantizers: Mapping[str, tuple[int, ...]]
    scale_mates: Mapping[str, tuple[str, ...]]
    zero_point_mates: Mapping[str, tuple[str, ...]]
    value_mates: Mapping[str, tuple[str, ...]]
    bias_sites: tuple[BiasSite, ...]

    @cached_property
    def places(self) -> Mapping[str, int]:
        """The place of each tensor among all."""
        return {name: place for place, name in enumerate(self.tensors)}

    @cached_property
    def derived(self) -> frozenset[str]:
        """The names of biases that follow their layer's input and weights."""
        return frozenset(site.name for site in self.bias_sites)

    @cached_property
    def _sites(self) -> Mapping[str, tuple[int, ...]]:
        found: dict[str, list[int]] = {}
        for place, site in enumerate(self.bias_sites):
            for name in {site.name, site.x, site.w}:
                found.setdefault(name, []).append(place)
        return {name: tuple(places) for name, places in found.items()}

    def in_order(self, names: Iterable[str]) -> list[str]:
        """Give those of the names that are tensors, in the network's order."""
        return sorted((name for name in names if name in self.places), key=self.places.__getitem__)

    def sites_of(self, names: Iterable[str]) -> Iterator[BiasSite]:
        """Give the biases that are, or whose input or weights are, one of these; in their order.

        An edit reaches few of them: looking through all for each would go with the square of the
        layers when each layer is edited in turn.
        """
        for place in sorted({place for name in names for place in self._sites.get(name, ())}):
            yield self.bias_sites[place]

    def root(self, name: str) -> str:
        """Find the tensor whose quantizer states the parameters of this one."""
        follows = self.tensors[name].follows
        return name if follows is None else self.root(follows)


def wire(graph: QdqGraph, network: Network) -> Wiring:
    """Find what hangs together; `network` is the reading of just this graph."""
    tensors = {tensor.name: tensor for tensor in network.tensors}
    by_real = {n: t for t in tensors.values() for n in t.dequantized_names}
    sites = tuple(_bias_sites(graph, network, by_real))
    own = [t for t in tensors.values() if t.name not in {site.name for site in sites}]
    # Each kind of mates holds those before it: the same numbers have the same parameters.
    values = _Links(tensors)
    values.join(_same_numbers(graph, own, by_real))
    zeros = values.copy()
    zeros.join(_same(own, lambda t: (t.scale_name, t.zero_point_name) if t.scale_name else None))
    scales = zeros.copy()
    scales.join(_same(own, lambda t: t.scale_name))
    return Wiring(
        graph=graph,
        tensors=tensors,
        quantizers={t.name: _of_kind(graph, "QuantizeLinear", t.integer_names) for t in own},
        dequantizers={
            t.name: _of_kind(graph, "DequantizeLinear", t.dequantized_names)
            for t in tensors.values()
        },
        scale_mates=scales.mates(),
        zero_point_mates=zeros.mates(),
        value_mates=values.mates(),
        bias_sites=sites,
    )


def _of_kind(graph: QdqGraph, op_type: str, outputs: Iterable[str]) -> tuple[int, ...]:
    places = (graph.makers.get(name) for name in outputs)
    return tuple(i for i in places if i is not None and graph.node(i).op_type == op_type)


def _same_numbers(
    graph: QdqGraph, own: Sequence[QuantTensor], by_real: Mapping[str, QuantTensor]
) -> Iterator[tuple[str, str]]:
    """Find pairs of tensors that hold the same numbers with the same parameters."""
    by_integer = {n: t for t in own for n in t.integer_names}
    by_float: dict[str, list[QuantTensor]] = {}
    for tensor in own:
        if tensor.follows is not None:
            yield tensor.name, tensor.follows
        for integer in tensor.integer_names:
            before = by_integer.get(graph.before_moves(integer))
            if before is not None and before.params == tensor.params:
                yield tensor.name, before.name
        if tensor.float_name is None or tensor.has_data:
            continue
        source = graph.before_moves(tensor.float_name)
        moved = by_real.get(source)
        if moved is not None and source != tensor.float_name and moved.params == tensor.params:
            yield tensor.name, moved.name
        for other in by_float.setdefault(tensor.float_name, []):
            if other.params == tensor.params:
                yield tensor.name, other.name
        by_float[tensor.float_name].append(tensor)


def _same(tensors: Iterable[QuantTensor], key: Any) -> Iterator[tuple[str, str]]:
    """Pair each tensor with the first that has the same key; a key of None pairs with nothing."""
    first: dict[object, str] = {}
    for tensor in tensors:
        found = key(tensor)
        if found is not None:
            yield tensor.name, first.setdefault(found, tensor.name)


class _Links:
    """Groups of names that belong together, joined pair by pair."""

    def __init__(self, names: Iterable[str]) -> None:
        self.group = {name: {name} for name in names}

    def copy(self) -> "_Links":
        other = _Links(())
        # Names of one group share one set, in the copy too.
        made = {id(group): set(group) for group in self.group.values()}
        other.group = {name: made[id(group)] for name, group in self.group.items()}
        return other

    def join(self, pairs: Iterable[tuple[str, str]]) -> None:
        for one, other in pairs:
            if one in self.group and other in self.group:
                whole = self.group[one] | self.group[other]
                self.group |= dict.fromkeys(whole, whole)

    def mates(self) -> dict[str, tuple[str, ...]]:
        order = {name: place for place, name in enumerate(self.group)}
        return {
            name: tuple(sorted(group - {name}, key=order.__getitem__))
            for name, group in self.group.items()
        }


def _bias_sites(
    graph: QdqGraph, network: Network, by_real: Mapping[str, QuantTensor]
) -> Iterator[BiasSite]:
    """Find the layers whose stored int32 bias counts in the product of two quantized scales."""
    layers = {name: layer for layer in network.layers for name in (o.name for o in layer.outputs)}
    for index, node in enumerate(graph.proto.graph.node):
        if node.op_type not in _WITH_BIAS or len(node.input) <= _BIAS_PLACE:
            continue
        bias = node.input[_BIAS_PLACE]
        place = graph.makers.get(bias)
        layer = layers.get(node.output[0])
        if place is None or layer is None or graph.node(place).op_type != "DequantizeLinear":
            continue
        integers = graph.constant(graph.node(place).input[0])
        if integers is None or integers.data_type != onnx.TensorProto.INT32:
            continue
        if graph.array(graph.node(place).input[1]) is None:
            continue
        x, w = (by_real.get(graph.before_moves(name)) for name in node.input[:2])
        shown = by_real.get(bias)
        if x is None or w is None or x.params.scale.ndim or w.params.block_size:
            # Weights alone, or scales that no product can follow: the bias has a scale of its own.
            continue
        if w.params.scale.size not in (1, np.prod(integers.dims)):
            continue
        alpha = next((a for a in node.attribute if a.name == "alpha"), None)
        yield BiasSite(
            layer=layer.name,
            name=shown.name if shown else f"{layer.name}.bias",
            node=index,
            dequantize=place,
            x=x.name,
            w=w.name,
            factor=1.0 if alpha is None else float(helper.get_attribute_value(alpha)),
        )
