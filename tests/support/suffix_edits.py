"""Edits by hand, harsher than a consistent editor's: one stored number, and nothing follows it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from quantscope.data import ImageSet
from quantscope.model import Execution
from quantscope.run import classify, open_runnable


def copied(model: onnx.ModelProto) -> onnx.ModelProto:
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    return copy


def nudged(model: onnx.ModelProto, name: str) -> onnx.ModelProto:
    """A copy in which one stored tensor is a little different."""
    edited = copied(model)
    (stored,) = (t for t in edited.graph.initializer if t.name == name)
    values = numpy_helper.to_array(stored).copy()
    if values.dtype == np.float32:
        values = values * np.float32(1.07)
    else:
        middle = values.reshape(-1)[values.size // 2 :][:1]
        middle += np.where(middle > 0, -3, 3).astype(values.dtype)
    stored.CopyFrom(numpy_helper.from_array(np.asarray(values), name))
    return edited


def bypassed(model: onnx.ModelProto, name: str) -> onnx.ModelProto:
    """A copy in which the value `name` is not quantized: its readers take a Relu of it instead."""
    edited = copied(model)
    nodes = edited.graph.node
    (quantize,) = (n for n in nodes if n.op_type == "QuantizeLinear" and n.input[0] == name)
    (dequantize,) = (n for n in nodes if quantize.output[0] in n.input)
    nodes.remove(quantize)
    place = list(nodes).index(dequantize)
    nodes.remove(dequantize)
    nodes.insert(place, helper.make_node("Relu", [name], dequantize.output, name=f"{name}.again"))
    return edited


def quantized_at(model: onnx.ModelProto, name: str, scale: float) -> onnx.ModelProto:
    """A copy of a float model in which one value goes through uint8."""
    edited = copied(model)
    place = next(k for k, n in enumerate(edited.graph.node) if name in n.output)
    for node in edited.graph.node:
        node.input[:] = [f"{name}_dq" if given == name else given for given in node.input]
    edited.graph.initializer.extend(
        [
            numpy_helper.from_array(np.float32(scale), f"{name}_s"),
            numpy_helper.from_array(np.uint8(0), f"{name}_z"),
        ]
    )
    params = [f"{name}_s", f"{name}_z"]
    made = [
        helper.make_node("QuantizeLinear", [name, *params], [f"{name}_q"], name=f"{name}_q"),
        helper.make_node("DequantizeLinear", [f"{name}_q", *params], [f"{name}_dq"]),
    ]
    for node in reversed(made):
        edited.graph.node.insert(place + 1, node)
    return edited


def first_of(outputs: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
    """The first output, as `whole_run` has it."""
    return next(iter(outputs.values()))


def whole_run(
    model: onnx.ModelProto,
    images: ImageSet,
    folder: Path,
    *,
    execution: Execution,
    int8_kernels: bool | None = None,
    batch: int | None = None,
    threads: int = 0,
) -> NDArray[Any]:
    """The scores of the exported file, as `evaluate` finds them."""
    path = folder / "edited.onnx"
    path.write_bytes(model.SerializeToString())
    runnable = open_runnable(path, execution=execution, int8_kernels=int8_kernels, threads=threads)
    return classify(runnable, images, batch=batch)
