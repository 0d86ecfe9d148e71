"""Networks of every kind in integers: what onnxruntime's reference gives, the rest named."""

from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper
from tiny_qdq import TinyQdq

from quantscope.errors import BadModelError
from quantscope.model import open_model
from quantscope.run.integers import integer_network
from small_networks import NAMES, feeds, quantized

# What no arithmetic of integers is written for here.
FLOATS = {
    "mobile": set(),
    "detector": set(),
    "autoencoder": set(),
    "shuffle": {"Split"},
    "unet": {"ConvTranspose", "Resize"},
    "bytes": {"Gather", "ReduceMax"},
}


def stated_scores(path: Path, given: dict[str, np.ndarray]) -> np.ndarray:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    proto = open_model(path).as_onnx("a test").stated
    session = ort.InferenceSession(proto.SerializeToString(), options)
    return np.asarray(session.run(None, given)[0])


@pytest.mark.parametrize("form", ["qdq-uint8", "qoperator"])
@pytest.mark.parametrize("name", NAMES)
def test_integers_give_what_the_file_states(name: str, form: str, tmp_path: Path) -> None:
    path = quantized(name, form, tmp_path)
    given = feeds(name)
    network = integer_network(path)
    scores, stated = network.run(given), stated_scores(path, given)
    if name == "unet":  # ReferenceEvaluator's Resize and onnxruntime's differ on ties
        assert np.linalg.norm(scores - stated) < 0.1 * np.linalg.norm(stated)
    else:
        np.testing.assert_allclose(scores, stated, rtol=0, atol=1e-6)
    if name in FLOATS:
        assert {step.layer.op_type for step in network.passed} == FLOATS[name]


def test_what_is_found_at_run_time_is_refused_in_one_line(tmp_path: Path) -> None:
    expected = r"layers\.0 of \S+ reads spectrum, whose scale is found when the model runs"
    with pytest.raises(BadModelError, match=expected):
        integer_network(quantized("autoencoder", "dynamic", tmp_path))


def test_a_value_that_is_read_before_it_is_quantized_is_passed(tmp_path: Path) -> None:
    graph = TinyQdq((3, 4, 5))
    x = graph.quantize("x", 0.1, 100)
    graph.node("Sigmoid", [x], "s")
    product = graph.node("Mul", ["s", graph.quantize("s", 1 / 256, 0)], "y")
    network = integer_network(graph.save(tmp_path, graph.quantize(product, 1 / 256, 0)))
    reasons = {step.layer.op_type: step.reason for step in network.passed}
    assert reasons["Sigmoid"] == "writes what is also read before it is quantized"
    assert reasons["Mul"] == "reads s, which is not quantized"
    images = np.random.default_rng(0).normal(0, 3, (2, 3, 4, 5)).astype(np.float32)
    half = 1 / (1 + np.exp(-np.clip(np.rint(images / np.float32(0.1)), -100, 155) * 0.1))
    np.testing.assert_allclose(network.run(images), half * half, atol=1.5 / 256)


def test_a_layer_with_graphs_of_its_own_is_refused_in_one_line(tmp_path: Path) -> None:
    graph = TinyQdq((3, 4, 5))
    x = graph.quantize("x", 0.1, 100)
    positive = helper.make_tensor_value_info("yes", TensorProto.FLOAT, None)
    branch = helper.make_graph([helper.make_node("Relu", [x], ["yes"])], "branch", [], [positive])
    total = graph.node("ReduceSum", [x], "total", keepdims=0)
    truth = graph.node("Cast", [total], "truth", to=TensorProto.BOOL)
    chosen = graph.node("If", [truth], "chosen", then_branch=branch, else_branch=branch)
    path = graph.save(tmp_path, graph.quantize(chosen, 0.1, 100))
    with pytest.raises(BadModelError, match=r"chosen\S* of \S+ holds graphs of its own"):
        integer_network(path)
