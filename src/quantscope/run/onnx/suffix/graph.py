"""Tell what each value of a graph is a function of, and which ones everything goes through.

Two values with the same digest are computed by the same operators, in the same way, from the same
constants: with graph optimizations off, and the same inputs, they are equal bit for bit. Names do
not count, but inputs have an order, so a graph that the optimizer wrote anew is compared as well as
one that was edited.
"""

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import onnx
from onnx import helper

from quantscope.data import Intake
from quantscope.model import Execution
from quantscope.model.onnx import port_of
from quantscope.run.onnx.sessions import read_optimized, session_options

Digest = bytes
Constant = onnx.TensorProto | onnx.SparseTensorProto

_ROOT = -1
_GRAPHS = (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS)


@dataclass(frozen=True, eq=False)
class ValueGraph:
    """A model with what each of its values is a function of.

    `inputs` are those that samples are for, `outputs` all that it gives, in its order. `cuts` are
    the values without any of which one of the outputs would not depend on the inputs.
    """

    proto: onnx.ModelProto
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    digests: Mapping[str, Digest]
    cuts: frozenset[str]

    @cached_property
    def output_digest(self) -> Digest:
        """The digest of all outputs together."""
        return _hash(*(self.digests[name] for name in self.outputs))

    @cached_property
    def makers(self) -> Mapping[str, onnx.NodeProto]:
        return {name: node for node in self.proto.graph.node for name in node.output if name}

    @cached_property
    def dependent(self) -> tuple[str, ...]:
        """The values that depend on an input, in the order in which they are made."""
        found = dict.fromkeys(self.inputs)
        for node in self.proto.graph.node:
            if not found.keys().isdisjoint(read_by(node)):
                found.update(dict.fromkeys(name for name in node.output if name))
        return tuple(found)[len(self.inputs) :]

    @cached_property
    def structure(self) -> Digest:
        """The outputs' digest, but blind to the numbers in stored constants.

        Where it is the same, the same operators run on tensors of the same types and shapes.
        """
        digests = _digests(self.proto, self.inputs, _of_shape)
        return _hash(*(digests[name] for name in self.outputs))


def value_graph(proto: onnx.ModelProto, *, given: Collection[str] = ()) -> ValueGraph:
    """Describe a model; it is not copied, and must not change while the graph is used.

    `given` are inputs that no samples are for.
    """
    graph = proto.graph
    stored = {t.name for t in graph.initializer} | {t.values.name for t in graph.sparse_initializer}
    names = [value.name for value in graph.input if value.name not in stored]
    inputs = tuple(name for name in names if name not in given)
    outputs = tuple(value.name for value in graph.output)
    return ValueGraph(
        proto=proto,
        inputs=inputs,
        outputs=outputs,
        digests=_digests(proto, inputs, _of_constant),
        cuts=frozenset(_cuts(graph.node, inputs, outputs)),
    )


def _digests(
    proto: onnx.ModelProto, fed: Sequence[str], of_constant: Callable[[Constant], Digest]
) -> dict[str, Digest]:
    """Digest each value by what computes it; nodes come after what they read."""
    graph = proto.graph
    found: dict[str, Digest] = {t.name: of_constant(t) for t in graph.initializer}
    found |= {t.values.name: of_constant(t) for t in graph.sparse_initializer}
    for value in graph.input:
        kind = str(value.type.tensor_type.elem_type).encode()
        # What samples are for counts by no name: another model may call it otherwise.
        name = str(fed.index(value.name)) if value.name in fed else f"given {value.name}"
        found.setdefault(value.name, _hash(b"input", name.encode(), kind))
    # The name of an optional input that is left out.
    found[""] = b""
    functions = [part.SerializeToString(deterministic=True) for part in proto.functions]
    versions = {o.domain or "ai.onnx": str(o.version).encode() for o in proto.opset_import}
    for node in graph.node:
        version = versions.get(node.domain or "ai.onnx", b"")
        reads = [found[name] for name in read_by(node)]
        whole = _hash(*functions, version, *_stated(node), *reads)
        for place, name in enumerate(node.output):
            if name:
                found[name] = whole + place.to_bytes(4, "little")
    return found


def chain_of(
    nodes: Sequence[onnx.NodeProto], sources: Sequence[str], sinks: Sequence[str]
) -> Iterator[str]:
    """Give the values that lie on every way from any source to each of the sinks, latest first.

    A lone sink that depends on the sources is among them; nothing is where no sink does.
    """
    above, depth = _dominators(nodes, sources)
    yield from _climb(above, depth, sinks)


def _cuts(
    nodes: Sequence[onnx.NodeProto], sources: Sequence[str], sinks: Sequence[str]
) -> Iterator[str]:
    above, depth = _dominators(nodes, sources)
    for sink in sinks:
        yield from _climb(above, depth, [sink])


_Vertex = str | int


def _dominators(
    nodes: Sequence[onnx.NodeProto], sources: Sequence[str]
) -> tuple[Mapping[_Vertex, _Vertex | None], Mapping[_Vertex, int]]:
    """Give the immediate dominator of each value that depends on the sources, and its depth.

    An operator with several outputs is a vertex of its own, and so is what all sources hang below.
    """
    above: dict[_Vertex, _Vertex | None] = {_ROOT: None}
    depth: dict[_Vertex, int] = {_ROOT: 0}

    def place(vertex: _Vertex, parents: Sequence[_Vertex]) -> None:
        above[vertex] = nearest = _nearest_common(parents, above, depth)
        depth[vertex] = depth[nearest] + 1

    for name in sources:
        place(name, [_ROOT])
    for number, node in enumerate(nodes):
        parents = [name for name in read_by(node) if name in above]
        if not parents:
            continue
        place(number, parents)
        for name in node.output:
            if name:
                place(name, [number])
    return above, depth


def _climb(
    above: Mapping[_Vertex, _Vertex | None], depth: Mapping[_Vertex, int], sinks: Sequence[str]
) -> Iterator[str]:
    wanted = [name for name in sinks if name in above]
    vertex = _nearest_common(wanted, above, depth) if wanted else None
    while vertex is not None:
        if isinstance(vertex, str):
            yield vertex
        vertex = above[vertex]


def read_by(node: onnx.NodeProto) -> Iterator[str]:
    """Name what an operator reads, in its order; then what its subgraphs take from outside."""
    yield from node.input
    for attribute in node.attribute:
        if attribute.type in _GRAPHS:
            for inner in (attribute.g, *attribute.graphs):
                yield from _taken_from_outside(inner)


def frontier(graph: ValueGraph, ends: Collection[str], given: Collection[str]) -> tuple[str, ...]:
    """Find the values, `given` ones or the graph's inputs, that `ends` are computed from."""
    found = set()
    wanted = set(ends)
    for node in reversed(graph.proto.graph.node):
        made = wanted.intersection(node.output)
        reached = made.intersection(given)
        found |= reached
        if made - reached:
            wanted.update(read_by(node))
    return tuple(sorted(found | wanted.intersection(graph.inputs)))


def submodel(
    graph: ValueGraph, starts: Mapping[str, np.dtype[Any]], ends: Sequence[str]
) -> onnx.ModelProto:
    """Cut out the part of the model between `starts`, its inputs, and `ends`, its outputs.

    Where that is not all that `ends` depend on, inputs of the graph's own are inputs as well.
    """
    proto = graph.proto
    nodes: list[onnx.NodeProto] = []
    wanted = set(ends)
    for node in reversed(proto.graph.node):
        if wanted.difference(starts).isdisjoint(node.output):
            continue
        nodes.append(node)
        wanted.update(read_by(node))
    part = onnx.ModelProto(ir_version=proto.ir_version)
    part.opset_import.extend(proto.opset_import)
    part.functions.extend(proto.functions)
    part.graph.name = proto.graph.name or "part"
    part.graph.node.extend(reversed(nodes))
    part.graph.initializer.extend(t for t in proto.graph.initializer if t.name in wanted)
    part.graph.sparse_initializer.extend(
        t for t in proto.graph.sparse_initializer if t.values.name in wanted
    )
    part.graph.input.extend(v for v in proto.graph.input if v.name in wanted)
    for name, dtype in starts.items():
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        part.graph.input.append(helper.make_tensor_value_info(name, kind, None))
    known = {value.name: value for value in proto.graph.output}
    for name in dict.fromkeys(ends):
        part.graph.output.append(known.get(name) or helper.make_empty_tensor_value_info(name))
    return part


def _nearest_common(
    vertices: Sequence[_Vertex],
    above: Mapping[_Vertex, _Vertex | None],
    depth: Mapping[_Vertex, int],
) -> _Vertex:
    nearest, *others = vertices
    for other in others:
        while nearest != other:
            if depth[nearest] < depth[other]:
                nearest, other = other, nearest  # noqa: PLW2901 -- the deeper one climbs
            parent = above[nearest]
            assert parent is not None, "all vertices hang below the source"
            nearest = parent
    return nearest


def _taken_from_outside(graph: onnx.GraphProto) -> Iterator[str]:
    own = {value.name for value in graph.input} | {t.name for t in graph.initializer}
    own |= {t.values.name for t in graph.sparse_initializer}
    for node in graph.node:
        yield from (name for name in read_by(node) if name and name not in own)
        own.update(node.output)
    yield from (value.name for value in graph.output if value.name and value.name not in own)


def _stated(node: onnx.NodeProto) -> list[bytes]:
    """Give all that an operator states but names: kind, attributes, which outputs it has."""
    attributes = sorted(node.attribute, key=lambda attribute: attribute.name)
    optional = bytes(bool(name) for name in node.output)
    return [
        node.domain.encode(),
        node.op_type.encode(),
        optional,
        *(attribute.SerializeToString(deterministic=True) for attribute in attributes),
    ]


def _of_constant(tensor: Constant) -> Digest:
    if isinstance(tensor, onnx.SparseTensorProto):
        return _hash(b"sparse", tensor.SerializeToString(deterministic=True))
    if tensor.HasField("raw_data"):
        return _hash(_of_shape(tensor), tensor.raw_data)
    # Typed fields, or data beside the file. The same numbers written in two ways count as different
    # ones, which costs time but is never wrong.
    nameless = onnx.TensorProto()
    nameless.CopyFrom(tensor)
    nameless.ClearField("name")
    return _hash(b"typed", nameless.SerializeToString(deterministic=True))


def _of_shape(tensor: Constant) -> Digest:
    dims, kind = tensor.dims, getattr(tensor, "data_type", 0)
    return _hash(b"constant", f"{kind} {list(dims)}".encode())


def _hash(*parts: bytes) -> Digest:
    # The lengths keep ("ab", "c") and ("a", "bc") apart.
    lengths = repr([len(part) for part in parts]).encode()
    return hashlib.blake2b(b"".join([lengths, *parts]), digest_size=16).digest()


def executed_graph(
    proto: onnx.ModelProto, execution: Execution, *, int8_kernels: bool | None = None
) -> ValueGraph:
    """Give the graph to run with optimizations off, whatever the execution.

    Reference: the model itself, not copied. Runtime: what onnxruntime's optimizer makes of all of
    it, with the kernels that ship in place of the operators that the file states.
    """
    if execution == "reference":
        return value_graph(proto)
    return value_graph(optimize(proto, int8_kernels=int8_kernels))


def optimize(proto: onnx.ModelProto, *, int8_kernels: bool | None = None) -> onnx.ModelProto:
    """Give the model as a runtime session on this machine executes it, node for node."""
    options = session_options("runtime", int8_kernels=int8_kernels, threads=1)
    # Nothing is run here, so there need be no pool of threads and no weights laid out for it.
    options.add_session_config_entry("session.disable_prepacking", "1")
    return read_optimized(proto, options)


def intake_of(proto: onnx.ModelProto, name: str) -> Intake:
    """Say how a model in memory is fed; `name` is its file's."""
    stored = {tensor.name for tensor in proto.graph.initializer}
    fed = tuple(port_of(value) for value in proto.graph.input if value.name not in stored)
    return Intake.of_ports(name, fed, tuple(map(port_of, proto.graph.output)))
