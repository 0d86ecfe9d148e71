"""This module makes a changed copy of a graph: nodes dropped and put in, values renamed or set."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from quantscope.edit.wiring import QdqGraph, reads
from quantscope.model.onnx import subgraphs

Array = NDArray[Any]


class Rewrite:
    """The changes to `base`, which stays as it is; `finish` gives the copy, once.

    Node numbers are those of `base` throughout. `clipped` remembers which value stands for one
    that was clipped anew.
    """

    def __init__(self, base: QdqGraph) -> None:
        self.base = base
        self.clipped: dict[str, str] = {}
        self._proto = onnx.ModelProto()
        self._proto.CopyFrom(base.proto)
        self._graph = self._proto.graph
        self._dropped: set[int] = set()
        self._put: dict[int, list[onnx.NodeProto]] = {}
        self._put_after: dict[int, list[onnx.NodeProto]] = {}
        self._instead: dict[str, str] = {}
        self._stored: dict[str, onnx.TensorProto] = {}
        self._wanted: dict[str, list[tuple[tuple[int, ...], Array]]] = {}
        self._untyped: set[str] = set()
        self._taken: set[str] = set()

    def fresh(self, name: str) -> str:
        """Take `name`, or the first of its numbered variants that nothing has yet."""
        candidate, number = name, 2
        while candidate in self.base.names or candidate in self._taken:
            candidate, number = f"{name}_{number}", number + 1
        self._taken.add(candidate)
        return candidate

    def store(self, name: str, values: Array) -> None:
        """Store a constant under a name that no longer has a maker."""
        self._stored[name] = _tensor(values, name)

    def new_constant(self, name: str, values: Array) -> str:
        chosen = self.fresh(name)
        self.store(chosen, values)
        return chosen

    def want(self, name: str, nodes: Sequence[int], values: Array) -> None:
        """Let these nodes read other values where they read the constant `name`."""
        self._wanted.setdefault(name, []).append((tuple(nodes), values))

    def drop(self, index: int) -> None:
        self._dropped.add(index)
        self._untyped.update(self.base.node(index).output)

    def put(self, index: int, nodes: Iterable[onnx.NodeProto]) -> None:
        """Put new nodes before the node `index`, or where it was."""
        self._put.setdefault(index, []).extend(nodes)

    def put_after(self, index: int, nodes: Iterable[onnx.NodeProto]) -> None:
        """Put new nodes right after the node `index`, which stays."""
        self._put_after.setdefault(index, []).extend(nodes)

    def substitute(self, name: str, other: str) -> None:
        """Let whatever reads `name` read `other`."""
        self._instead[name] = other

    def retype(self, names: Iterable[str]) -> None:
        """Forget what the file says about the types of these values: it holds no longer."""
        self._untyped.update(names)

    def set_input(self, index: int, place: int, name: str) -> None:
        inputs = self._graph.node[index].input
        while len(inputs) <= place:
            inputs.append("")
        inputs[place] = name

    def set_output(self, index: int, name: str) -> None:
        """Let a node write its first value under another name, which nothing has yet."""
        self._graph.node[index].output[0] = name

    def set_type(self, index: int, domain: str) -> None:
        """Let a quantizer go by its zero-point's type alone, in a domain that has that type."""
        node = self._graph.node[index]
        kept = [attribute for attribute in node.attribute if attribute.name != "output_dtype"]
        node.ClearField("attribute")
        node.attribute.extend(kept)
        if domain != node.domain:
            node.domain = domain
            if domain not in {entry.domain for entry in self._proto.opset_import}:
                self._proto.opset_import.add(domain=domain, version=1)

    def state(self, index: int, key: str, value: str | None) -> None:
        """State something in a node's metadata, or with None no longer."""
        entries = self._graph.node[index].metadata_props
        kept = [entry for entry in entries if entry.key != key]
        del entries[:]
        entries.extend(kept)
        if value is not None:
            entries.add(key=key, value=value)

    def make_per_channel(self, index: int) -> None:
        """Make a DequantizeLinear work along axis 0, without zero-points, which are all 0."""
        node = self._graph.node[index]
        del node.input[2:]
        kept = [attribute for attribute in node.attribute if attribute.name != "axis"]
        attributes = [*kept, helper.make_attribute("axis", 0)]
        node.ClearField("attribute")
        node.attribute.extend(attributes)

    def finish(self) -> onnx.ModelProto:
        """Make all changes and give the copy; there is one, so this can be asked for once."""
        suspects = {name for index in self._dropped for name in self.base.node(index).input}
        for name, wishes in self._wanted.items():
            self._set_constant(name, wishes)
            suspects.add(name)
        if self._dropped or self._put or self._put_after or self._instead:
            self._rebuild_nodes()
        elif self._stored:
            self._graph.initializer.extend(self._stored.values())
        self._drop_unread(suspects)
        if self._untyped:
            _keep(self._graph.value_info, lambda value: value.name not in self._untyped)
        return self._proto

    def _set_constant(self, name: str, wishes: list[tuple[tuple[int, ...], Array]]) -> None:
        """Change a constant in place if all its readers want that, else store others beside it."""
        readers = set(self.base.readers.get(name, ())) - self._dropped
        served = {index for nodes, _ in wishes for index in nodes}
        agreed = all(_same(values, wishes[0][1]) for _, values in wishes)
        place = self._place_of(name)
        if place is not None and agreed and readers <= served and name not in self.base.outputs:
            place.CopyFrom(_tensor(_shaped_like(wishes[0][1], place), place.name))
            return
        made: list[tuple[Array, str]] = []
        for nodes, values in wishes:
            known = next((n for v, n in made if _same(v, values)), None)
            if known is None:
                known = self.new_constant(name, values)
                made.append((values, known))
            for index in nodes:
                node = self._graph.node[index]
                for slot, source in enumerate(node.input):
                    if source == name:
                        node.input[slot] = known

    def _place_of(self, name: str) -> onnx.TensorProto | None:
        """Find the stored tensor of this name in the copy, if it can be changed in place."""
        if name in self.base.initializers:
            stored: onnx.TensorProto = self._graph.initializer[self.base.initializers[name]]
            return stored
        index = self.base.makers.get(name)
        if index is None or self._graph.node[index].op_type != "Constant":
            return None
        return next((a.t for a in self._graph.node[index].attribute if a.name == "value"), None)

    def _rebuild_nodes(self) -> None:
        """Write the node list anew, with what was put in and without what was dropped."""
        names = {name: self._final(name) for name in self._instead}
        outputs, copies = self._keep_outputs(names)
        names = {name: outputs.get(target, target) for name, target in names.items()} | outputs
        nodes: list[onnx.NodeProto] = []
        for index, node in enumerate(self._graph.node):
            nodes += self._put.get(index, ())
            if index not in self._dropped:
                nodes.append(node)
            nodes += self._put_after.get(index, ())
        for node in nodes:
            _rename(node, names)
        nodes += copies
        self._graph.initializer.extend(self._stored.values())
        kept = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
        self._graph.ClearField("node")
        self._graph.node.extend(kept)
        self._untyped.update(outputs)

    def _final(self, name: str) -> str:
        while name in self._instead:
            name = self._instead[name]
        return name

    def _keep_outputs(self, names: dict[str, str]) -> tuple[dict[str, str], list[onnx.NodeProto]]:
        """Keep the names of the model's outputs: what they now are is renamed, or copied."""
        renamed: dict[str, str] = {}
        copies: list[onnx.NodeProto] = []
        made = {
            name
            for index, node in enumerate(self._graph.node)
            for name in (
                *(node.output if index not in self._dropped else ()),
                *(n for new in self._put.get(index, ()) for n in new.output),
                *(n for new in self._put_after.get(index, ()) for n in new.output),
            )
        }
        for value in self._graph.output:
            source = names.get(value.name)
            if source is None:
                continue
            if source in made and source not in self.base.outputs and source not in renamed:
                renamed[source] = value.name
            else:
                copies.append(
                    helper.make_node(
                        "Identity",
                        [renamed.get(source, source)],
                        [value.name],
                        name=self.fresh(f"{value.name}.copy"),
                    )
                )
        return renamed, copies

    def _drop_unread(self, suspects: set[str]) -> None:
        """Drop the constants that only dropped nodes read; others that nothing reads stay."""
        read = {name for node in self._graph.node for name in reads(node)} | self.base.outputs
        unread = {n for n in suspects if n and n not in read and self.base.constant(n) is not None}
        if unread:
            _keep(self._graph.initializer, lambda tensor: tensor.name not in unread)
            _keep(self._graph.input, lambda value: value.name not in unread)
            _keep(
                self._graph.node,
                lambda node: node.op_type != "Constant" or node.output[0] not in unread,
            )


def _keep(field: Any, wanted: Any) -> None:
    # From the end, so that a deletion moves nothing that is still to be looked at.
    for index in reversed(range(len(field))):
        if not wanted(field[index]):
            del field[index]


def _rename(node: onnx.NodeProto, names: dict[str, str]) -> None:
    """Rename in place what a node reads and makes, and what its subgraphs read."""
    for field in (node.input, node.output):
        for place, name in enumerate(field):
            if name in names:
                field[place] = names[name]
    for attribute in node.attribute:
        for inner in subgraphs(attribute):
            for each in inner.node:
                _rename(each, names)


def _same(some: Array, others: Array) -> bool:
    return some.dtype == others.dtype and np.array_equal(some, others)


def _shaped_like(values: Array, stored: onnx.TensorProto) -> Array:
    shape = tuple(stored.dims)
    return values.reshape(shape) if values.size == int(np.prod(shape)) else values


def _tensor(values: Array, name: str) -> onnx.TensorProto:
    # ascontiguousarray makes a number an array of one.
    return numpy_helper.from_array(np.ascontiguousarray(values).reshape(values.shape), name)
