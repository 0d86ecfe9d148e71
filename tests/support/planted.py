"""A small float network, rows for it, and quantized versions with one planted defect each."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from quantscope.data import Samples
from quantscope.diagnose import Diagnosis, diagnose
from quantscope.edit import Edit, Editor
from quantscope.quantize import PtqConfig, quantize_model

Array = np.ndarray[Any, Any]
SHAPE = (3, 6, 7)


def convnet_weights(seed: int = 3) -> dict[str, Array]:
    """Weights of a residual block and a head; every channel is about as large as any other."""
    rng = np.random.default_rng(seed)

    def drawn(*shape: int) -> Array:
        fan_in = int(np.prod(shape[1:]))
        # Uniform, so that no weight and no activation lies far from the others.
        return rng.uniform(-1, 1, shape).astype(np.float32) * np.float32(np.sqrt(6 / fan_in))

    def bias(size: int) -> Array:
        return rng.uniform(0, 0.2, size).astype(np.float32)

    return {
        "conv1.weight": drawn(8, 3, 3, 3),
        "conv1.bias": bias(8),
        "conv2.weight": drawn(8, 8, 3, 3),
        "conv2.bias": bias(8),
        "head.weight": drawn(5, 8),
        "head.bias": bias(5),
    }


def convnet(weights: dict[str, Array], *, clip: float | None = None) -> onnx.ModelProto:
    """x -> conv1 -> ReLU -> conv2, added to its input -> ReLU -> mean -> head."""
    constants = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    first = helper.make_node("Relu", ["c1"], ["r1"], name="relu1")
    if clip is not None:
        ends = {"low": 0.0, "high": clip}
        constants += [numpy_helper.from_array(np.float32(v), name) for name, v in ends.items()]
        first = helper.make_node("Clip", ["c1", "low", "high"], ["r1"], name="relu1")
    nodes = [
        helper.make_node(
            "Conv", ["x", "conv1.weight", "conv1.bias"], ["c1"], name="conv1", pads=[1] * 4
        ),
        first,
        helper.make_node(
            "Conv", ["r1", "conv2.weight", "conv2.bias"], ["c2"], name="conv2", pads=[1] * 4
        ),
        helper.make_node("Add", ["r1", "c2"], ["a"], name="add"),
        helper.make_node("Relu", ["a"], ["r2"], name="relu2"),
        helper.make_node("GlobalAveragePool", ["r2"], ["g"], name="pool"),
        helper.make_node("Flatten", ["g"], ["f"], name="flatten"),
        helper.make_node("Gemm", ["f", "head.weight", "head.bias"], ["y"], name="head", transB=1),
    ]
    return finished(nodes, constants, SHAPE)


def finished(
    nodes: Sequence[onnx.NodeProto],
    constants: Sequence[onnx.TensorProto],
    shape: Sequence[int],
    output: str = "y",
) -> onnx.ModelProto:
    kind = onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        list(nodes),
        "planted",
        [helper.make_tensor_value_info("x", kind, ["N", *shape])],
        [helper.make_tensor_value_info(output, kind, None)],
        list(constants),
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    return onnx.shape_inference.infer_shapes(model, strict_mode=True)


def rows(count: int, *, seed: int, shape: Sequence[int] = SHAPE) -> Samples:
    """Rows with values from -1 to 1, and labels that say nothing."""
    rng = np.random.default_rng(seed)
    array = rng.uniform(-1, 1, (count, *shape)).astype(np.float32)
    return Samples.from_arrays(f"rows {seed}", {"x": array})


@dataclass(frozen=True, eq=False)
class Planted:
    """A float model, its quantized version, and the samples on both sides."""

    floats: Path
    quantized: Path
    samples: Samples
    calibration: Samples


@dataclass
class Plant:
    """Makes planted networks in a folder; `change` may edit the quantized file's bytes."""

    folder: Path
    samples: Samples = field(default_factory=lambda: rows(128, seed=1))
    calibration: Samples = field(default_factory=lambda: rows(64, seed=2))

    def make(
        self,
        proto: onnx.ModelProto,
        *,
        change: Callable[[Path], None] | None = None,
        samples: Samples | None = None,
        calibration: Samples | None = None,
        **options: Any,
    ) -> Planted:
        floats, quantized = self.folder / "float.onnx", self.folder / "quantized.onnx"
        floats.write_bytes(proto.SerializeToString(deterministic=True))
        by = calibration or self.calibration
        config = PtqConfig(**{"activations": "uint8", "calibration_images": len(by), **options})
        quantize_model(floats, quantized, config, calibration=by)
        if change is not None:
            change(quantized)
        return Planted(floats, quantized, samples or self.samples, by)


def examined(planted: Planted, *, tries: bool = False) -> Diagnosis:
    result = diagnose(
        planted.quantized,
        planted.samples,
        float_model=planted.floats,
        calibration=planted.calibration,
        tries=tries,
    )
    json.dumps(result.to_dict(), allow_nan=False)  # every kind's numbers are plain
    return result


def kinds(planted: Planted) -> list[str]:
    return [finding.kind for finding in examined(planted).findings]


def edited(*edits: Edit) -> Callable[[Path], None]:
    """Write edits into the file itself, as if it had been made so."""

    def change(path: Path) -> None:
        content = Editor(path).apply(edits).to_bytes()
        path.write_bytes(content)

    return change


def rewritten(change: Callable[[onnx.ModelProto], None]) -> Callable[[Path], None]:
    """Change the quantized file's graph by hand."""

    def write(path: Path) -> None:
        proto = onnx.load(path)
        change(proto)
        path.write_bytes(proto.SerializeToString(deterministic=True))

    return write


def constant(proto: onnx.ModelProto, name: str) -> Array:
    """Read a stored constant by its name."""
    found = next(each for each in proto.graph.initializer if each.name == name)
    return numpy_helper.to_array(found)


def set_constant(proto: onnx.ModelProto, name: str, array: Array) -> None:
    """Store other numbers under the name of a constant, in its type."""
    found = next(each for each in proto.graph.initializer if each.name == name)
    kept = numpy_helper.to_array(found).dtype
    found.CopyFrom(numpy_helper.from_array(np.asarray(array, kept), name))
