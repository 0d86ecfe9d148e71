"""Merge many variants of a network into one graph, in which what they share runs once.

Values are told apart by what they are computed from (`ValueGraph.digests`), not by name. A variant
adds only the operators behind the place where it differs, so none runs again what its edit cannot
change, and no activation has to be kept or carried anywhere for that.
"""

from collections.abc import Mapping

import onnx
from onnx import helper

from quantscope.run.onnx.suffix import Digest, ValueGraph, read_by

MOST_NODES = 2000
MOST_BYTES = 1 << 30
"""The limits of one graph; past them another one runs the common part once more.

Opening a session takes time with the square of the nodes where a file does not state all shapes.
"""

INPUT = "shared/input"


class SharedGraph:
    """A graph of variants, added one by one and not kept; all take the first one's inputs.

    `inputs` has the graph's names of these in their order. `outputs` says which values each variant
    gives; the same ones where they compute the same.
    """

    def __init__(self, first: ValueGraph) -> None:
        self.inputs = tuple(f"{INPUT}{place}" for place in range(len(first.inputs)))
        self.outputs: dict[str, tuple[str, ...]] = {}
        self._own_inputs = first.inputs
        own = (first.digests[name] for name in first.inputs)
        self._names: dict[Digest, str] = dict(zip(own, self.inputs, strict=True))
        self._model = onnx.ModelProto()
        self._model.graph.name = "shared"
        self._model.functions.extend(first.proto.functions)
        for value in first.proto.graph.input:
            if value.name in first.inputs:
                self._model.graph.input.add().CopyFrom(value)
                self._model.graph.input[-1].name = self._names[first.digests[value.name]]
        self._functions = _functions(first.proto)
        self._opsets: dict[str, int] = {}

    def takes(self, graph: ValueGraph) -> bool:
        """Say whether the variant has the same inputs and operator sets, and fits in."""
        opsets = _opsets(graph.proto)
        return (
            (len(graph.inputs) == 1 or graph.inputs == self._own_inputs)
            and all(graph.digests[name] in self._names for name in graph.inputs)
            and _functions(graph.proto) == self._functions
            and all(self._opsets.get(domain, v) == v for domain, v in opsets.items())
            and len(self._model.graph.node) + len(graph.proto.graph.node) <= MOST_NODES
            and self._model.ByteSize() + graph.proto.ByteSize() <= MOST_BYTES
        )

    def add(self, variant: str, graph: ValueGraph) -> None:
        """Add the operators and constants of a variant that no variant before it has."""
        proto, merged = graph.proto, self._model.graph
        self._opsets |= _opsets(proto)
        self._model.ir_version = max(self._model.ir_version, proto.ir_version)
        wanted: dict[str, None] = dict.fromkeys(graph.outputs)
        new: list[onnx.NodeProto] = []
        # Back to front: an operator is taken where something new is computed from it.
        for node in reversed(proto.graph.node):
            if any(name in wanted and self._is_new(graph, name) for name in node.output):
                new.append(node)
                wanted.update(dict.fromkeys(name for name in read_by(node) if name))
        stored = {t.name: t for t in proto.graph.initializer if t.name in wanted}
        sparse = {t.values.name: t for t in proto.graph.sparse_initializer}
        for name in wanted:
            if name in stored and self._is_new(graph, name):
                merged.initializer.add().CopyFrom(stored[name])
                merged.initializer[-1].name = self._name(graph, name)
            elif name in sparse and self._is_new(graph, name):
                merged.sparse_initializer.add().CopyFrom(sparse[name])
                merged.sparse_initializer[-1].values.name = self._name(graph, name)
        known = {value.name: value for value in proto.graph.value_info}
        for node in reversed(new):
            if not any(name and self._is_new(graph, name) for name in node.output):
                continue  # the model itself states it twice
            copy = merged.node.add()
            copy.CopyFrom(node)
            here = {name: self._name(graph, name) for name in (*read_by(node), *node.output, "")}
            _rename(copy, here)
            copy.name = f"shared/{len(merged.node)}"
            for name in (name for name in node.output if name in known):
                merged.value_info.add().CopyFrom(known[name])
                merged.value_info[-1].name = here[name]
        self.outputs[variant] = tuple(self._name(graph, name) for name in graph.outputs)

    def model(self) -> onnx.ModelProto:
        """Give the model of all variants, their distinct outputs in the order they came in."""
        del self._model.opset_import[:], self._model.graph.output[:]
        for domain, version in self._opsets.items():
            self._model.opset_import.add(domain=domain, version=version)
        for name in self.values:
            self._model.graph.output.append(helper.make_empty_tensor_value_info(name))
        return self._model

    @property
    def values(self) -> tuple[str, ...]:
        """The distinct outputs of all variants, in the order in which they came."""
        return tuple(dict.fromkeys(name for names in self.outputs.values() for name in names))

    def _is_new(self, graph: ValueGraph, name: str) -> bool:
        return graph.digests[name] not in self._names

    def _name(self, graph: ValueGraph, name: str) -> str:
        if not name:
            return ""
        return self._names.setdefault(graph.digests[name], f"shared/{len(self._names)}")


def _rename(node: onnx.NodeProto, names: Mapping[str, str]) -> None:
    """Rename what the node reads and makes, and what its subgraphs take from outside."""
    node.input[:] = [names[name] for name in node.input]
    node.output[:] = [names[name] for name in node.output]
    for attribute in node.attribute:
        for inner in (attribute.g, *attribute.graphs):
            _rename_inside(inner, names)


def _rename_inside(graph: onnx.GraphProto, names: Mapping[str, str]) -> None:
    own = {value.name for value in graph.input} | {t.name for t in graph.initializer}
    own |= {name for node in graph.node for name in node.output}
    outside = {name: new for name, new in names.items() if name not in own}
    for value in graph.output:
        value.name = outside.get(value.name, value.name)
    for node in graph.node:
        node.input[:] = [outside.get(name, name) for name in node.input]
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                _rename_inside(inner, outside)


def _opsets(proto: onnx.ModelProto) -> dict[str, int]:
    return {o.domain if o.domain != "ai.onnx" else "": o.version for o in proto.opset_import}


def _functions(proto: onnx.ModelProto) -> list[bytes]:
    return [function.SerializeToString(deterministic=True) for function in proto.functions]
