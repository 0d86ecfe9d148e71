"""Tiny QDQ graphs, one tensor after the other."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import ArrayLike
from onnx import helper, numpy_helper

from quantscope.data import ImageSet


class TinyQdq:
    """Each method adds nodes and gives the name of what they make."""

    def __init__(self, shape: tuple[int, ...], *, batch: int | str = "N") -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        kind = onnx.TensorProto.FLOAT
        self.inputs = [helper.make_tensor_value_info("x", kind, [batch, *shape])]

    def constant(self, name: str, array: ArrayLike) -> str:
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def quantize(
        self, name: str, scale: float, zero_point: int, dtype: type = np.uint8, tag: str = ""
    ) -> str:
        """Quantize and dequantize the value `name`; `tag` tells a second time from the first."""
        params = [
            self.constant(f"{name}_scale{tag}", np.float32(scale)),
            self.constant(f"{name}_zero{tag}", dtype(zero_point)),
        ]
        for op, source, target in (
            ("QuantizeLinear", name, f"{name}_q{tag}"),
            ("DequantizeLinear", f"{name}_q{tag}", f"{name}_dq{tag}"),
        ):
            self.nodes.append(helper.make_node(op, [source, *params], [target], name=target))
        return f"{name}_dq{tag}"

    def stored(self, name: str, integers: np.ndarray, scale: ArrayLike, axis: int = 0) -> str:
        """A stored integer tensor, dequantized; zero-point 0."""
        scales = np.asarray(scale, np.float32)
        inputs = [
            self.constant(f"{name}_q", integers),
            self.constant(f"{name}_scale", scales),
            self.constant(f"{name}_zero", np.zeros(scales.shape, integers.dtype)),
        ]
        made = helper.make_node("DequantizeLinear", inputs, [name], name=f"{name}_dq")
        if scales.ndim:
            made.attribute.append(helper.make_attribute("axis", axis))
        self.nodes.append(made)
        return name

    def node(self, op: str, inputs: list[str], output: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(op, inputs, [output], name=output, **attributes))
        return output

    def save(self, folder: Path, output: str, name: str = "tiny.onnx") -> Path:
        result = helper.make_tensor_value_info(output, onnx.TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, "tiny", self.inputs, [result], self.constants)
        opsets = [helper.make_opsetid("", 21)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
        path = folder / name
        path.write_bytes(model.SerializeToString(deterministic=True))
        return path


def images_of(array: np.ndarray) -> ImageSet:
    """Images that go to the model as they are."""
    count = len(array)
    labels = np.zeros(count, np.int64)
    return ImageSet.of_images("made up", array, labels, np.arange(count), ("one",), "as-is")
