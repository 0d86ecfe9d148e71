"""This module gives a file's graph as objects (onnx-ir); constants are read only when asked for."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import onnx_ir as ir
from numpy.typing import NDArray

from quantscope.errors import BadModelError
from quantscope.model.onnx.checks import one_line, topological_order
from quantscope.model.onnx.file import OnnxFile
from quantscope.model.onnx.shapes import TensorType, infer_types
from quantscope.model.onnx.tensors import external_path

MICROSOFT = "com.microsoft"
STANDARD = frozenset({"", "ai.onnx", MICROSOFT})


@dataclass(frozen=True)
class OnnxGraph:
    """The nodes in an order in which they can run; values are told apart by their names.

    `types` has what shape inference found, dynamic dimensions as symbols; `sized` the same with
    `batch` put in for a dynamic first dimension of the inputs (None: no input has one).
    """

    file: OnnxFile
    nodes: tuple[ir.Node, ...]
    types: dict[str, TensorType]
    sized: dict[str, TensorType]
    batch: int | None
    _tensors: dict[str, ir.TensorProtocol] = field(repr=False)
    _computed: frozenset[str] = field(repr=False)

    def tensor(self, name: str | None) -> ir.TensorProtocol | None:
        """Give the stored constant of this name, of an initializer or a Constant node."""
        return self._tensors.get(name) if name else None

    def array(self, name: str | None) -> NDArray[Any] | None:
        """Read a small constant, seen through Identity and Cast; None if it is computed."""
        for _ in range(len(self.nodes)):  # no chain is longer
            node = self.makers.get(name or "")
            if node is None or node.op_type not in ("Identity", "Cast"):
                break
            name = input_names(node)[0]
        tensor = self.tensor(name)
        return None if tensor is None else self.read(tensor)

    def read(self, tensor: ir.TensorProtocol) -> NDArray[Any]:
        """Read a constant's values; external ones are memory-mapped."""
        try:
            return tensor.numpy()
        except Exception as error:  # onnx-ir raises many kinds; each is a fault of the file
            raise BadModelError(
                f"The constant {tensor.name!r} of {self.file.path} cannot be read: "
                f"{one_line(error)}"
            ) from None

    @cached_property
    def makers(self) -> dict[str, ir.Node]:
        return {name: node for node in self.nodes for name in output_names(node) if name}

    def is_constant(self, name: str | None) -> bool:
        """Tell whether a value is stored, or computed from nothing but what is stored."""
        return bool(name) and (name in self._tensors or name in self._computed)

    def type(self, name: str) -> TensorType:
        return self.types.get(name, TensorType("unknown", None))


def open_graph(file: OnnxFile) -> OnnxGraph:
    """Open the graph of a checked file, and infer its shapes with an open batch and one of 1."""
    try:
        model = ir.from_proto(file.hollow)
    except Exception as error:  # onnx-ir raises many kinds; each is a fault of the file
        raise BadModelError(f"{file.path} cannot be read: {one_line(error)}") from None
    ir_nodes = list(model.graph)
    nodes = tuple(ir_nodes[index] for index in topological_order(file.hollow.graph))
    tensors = dict(_stored(file, model, nodes))
    types, _ = infer_types(file.hollow, batch=None)
    sized, batch = infer_types(file.hollow, batch=1)
    return OnnxGraph(
        file=file,
        nodes=nodes,
        types=types,
        sized=sized,
        batch=batch,
        _tensors=tensors,
        _computed=frozenset(_computed(nodes, tensors)),
    )


def input_names(node: ir.Node) -> tuple[str, ...]:
    """List the names that a node reads, "" for an input left out."""
    return tuple(value.name or "" if value is not None else "" for value in node.inputs)


def output_names(node: ir.Node) -> tuple[str, ...]:
    return tuple(value.name or "" for value in node.outputs)


def has_subgraph(node: ir.Node) -> bool:
    return any(
        attribute.type in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)
        for attribute in node.attributes.values()
    )


def _stored(
    file: OnnxFile, model: ir.Model, nodes: tuple[ir.Node, ...]
) -> Iterator[tuple[str, ir.TensorProtocol]]:
    for name, value in model.graph.initializers.items():
        if value.const_value is not None:
            yield name, _with_path(file, value.const_value)
    known: dict[str, ir.TensorProtocol] = {}
    for node in nodes:
        if node.op_type == "Constant" and node.domain in ("", "ai.onnx"):
            tensor = _constant_value(node)
            if tensor is not None and node.outputs:
                known[node.outputs[0].name or ""] = _with_path(file, tensor)
    yield from known.items()


def _constant_value(node: ir.Node) -> ir.TensorProtocol | None:
    for name, attribute in node.attributes.items():
        if name == "value" and attribute.type == ir.AttributeType.TENSOR:
            return attribute.as_tensor()
        if name in ("value_float", "value_floats"):
            return ir.tensor(attribute.value, dtype=ir.DataType.FLOAT)
        if name in ("value_int", "value_ints"):
            return ir.tensor(attribute.value, dtype=ir.DataType.INT64)
    return None


def _with_path(file: OnnxFile, tensor: ir.TensorProtocol) -> ir.TensorProtocol:
    """Give external tensors the full path that was checked, so that they can be mapped."""
    if not isinstance(tensor, ir.ExternalTensor):
        return tensor
    return ir.ExternalTensor(
        external_path(file.path, os.fspath(tensor.location)),
        tensor.offset,
        tensor.length,
        tensor.dtype,
        shape=ir.Shape(tensor.shape),
        name=tensor.name or "",
    )


def _computed(nodes: tuple[ir.Node, ...], tensors: dict[str, ir.TensorProtocol]) -> Iterator[str]:
    """Name the values that are computed from constants alone; nodes with subgraphs give none."""
    fixed = set(tensors)
    for node in nodes:
        names = [name for name in input_names(node) if name]
        is_constant = bool(names) and all(name in fixed for name in names)
        if (is_constant or node.op_type == "Constant") and not has_subgraph(node):
            fixed.update(output_names(node))
            yield from output_names(node)


def attribute_int(node: ir.Node, name: str, default: int) -> int:
    attribute = node.attributes.get(name)
    if attribute is None or attribute.type != ir.AttributeType.INT:
        return default
    return int(attribute.value)


def attribute_float(node: ir.Node, name: str, default: float) -> float:
    attribute = node.attributes.get(name)
    if attribute is None or attribute.type != ir.AttributeType.FLOAT:
        return default
    return float(attribute.value)
