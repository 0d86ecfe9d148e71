"""The integers that the kernels which ship make, read without changing the kernels.

With an integer value among a model's outputs, the optimizer may fuse otherwise. Where it still
makes that value by the very operators that it has without, they are what to read: in the model's
own optimized graph, which is then run as it is.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import onnx

from quantscope.run.capture import instrumented
from quantscope.run.suffix_graph import Digest, ValueGraph, value_graph
from quantscope.run.suffix_open import optimized

CHANGES_KERNELS = "cannot be seen without changing the kernels that run"
# What lies between a kernel's integers and the layout that the file states.
_LAYOUT_OPS = frozenset({"Identity", "Transpose"})


@dataclass(frozen=True)
class Sight:
    """A value of an optimized graph, and the operators, in order, that lay it out as stated."""

    origin: str
    layout: tuple[onnx.NodeProto, ...] = ()


@dataclass(frozen=True, eq=False)
class Visible:
    """Of an optimized model: what can be seen by its name in the file, and why the rest cannot."""

    plain: ValueGraph
    sights: Mapping[str, Sight]
    unseen: Mapping[str, str]

    def digest(self, name: str) -> Digest:
        return self.plain.digests[self.sights[name].origin]

    def graph(self) -> tuple[ValueGraph, dict[str, str]]:
        """The optimized graph with all that can be seen, and the values' names in it."""
        proto = onnx.ModelProto()
        proto.CopyFrom(self.plain.proto)
        found = {}
        for name, sight in self.sights.items():
            value = sight.origin
            for step, node in enumerate(sight.layout):
                made = proto.graph.node.add()
                made.CopyFrom(node)
                made.name = f"seen/{name}/{step}"
                made.input[:] = [value]
                value = made.name
                made.output[:] = [value]
            found[name] = value
        return value_graph(proto), found


def visible(
    proto: onnx.ModelProto,
    plain: ValueGraph,
    names: Collection[str],
    *,
    int8_kernels: bool | None = None,
) -> Visible:
    """`plain` is the optimized graph of the model as it is. One session is opened for each name."""
    values = {digest: name for name, digest in plain.digests.items()}
    sights: dict[str, Sight] = {}
    for name in names:
        looked_into = optimized(instrumented(proto, [name]), int8_kernels=int8_kernels)
        sight = _sight(value_graph(looked_into), name, values)
        if sight is not None:
            sights[name] = sight
    unseen = {name: CHANGES_KERNELS for name in names if name not in sights}
    return Visible(plain, sights, unseen)


def carried_over(known: Visible, plain: ValueGraph, names: Collection[str]) -> Visible | None:
    """What can be seen in another model that is optimized alike; None where it is not."""
    same = _aligned(known.plain, plain)
    if same is None:
        return None
    return Visible(
        plain,
        {
            name: Sight(same[sight.origin], sight.layout)
            for name, sight in known.sights.items()
            if name in names
        },
        {name: why for name, why in known.unseen.items() if name in names},
    )


def _sight(graph: ValueGraph, name: str, values: Mapping[Digest, str]) -> Sight | None:
    layout: list[onnx.NodeProto] = []
    while graph.digests[name] not in values:
        maker = graph.makers.get(name)
        if maker is None or maker.op_type not in _LAYOUT_OPS:
            return None
        layout.insert(0, maker)
        name = maker.input[0]
    return Sight(values[graph.digests[name]], tuple(layout))


def _aligned(one: ValueGraph, other: ValueGraph) -> dict[str, str] | None:
    """The values of the second graph by the first's, if they are the same, operator by operator."""
    if len(one.proto.graph.node) != len(other.proto.graph.node):
        return None
    same = {one.input: other.input}
    known = {other.input}
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
