"""A network of four layers, with few enough orders that all of them can be tried."""

from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

from quantscope.data import Samples
from quantscope.quantize import PtqConfig, quantize_onnx

LAYERS = ("a", "b", "c", "d")
ROWS = 37


def rows(count: int = ROWS, *, labelled: bool = True) -> Samples:
    rng = np.random.default_rng(4)
    labels = rng.integers(0, 3, count) if labelled else None
    return Samples.from_arrays("made up", {"x": rng.normal(0, 1, (count, 5))}, labels)


def write_four_layers(folder: Path) -> tuple[Path, Path]:
    """Write a chain of four matrix products with ReLUs between, float and with coarse weights."""
    rng = np.random.default_rng(7)
    nodes, stored, value = [], [], "x"
    widths = dict(zip(LAYERS, ((5, 8), (8, 7), (7, 6), (6, 3)), strict=True))
    for name, shape in widths.items():
        weight = rng.normal(0, 1, shape).astype(np.float32)
        stored.append(numpy_helper.from_array(weight, f"{name}.weight"))
        out = "y" if name == "d" else f"{name}.out"
        nodes.append(helper.make_node("MatMul", [value, f"{name}.weight"], [out], name=name))
        value = out
        if name != "d":
            nodes.append(helper.make_node("Relu", [out], [f"{name}.relu"], name=f"{name}.relu"))
            value = f"{name}.relu"
    kind = onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        nodes,
        "four layers",
        [helper.make_tensor_value_info("x", kind, ["N", 5])],
        [helper.make_tensor_value_info("y", kind, ["N", 3])],
        stored,
    )
    floats, path = folder / "four.onnx", folder / "four-int8.onnx"
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), floats
    )
    config = PtqConfig(activations="uint8", calibration_images=20)
    quantize_onnx(floats, path, config, calibration=rows(20))
    return floats, path
