"""One body as two networks, float and quantized, and the values inside them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper
from tiny_qdq import TinyQdq

Array = np.ndarray[Any, Any]
Quantize = Callable[..., str]


def both(
    folder: Path,
    body: Callable[[TinyQdq, Quantize], str],
    shape: tuple[int, ...] = (3, 4, 5),
    batch: int | str = "N",
) -> tuple[Path, Path]:
    """The float and the quantized network; in the float one quantizing leaves a value as it is."""

    def written(name: str, quantize: Callable[[TinyQdq], Quantize]) -> Path:
        net = TinyQdq(shape, batch=batch)
        return net.save(folder, body(net, quantize(net)), name)

    return (
        written("float.onnx", lambda _: lambda value, *_, **__: value),
        written("quantized.onnx", lambda net: net.quantize),
    )


def values(path: Path, name: str, pictures: Array) -> Array:
    """As onnxruntime computes them, graph optimizations off."""
    model = onnx.load(path)
    model.graph.output.append(helper.make_empty_tensor_value_info(name))
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(model.SerializeToString(), options)
    return np.asarray(session.run([name], {"x": pictures})[0])
