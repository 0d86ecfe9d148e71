"""Build the large networks to measure: one shaped as ResNet50, and a chain of many layers.

Weights are random: nothing here is about accuracy, and time and memory do not hang on it.
"""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from benchmarks.models import Pair
from quantscope.data import Samples
from quantscope.quantize import PtqConfig, quantize_onnx

SIDE = 224
CLASSES = 1000
STAGES = ((64, 3), (128, 4), (256, 6), (512, 3))
"""The width of each stage's blocks, and how many there are."""


class _Writer:
    """Writes float layers one after another; each method gives the name of what it adds."""

    def __init__(self, seed: int) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self._random = np.random.default_rng(seed)

    def conv(
        self, name: str, value: str, sizes: tuple[int, int, int], *, stride: int = 1, gain: float
    ) -> str:
        """Add a convolution of `sizes` inputs, filters and a square kernel."""
        read, filters, side = sizes
        deviation = gain * np.sqrt(2 / (read * side * side))
        weight = self._random.normal(0, deviation, (filters, read, side, side))
        inputs = [value, self._store(f"{name}.weight", weight), self._bias(name, filters)]
        ends = [side // 2] * 4
        return self._add("Conv", name, inputs, strides=[stride] * 2, pads=ends)

    def relu(self, name: str, value: str) -> str:
        return self._add("Relu", name, [value])

    def bottleneck(self, name: str, value: str, read: int, width: int, stride: int) -> str:
        """Add 1x1, 3x3 and 1x1 convolutions beside the value itself, or a projection of it."""
        inner = self.conv(f"{name}.conv1", value, (read, width, 1), gain=1)
        inner = self.relu(f"{name}.relu1", inner)
        inner = self.conv(f"{name}.conv2", inner, (width, width, 3), stride=stride, gain=1)
        inner = self.relu(f"{name}.relu2", inner)
        inner = self.conv(f"{name}.conv3", inner, (width, 4 * width, 1), gain=0.3)
        if read != 4 * width or stride > 1:
            sizes = (read, 4 * width, 1)
            value = self.conv(f"{name}.downsample", value, sizes, stride=stride, gain=0.7)
        return self.relu(f"{name}.relu3", self._add("Add", f"{name}.add", [inner, value]))

    def classifier(self, value: str, read: int) -> str:
        value = self._add("GlobalAveragePool", "pool", [value])
        value = self._add("Flatten", "flatten", [value])
        weight = self._random.normal(0, np.sqrt(1 / read), (CLASSES, read))
        inputs = [value, self._store("fc.weight", weight), self._bias("fc", CLASSES)]
        return self._add("Gemm", "fc", inputs, transB=1)

    def max_pool(self, value: str) -> str:
        window = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4}
        return self._add("MaxPool", "maxpool", [value], **window)

    def save(self, path: Path, output: str, row: tuple[int, ...]) -> Path:
        one = helper.make_tensor_value_info("input", TensorProto.FLOAT, ["N", *row])
        last = helper.make_tensor_value_info(output, TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, path.stem, [one], [last], self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
        model.ir_version = 9
        onnx.save(onnx.shape_inference.infer_shapes(model), path)
        return path

    def _add(self, op_type: str, name: str, inputs: list[str], **attributes: Any) -> str:
        output = f"{name}.out"
        self.nodes.append(helper.make_node(op_type, inputs, [output], name=name, **attributes))
        return output

    def _bias(self, name: str, width: int) -> str:
        return self._store(f"{name}.bias", self._random.normal(0, 0.1, width))

    def _store(self, name: str, values: Any) -> str:
        self.constants.append(numpy_helper.from_array(values.astype(np.float32), name))
        return name


def write_resnet50(path: Path, seed: int = 0) -> Path:
    """Write a float network of ResNet50's layers and shapes, batch norms folded."""
    writer = _Writer(seed)
    value = writer.conv("conv1", "input", (3, 64, 7), stride=2, gain=1)
    value = writer.max_pool(writer.relu("relu", value))
    read = 64
    for stage, (width, blocks) in enumerate(STAGES, start=1):
        for block in range(blocks):
            stride = 2 if block == 0 and stage > 1 else 1
            value = writer.bottleneck(f"layer{stage}.{block}", value, read, width, stride)
            read = 4 * width
    return writer.save(path, writer.classifier(value, read), (3, SIDE, SIDE))


def write_chain(path: Path, layers: int, *, width: int = 8, side: int = 6) -> Path:
    """Write a float network of so many convolutions, each with a ReLU, a third with a skip."""
    writer = _Writer(0)
    value = writer.conv("stem", "input", (3, width, 3), gain=1)
    for number in range(layers - 1):
        made = writer.conv(f"block{number}.conv", value, (width, width, 3), gain=0.7)
        made = writer.relu(f"block{number}.relu", made)
        value = writer._add("Add", f"block{number}.add", [made, value]) if number % 3 == 2 else made
    return writer.save(path, value, (3, side, side))


def pictures(rows: int, *, side: int = SIDE, classes: int = CLASSES, seed: int = 1) -> Samples:
    """Make smooth pictures of noise, labelled at random."""
    random = np.random.default_rng(seed)
    coarse = random.normal(size=(rows, 3, side // 4 or 1, side // 4 or 1))
    smooth = coarse.repeat(4, axis=2).repeat(4, axis=3)[:, :, :side, :side]
    smooth = np.pad(smooth, [(0, 0)] * 2 + [(0, side - n) for n in smooth.shape[2:]])
    images = (smooth + 0.1 * random.normal(size=smooth.shape)).astype(np.float32)
    return Samples.of_images(
        f"{rows} pictures of noise",
        images,
        random.integers(0, classes, rows),
        np.arange(rows),
        tuple(f"class {number}" for number in range(classes)),
        "as-is",
    )


def resnet50_pair(folder: Path, **choices: Any) -> Pair:
    """Write the float network and its quantized version to `folder`; int8, per channel."""
    config = PtqConfig(
        **{"activations": "int8", "per_channel": True, "calibration_images": 8, **choices}
    )
    source, quantized = folder / "resnet50.onnx", folder / f"resnet50-{config.activations}.onnx"
    quantize_onnx(write_resnet50(source), quantized, config, calibration=pictures(8, seed=2))
    return Pair(f"a ResNet50 of random weights, {config.label()}", source, quantized)
