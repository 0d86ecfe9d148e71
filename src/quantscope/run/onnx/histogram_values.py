"""The values of chosen tensors in both networks, batch by batch, and nothing else computed."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from quantscope.errors import BadModelError
from quantscope.run.onnx.capture import instrumented
from quantscope.run.onnx.sessions import reason_of, session_of

Array = NDArray[Any]
Reader = Callable[[Array], Mapping[str, Array]]


def reader_of(proto: onnx.ModelProto, names: Sequence[str], model: str) -> Reader:
    """A function from a batch to the values of these names of the file, in reference execution."""
    stored = {tensor.name for tensor in proto.graph.initializer}
    (feed,) = (value for value in proto.graph.input if value.name not in stored)
    dtype = onnx.helper.tensor_dtype_to_np_dtype(feed.type.tensor_type.elem_type)
    asked = [name for name in dict.fromkeys(names) if name != feed.name]
    session = session_of(only_up_to(proto, asked), "reference", threads=1) if asked else None

    def read(rows: Array) -> Mapping[str, Array]:
        given = np.asarray(rows, dtype)
        try:
            found = session.run(asked, {feed.name: given}) if session is not None else []
        except Exception as error:  # onnxruntime's exceptions share no base class
            raise BadModelError(f"{model} failed while running: {reason_of(error)}") from None
        return {feed.name: given, **dict(zip(asked, found, strict=True))}

    return read


def only_up_to(proto: onnx.ModelProto, names: Sequence[str]) -> onnx.ModelProto:
    """A copy that computes these values and no more: onnxruntime runs every node it is given."""
    copy = instrumented(proto, names)
    graph = copy.graph
    needed = set(names)
    outputs = [value for value in graph.output if value.name in needed]
    nodes = []
    for node in reversed(graph.node):
        if needed & set(node.output):
            needed |= _reads(node)
            nodes.append(node)
    stored = {tensor.name for tensor in graph.initializer}
    constants = [tensor for tensor in graph.initializer if tensor.name in needed]
    # Old files list their constants among the inputs too.
    inputs = [value for value in graph.input if value.name in needed or value.name not in stored]
    for field, kept in (
        (graph.node, nodes[::-1]),
        (graph.initializer, constants),
        (graph.input, inputs),
        (graph.output, outputs),
    ):
        del field[:]
        field.extend(kept)
    return copy


def _reads(node: onnx.NodeProto) -> set[str]:
    """Its inputs, and what the graphs inside it take from around them."""
    names = {name for name in node.input if name}
    for attribute in node.attribute:
        for inner in (attribute.g, *attribute.graphs):
            for each in inner.node:
                names |= _reads(each)
            names |= {output.name for output in inner.output}
    return names
