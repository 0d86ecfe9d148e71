"""Tiny ONNX graphs built by hand."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import ArrayLike, NDArray
from onnx import helper, numpy_helper

FLOAT = onnx.TensorProto.FLOAT


def value(
    name: str, shape: Sequence[int | str | None] | None, kind: int = FLOAT
) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def constant(name: str, array: ArrayLike, kind: type | None = None) -> onnx.TensorProto:
    return numpy_helper.from_array(np.asarray(array, kind), name)


def model(
    nodes: Sequence[onnx.NodeProto],
    constants: Sequence[onnx.TensorProto] = (),
    *,
    inputs: Sequence[onnx.ValueInfoProto] = (value("x", ["N", 3, 5, 7]),),
    outputs: Sequence[onnx.ValueInfoProto] = (value("y", None),),
    opset: int = 21,
    **more: object,
) -> onnx.ModelProto:
    graph = helper.make_graph(nodes, "tiny", inputs, outputs, constants)
    imports = [helper.make_opsetid("", opset)]
    if any(node.domain == "com.microsoft" for node in nodes):
        imports.append(helper.make_opsetid("com.microsoft", 1))
    return helper.make_model(graph, opset_imports=imports, ir_version=10, **more)


def saved(proto: onnx.ModelProto, folder: Path, name: str = "tiny.onnx") -> Path:
    path = folder / name
    path.write_bytes(proto.SerializeToString(deterministic=True))
    return path


def weights(*shape: int, seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).normal(0, 0.3, shape).astype(np.float32)


def conv_relu() -> onnx.ModelProto:
    """x [N,3,5,7] -> conv (4 channels, padded) -> relu -> y."""
    return model(
        [
            helper.make_node("Conv", ["x", "w", "b"], ["c"], name="conv", pads=[1, 1, 1, 1]),
            helper.make_node("Relu", ["c"], ["y"], name="relu"),
        ],
        [constant("w", weights(4, 3, 3, 3)), constant("b", weights(4, seed=1))],
    )
