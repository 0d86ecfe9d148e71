"""A file alone: the network with every quantizer off stands in for its float original."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import helper, numpy_helper
from onnxruntime.quantization import quantize_dynamic
from tiny_onnx import model, value

from quantscope.errors import BadModelError
from quantscope.model import need_original, open_model
from quantscope.model.pairing import pair_models
from quantscope.run import compare
from small_networks import NAMES, default_batch, feeds, float_path, quantized

FORMS = ("qdq-int8-per-channel", "qdq-uint8", "qoperator", "qdq-a16")


def _run(path: Path, given: dict[str, np.ndarray]) -> list[np.ndarray]:
    return ort.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, given)


def _off(found: list[np.ndarray], expected: list[np.ndarray]) -> float:
    return max(
        float(np.linalg.norm(one - two) / np.linalg.norm(two))
        for one, two in zip(found, expected, strict=True)
    )


@pytest.mark.parametrize("name", [*NAMES, "encoder-written-out"])
@pytest.mark.parametrize("form", FORMS)
def test_the_stand_in_is_float_and_nearer_to_the_original(
    name: str, form: str, tmp_path: Path
) -> None:
    path = quantized(name, form, tmp_path)
    model = open_model(path)
    found = need_original(model)
    assert found.is_stand_in and found.is_float
    assert found.name == f"{path.name} with every quantizer off"
    assert [port.name for port in found.outputs] == [port.name for port in model.outputs]
    given = feeds(name, 16 if default_batch(name) == "N" else 1)
    original = _run(float_path(name, tmp_path), given)
    here = _off(_run(found.path, given), original)
    # The weights' rounding is left, and nothing else.
    assert here < 0.05, f"off by {here:.1%}"
    if form != "qdq-a16":
        assert here < _off(_run(path, given), original)


@pytest.mark.parametrize("name", NAMES)
def test_every_activation_is_paired_with_the_stand_in(name: str, tmp_path: Path) -> None:
    for form in FORMS:
        model = open_model(quantized(name, form, tmp_path))
        pairing = pair_models(need_original(model), model)
        assert [u for u in pairing.unpaired if u.role == "activation"] == []


@pytest.mark.parametrize("name", NAMES)
def test_a_dynamic_model_has_a_stand_in_too(name: str, tmp_path: Path) -> None:
    path = quantized(name, "dynamic", tmp_path)
    given = feeds(name)
    stand_in = open_model(path).stand_in
    assert stand_in.is_float
    original = _run(float_path(name, tmp_path), given)
    assert _off(_run(stand_in.path, given), original) < 0.05


def test_what_has_no_float_form_is_named(tmp_path: Path) -> None:
    path = quantized("autoencoder", "qdq-uint8", tmp_path)
    proto = onnx.load(path)
    # A scale that is computed while the network runs.
    quantizer = next(n for n in proto.graph.node if n.op_type == "QuantizeLinear")
    proto.graph.node.insert(
        0, onnx.helper.make_node("Abs", [quantizer.input[1]], ["computed_scale"])
    )
    next(n for n in proto.graph.node if n.op_type == "QuantizeLinear").input[1] = "computed_scale"
    other = tmp_path / "computed.onnx"
    onnx.save(proto, other)
    with pytest.raises(BadModelError, match=r"cannot all be switched off: QuantizeLinear has no"):
        _ = open_model(other).stand_in


def test_dynamic_weights_of_a_file_alone_are_listed_with_the_true_reason(tmp_path: Path) -> None:
    path = quantized("mobile", "dynamic", tmp_path)
    found = compare(path, "random:2")
    reasons = {each.name: each.reason for each in found.unpaired if each.role == "weight"}
    assert reasons and set(reasons.values()) == {
        "what it was rounded from is in the float model only; give it with --float"
    }


def test_a_weight_that_is_quantized_at_each_run_stands_for_itself(tmp_path: Path) -> None:
    """Its file holds the float numbers, in a Constant node: the stand-in is the original."""
    weight = np.random.default_rng(2).normal(0, 0.2, (4, 3, 3, 3)).astype(np.float32)
    nodes = [
        helper.make_node("Constant", [], ["w"], value=numpy_helper.from_array(weight, "stored")),
        helper.make_node("Conv", ["x", "w"], ["y"], name="conv"),
    ]
    floats, path = tmp_path / "float.onnx", tmp_path / "dynamic.onnx"
    onnx.save(model(nodes, inputs=[value("x", ["N", 3, 8, 8])], opset=17), floats)
    quantize_dynamic(floats, path)
    found = need_original(open_model(path))
    given = {"x": np.random.default_rng(3).normal(0, 1, (2, 3, 8, 8)).astype(np.float32)}
    assert _off(_run(found.path, given), _run(floats, given)) < 1e-6
    assert _off(_run(path, given), _run(floats, given)) > 1e-4
