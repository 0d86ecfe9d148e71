"""A network in integers against onnxruntime: what the file states, and what ships."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from tiny_qdq import TinyQdq, images_of

from quantscope.data import load_sample
from quantscope.errors import BadModelError
from quantscope.model import bundled_models, read_onnx
from quantscope.quantize import LayerOverride
from quantscope.run import evaluate
from quantscope.run.capture.capture import capture
from quantscope.run.integers.network import integer_network

SAMPLE = load_sample().take(8)
PIXELS = SAMPLE.images.astype(np.float32)


@pytest.mark.parametrize("activations", ["uint8", "int8"])
@pytest.mark.parametrize("format", ["qdq", "qoperator"])
def test_integers_alone_give_the_stated_scores(
    activations: str, format: str, quantized: Callable[..., Path]
) -> None:
    path = quantized(activations=activations, format=format, per_channel=True)
    network = read_onnx(path)
    scores = integer_network(path).run(PIXELS)
    stated = evaluate(path, SAMPLE, execution="reference").scores
    step = float(network.tensor("head.out").params.scale)
    assert np.abs(scores - stated).max() <= 1.5 * step
    assert (scores == stated).mean() > 0.95


def test_without_saturation_the_kernels_are_the_integers(quantized: Callable[..., Path]) -> None:
    path = quantized(activations="int8")
    shipped = evaluate(path, SAMPLE, execution="runtime", int8_kernels=True).scores
    network = integer_network(path)
    np.testing.assert_array_equal(network.run(PIXELS, "kernel"), shipped)
    np.testing.assert_array_equal(network.run(PIXELS, "avx2"), shipped)


def moving(folder: Path) -> Path:
    """Everything that moves integers, a separate ReLU, a mean, and a tensor quantized twice.

    The scales are odd numbers, so that no sum falls on a rounding tie.
    """
    rng = np.random.default_rng(2)
    graph = TinyQdq((3, 8, 6))
    x = graph.quantize("x", 0.0517, 120)
    pads = graph.constant("pads", np.array([0, 0, 1, 0, 0, 0, 0, 2], np.int64))
    p = graph.quantize(graph.node("Pad", [x, pads], "p"), 0.0517, 120)
    w = graph.stored("w", rng.integers(-99, 99, (4, 3, 3, 3)).astype(np.int8), 0.0113)
    r = graph.quantize(graph.node("Relu", [graph.node("Conv", [p, w], "c")], "r"), 0.0413, 7)
    facts = {"kernel_shape": [2, 2], "strides": [2, 1], "pads": [0, 1, 1, 0]}
    m = graph.quantize(graph.node("MaxPool", [r], "m", **facts), 0.0413, 7)
    t = graph.quantize(graph.node("Transpose", [m], "t", perm=[0, 1, 3, 2]), 0.0611, 3)
    s = graph.quantize(graph.node("Relu", [t], "s"), 0.0611, 3)
    again = graph.quantize("t", 0.0917, 1, tag="_2")
    a = graph.quantize(graph.node("Add", [again, s], "a"), 0.107, 0)
    axes = graph.constant("axes", np.array([2, 3], np.int64))
    g = graph.quantize(graph.node("ReduceMean", [a, axes], "g", keepdims=0), 0.0531, 1)
    v = graph.stored("v", rng.integers(-99, 99, (4, 5)).astype(np.int8), 0.02)
    return graph.save(folder, graph.node("MatMul", [g, v], "y"))


def test_moving_layers_move_the_integers_that_execution_moves(tmp_path: Path) -> None:
    path = moving(tmp_path)
    images = np.random.default_rng(3).normal(0, 3, (5, 3, 8, 6)).astype(np.float32)
    stated = capture(path, images_of(images), ["a", "g"])
    scores = integer_network(path).run(images)
    assert scores.shape == (5, 5)
    np.testing.assert_allclose(scores, stated.outputs["y"], rtol=1e-5, atol=1e-6)
    assert len(np.unique(scores)) > 15


def test_nothing_is_kept_longer_than_it_is_read(quantized: Callable[..., Path]) -> None:
    seen: list[int] = []
    network = integer_network(quantized(activations="uint8"))
    last = network._last_use()
    assert last["input"] == 0 and last["stem.out"] == 3
    network.run(PIXELS[:1], observe=lambda *seen_here: seen.append(seen_here[2].size))
    assert len(seen) == 14


def test_what_is_not_integers_is_named_and_passed_as_float(
    tmp_path: Path, quantized: Callable[..., Path]
) -> None:
    with pytest.raises(BadModelError, match=r"resnet8\.onnx is a float model"):
        integer_network(bundled_models()["resnet8"])
    path = quantized(activations="uint8", overrides=(LayerOverride("head", left_float=True),))
    network = integer_network(path)
    assert [step.layer.name for step in network.passed] == ["head"]
    assert network.passed[0].reason.endswith("which is not quantized")
    stated = evaluate(path, SAMPLE, execution="reference").scores
    difference = np.abs(network.run(PIXELS) - stated).max(axis=1)
    # float32's sums fall on ties of their own now and then.
    assert (difference < 1e-4).mean() > 0.8 and difference.max() < 0.1
    graph = TinyQdq((3, 4, 5))
    x = graph.quantize("x", 0.1, 3)
    p = graph.node("GlobalAveragePool", [x], "p")
    network = integer_network(graph.save(tmp_path, p))
    (passed,) = network.passed
    assert passed.reason == "writes real numbers that no quantizer follows"


def test_a_16_bit_model_has_exact_integers_too(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    graph = TinyQdq((3, 4, 5))
    x = graph.quantize("x", 0.0002, 30000, np.uint16)
    w = graph.stored("w", rng.integers(-32000, 32000, (2, 3, 3, 3)).astype(np.int16), 1e-5)
    graph.node("Conv", [x, w], "y")
    path = graph.save(tmp_path, graph.quantize("y", 0.0005, 30000, np.uint16))
    images = rng.normal(0, 2, (2, 3, 4, 5)).astype(np.float32)
    stated = capture(path, images_of(images), ["y"]).outputs["y_dq"]
    scores = integer_network(path).run(images)
    # float32 sums of 16-bit products are rounded themselves: more than ties can differ.
    assert np.abs(scores - stated).max() <= 0.0005 * 1.5


def test_a_transposed_constant_is_met_as_it_is_read(tmp_path: Path) -> None:
    graph = TinyQdq((3, 4, 5))
    x = graph.quantize("x", 0.03, 100)
    w = graph.stored("w", np.arange(-20, 15, dtype=np.int8).reshape(7, 5), np.full(7, 0.02))
    t = graph.node("Transpose", [w], "t", perm=[1, 0])
    graph.node("MatMul", [x, t], "y")
    path = graph.save(tmp_path, graph.quantize("y", 0.05, 128))
    assert {n.op_type for n in onnx.load(path).graph.node} >= {"Transpose", "MatMul"}
    images = np.random.default_rng(5).normal(0, 2, (2, 3, 4, 5)).astype(np.float32)
    stated = capture(path, images_of(images), ["y"]).outputs["y_dq"]
    scores = integer_network(path).run(images)
    assert scores.shape == (2, 3, 4, 7)
    assert (scores == stated).mean() > 0.99
