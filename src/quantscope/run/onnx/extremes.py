"""Read the least and largest value of each sample and channel, reduced where the values are."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from quantscope.data import Feeds
from quantscope.model.onnx import OnnxModel
from quantscope.run.onnx.sessions import run_session, session_of

Array = NDArray[Any]
Extremes = tuple[Array, Array]
"""The least and the largest values, [samples, channels] each."""

_AXES_ARE_INPUTS = 18
_CONVOLVES = frozenset({"Conv", "ConvTranspose", "MaxPool", "AveragePool", "BatchNormalization"})


class ExtremesReader:
    """Runs a float ONNX model as its file states it, and gives the extremes of chosen values.

    `names` are those of the values in the file; what is no tensor of floats with a row a sample has
    no extremes and is not among the answers.
    """

    def __init__(self, model: OnnxModel, names: Sequence[str], *, threads: int = 0) -> None:
        self._name = model.name
        proto = onnx.ModelProto()
        proto.CopyFrom(model.proto)
        opset = next((o.version for o in proto.opset_import if o.domain in ("", "ai.onnx")), 1)
        del proto.graph.output[:]
        self.names: list[str] = []
        for place, (name, rank, axis) in enumerate(_readable(model, names)):
            over = [at for at in range(1, rank) if at != axis]
            for end in ("Min", "Max"):
                made = f"extremes/{place}/{end}"
                _reduce(proto.graph, f"Reduce{end}", name, made, over, opset)
                proto.graph.output.append(helper.make_empty_tensor_value_info(made))
            self.names.append(name)
        self._session = session_of(proto, "reference", threads=threads) if self.names else None

    def read(self, feeds: Feeds, count: int) -> Mapping[str, Extremes]:
        """Give the extremes of the first `count` rows of a batch, by the values' names."""
        if self._session is None:
            return {}
        wanted = [value.name for value in self._session.get_outputs()]
        found = run_session(self._session, wanted, feeds, self._name)
        return {
            name: (low.reshape(len(low), -1)[:count], high.reshape(len(high), -1)[:count])
            for name, low, high in zip(self.names, found[::2], found[1::2], strict=True)
        }


def _readable(model: OnnxModel, names: Sequence[str]) -> list[tuple[str, int, int | None]]:
    """Give those values that have a row a sample, with their rank and the axis of channels."""
    operands = {o.name: o for layer in model.network.layers for o in layer.outputs}
    operands |= {o.name: o for o in model.network.inputs}
    readers: dict[str, set[str]] = {}
    for layer in model.network.layers:
        for operand in (*layer.activations, *layer.outputs):
            readers.setdefault(operand.name, set()).add(layer.op_type)
    found: list[tuple[str, int, int | None]] = []
    for name in dict.fromkeys(names):
        known = operands.get(name)
        if known is None or known.dtype != "float32" or not known.shape:
            continue
        rank = len(known.shape)
        along_1 = rank != 3 or not _CONVOLVES.isdisjoint(readers.get(name, ()))
        found.append((name, rank, None if rank < 2 else 1 if along_1 else 2))
    return found


def _reduce(
    graph: onnx.GraphProto, op_type: str, value: str, made: str, over: list[int], opset: int
) -> None:
    if not over:
        graph.node.append(helper.make_node("Identity", [value], [made], name=made))
        return
    if opset < _AXES_ARE_INPUTS:
        node = helper.make_node(op_type, [value], [made], name=made, axes=over, keepdims=0)
    else:
        axes = f"{made}/axes"
        graph.initializer.append(numpy_helper.from_array(np.array(over, np.int64), axes))
        node = helper.make_node(op_type, [value, axes], [made], name=made, keepdims=0)
    graph.node.append(node)
