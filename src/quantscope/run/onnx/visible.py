"""Find the integers that the kernels which ship make, to read without changing the kernels.

With an integer value among a model's outputs, the optimizer may fuse otherwise. Where it still
makes that value by the very operators that it has without, they are what to read: in the model's
own optimized graph, which is then run as it is.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import onnx

from quantscope.run.onnx.seeing import add_outputs
from quantscope.run.onnx.suffix import Digest, ValueGraph, optimize, value_graph

CHANGES_KERNELS = "cannot be seen without changing the kernels that run"
# What lies between a kernel's integers and the layout that the file states.
_LAYOUT_OPS = frozenset({"Identity", "Transpose"})


@dataclass(frozen=True)
class Sight:
    """A value of an optimized graph, and the operators, in order, that lay it out as stated.

    `quantize`: the value is what the file's quantizer reads, or the model's output, which is what
    it gives. The optimizer turned that quantizer's int8 into uint8, which is the same numbers
    counted from another zero.
    """

    origin: str
    layout: tuple[onnx.NodeProto, ...] = ()
    quantize: bool = False


@dataclass(frozen=True, eq=False)
class Visible:
    """The values of a model that can be seen, by name in the file, and why the rest cannot.

    `plain` is the model's optimized graph, as nobody looks into it.
    """

    proto: onnx.ModelProto
    plain: ValueGraph
    sights: Mapping[str, Sight]
    unseen: Mapping[str, str]

    def digest(self, name: str) -> Digest:
        return self.graph.digests[self.values[name]]

    @cached_property
    def values(self) -> dict[str, str]:
        """The names in `graph` of all that can be seen, by their names in the file."""
        return {
            name: f"seen/{name}" if sight.layout or sight.quantize else sight.origin
            for name, sight in self.sights.items()
        }

    @cached_property
    def graph(self) -> ValueGraph:
        """The optimized graph, and at its end what shows the values as the file states them."""
        proto = onnx.ModelProto()
        proto.CopyFrom(self.plain.proto)
        stored = {tensor.name: tensor for tensor in self.proto.graph.initializer}
        makers = {node.output[0]: node for node in self.proto.graph.node}
        for name, sight in self.sights.items():
            value = sight.origin
            steps = [makers[name]] if sight.quantize else sight.layout
            for left, node in reversed(list(enumerate(reversed(steps)))):
                made = proto.graph.node.add()
                made.CopyFrom(node)
                made.input[0] = value
                value = f"seen/{name}" + f"/{left}" * bool(left)
                made.name = made.output[0] = value
                for place, constant in enumerate(node.input[1:], start=1):
                    tensor = proto.graph.initializer.add()
                    tensor.CopyFrom(stored[constant])
                    tensor.name = made.input[place] = f"{value}/{place}"
        return value_graph(proto)


def find_visible(
    proto: onnx.ModelProto,
    plain: ValueGraph,
    names: Collection[str],
    *,
    int8_kernels: bool | None = None,
) -> Visible:
    """Find how each value can be seen; `plain` is the optimized graph of the model as it is.

    One session is opened for each name.
    """
    values = {digest: name for name, digest in plain.digests.items()}
    quantized = {
        (plain.digests[node.input[0]], plain.digests[node.input[1]])
        for node in plain.proto.graph.node
        if node.op_type == "QuantizeLinear"
    }
    stored = {tensor.name for tensor in proto.graph.initializer}
    makers = {name: node for node in proto.graph.node for name in node.output}
    sights: dict[str, Sight] = {}
    for name in names:
        graph = value_graph(optimize(add_outputs(proto, [name]), int8_kernels=int8_kernels))
        sight = _sight(graph, name, values)
        # The quantizer is copied to the graph's end, with its parameters: they must be stored.
        if sight is None and stored.issuperset(makers[name].input[1:]):
            sight = _quantizer_sight(graph, name, values, quantized)
            place = _output_of(proto, makers[name])
            if sight is None and place is not None:
                sight = Sight(plain.outputs[place], quantize=True)
        if sight is not None:
            sights[name] = sight
    unseen = {name: CHANGES_KERNELS for name in names if name not in sights}
    return Visible(proto, plain, sights, unseen)


def carry_over(
    known: Visible, proto: onnx.ModelProto, plain: ValueGraph, names: Collection[str]
) -> Visible | None:
    """Find the same values in another model that is optimized alike; None where it is not."""
    same = _aligned(known.plain, plain)
    if same is None:
        return None
    sights = {n: replace(s, origin=same[s.origin]) for n, s in known.sights.items() if n in names}
    unseen = {name: why for name, why in known.unseen.items() if name in names}
    return Visible(proto, plain, sights, unseen)


def _sight(graph: ValueGraph, name: str, values: Mapping[Digest, str]) -> Sight | None:
    """Go back from a value past operators that only lay it out, to one that runs anyway."""
    layout: list[onnx.NodeProto] = []
    while graph.digests[name] not in values:
        maker = graph.makers.get(name)
        if maker is None or maker.op_type not in _LAYOUT_OPS:
            return None
        layout.insert(0, maker)
        name = maker.input[0]
    return Sight(values[graph.digests[name]], tuple(layout))


def _quantizer_sight(
    graph: ValueGraph,
    name: str,
    values: Mapping[Digest, str],
    quantized: Collection[tuple[Digest, Digest]],
) -> Sight | None:
    """See a value by what its quantizer reads, where the plain graph quantizes that alike."""
    maker = graph.makers.get(name)
    if maker is None or maker.op_type != "QuantizeLinear":
        return None
    before, scale = (graph.digests[given] for given in maker.input[:2])
    return Sight(values[before], quantize=True) if (before, scale) in quantized else None


def _output_of(proto: onnx.ModelProto, quantizer: onnx.NodeProto) -> int | None:
    """Say which of the model's outputs is this quantizer's integers, as real numbers."""
    if quantizer.op_type != "QuantizeLinear":
        return None
    outputs = [value.name for value in proto.graph.output]
    given = [quantizer.output[0], *quantizer.input[1:]]
    return next(
        (
            outputs.index(node.output[0])
            for node in proto.graph.node
            if node.op_type == "DequantizeLinear"
            and node.output[0] in outputs
            and list(node.input) == given
        ),
        None,
    )


def _aligned(one: ValueGraph, other: ValueGraph) -> dict[str, str] | None:
    """Match two graphs operator by operator; give the second's values by the first's, else None."""
    if len(one.proto.graph.node) != len(other.proto.graph.node):
        return None
    same = dict(zip(one.inputs, other.inputs, strict=True))
    known = set(other.inputs)
    for first, second in zip(one.proto.graph.node, other.proto.graph.node, strict=True):
        alike = (
            (first.op_type, first.domain, first.name)
            == (second.op_type, second.domain, second.name)
            and list(first.attribute) == list(second.attribute)
            and [same.get(name) for name in first.input]
            == [name if name in known else None for name in second.input]
            and len(first.output) == len(second.output)
        )
        if not alike:
            return None
        same |= dict(zip(first.output, second.output, strict=True))
        known |= set(second.output)
    return same
