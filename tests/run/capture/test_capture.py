"""Captured integers against what onnxruntime itself gives, and that looking changes nothing."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tiny_qdq import TinyQdq, images_of

import small_networks
from quantscope.arithmetic import dequantize
from quantscope.data import load_sample
from quantscope.errors import BadDataError, BadModelError
from quantscope.model import Execution, read_onnx
from quantscope.report import capture_lines
from quantscope.run import evaluate
from quantscope.run.capture import capture_to_dict
from quantscope.run.capture.capture import capture
from quantscope.run.cpu import saturates_8bit_products

x86_only = pytest.mark.skipif(
    saturates_8bit_products() is not True, reason="needs an x86 CPU with AVX2 and without VNNI"
)
SAMPLE = load_sample().take(6)


@pytest.mark.parametrize("activations", ["uint8", "int8"])
@pytest.mark.parametrize("format", ["qdq", "qoperator"])
def test_looking_does_not_change_the_stated_arithmetic(
    activations: str, format: str, quantized: Callable[..., Path]
) -> None:
    path = quantized(activations=activations, format=format)
    plain = evaluate(path, SAMPLE, execution="reference")
    found = capture(path, SAMPLE)
    assert len(found.tensors) == 16
    assert found.unseen == {}
    np.testing.assert_array_equal(found.outputs["logits"], plain.scores)
    np.testing.assert_array_equal(found["head.out"].values, plain.scores)


def test_both_formats_state_the_same_integers(quantized: Callable[..., Path]) -> None:
    qdq, qoperator = (
        capture(quantized(activations="uint8", format=f), SAMPLE) for f in ("qdq", "qoperator")
    )
    assert qdq.tensors.keys() == qoperator.tensors.keys()
    for name, tensor in qdq.tensors.items():
        np.testing.assert_array_equal(tensor.integers, qoperator[name].integers, err_msg=name)


def test_real_values_are_the_integers_dequantized(quantized: Callable[..., Path]) -> None:
    found = capture(quantized(activations="uint8"), SAMPLE, ["stack1.add.out"])["stack1.add.out"]
    assert found.layer == "stack1.add"
    assert found.integers is not None and found.params is not None
    assert found.integers.shape == (6, 16, 32, 32) and found.integers.dtype == np.uint8
    np.testing.assert_array_equal(found.values, dequantize(found.integers, found.params))


@pytest.mark.parametrize("format", ["qdq", "qoperator"])
def test_uint8_runtime_integers_come_from_the_kernels_that_ship(
    format: str, quantized: Callable[..., Path]
) -> None:
    path = quantized(activations="uint8", format=format)
    found = capture(path, SAMPLE, execution="runtime")
    shipped = evaluate(path, SAMPLE, execution="runtime")
    assert found.unseen == {} and len(found.tensors) == 16
    np.testing.assert_array_equal(found.outputs["logits"], shipped.scores)
    assert found.kernels is not None
    assert {layer.name: layer.kernel for layer in found.kernels.layers}["stack1.conv1"] == "integer"


@x86_only
def test_what_cannot_be_seen_without_changing_it_is_said(quantized: Callable[..., Path]) -> None:
    path = quantized(activations="int8")
    names = ["stem", "stack1.conv1", "stack1.conv2"]
    found = capture(path, SAMPLE, names, execution="runtime", int8_kernels=False)
    shipped = evaluate(path, SAMPLE, execution="runtime", int8_kernels=False)
    np.testing.assert_array_equal(found.outputs["logits"], shipped.scores)
    assert "stem.out" in found.tensors
    assert found.unseen["stack1.conv1.out"].startswith(
        "looking at it changes the kernels that run (stack1.conv2"
    )
    with pytest.raises(BadModelError, match=r"stack1\.conv1\.out of .* cannot be seen: looking"):
        found["stack1.conv1.out"]


def test_the_output_s_integers_need_no_looking_into(quantized: Callable[..., Path]) -> None:
    path = quantized(activations="int8")
    found = capture(path, SAMPLE, execution="runtime", int8_kernels=False)
    shipped = evaluate(path, SAMPLE, execution="runtime", int8_kernels=False)
    assert "head.out" not in found.unseen
    head = found["head.out"]
    assert head.integers is not None and head.integers.dtype == np.int8
    np.testing.assert_array_equal(head.values, shipped.scores)
    assert list(found.tensors)[-1] == "head.out"


def test_with_int8_kernels_everything_can_be_seen(quantized: Callable[..., Path]) -> None:
    path = quantized(activations="int8")
    found = capture(path, SAMPLE, execution="runtime", int8_kernels=True)
    assert found.unseen == {} and len(found.tensors) == 16
    assert found.provenance["session.qdqisint8allowed"] == "1"


def test_tensors_go_by_every_name_they_have(quantized: Callable[..., Path]) -> None:
    path = quantized(activations="uint8")
    tensor = read_onnx(path).tensor("stem.out")
    names = ("stem", tensor.name, tensor.float_name, *tensor.integer_names)
    for name in (*names, *tensor.dequantized_names):
        assert list(capture(path, SAMPLE, [name]).tensors) == ["stem.out"]


def test_constants_need_no_images(quantized: Callable[..., Path]) -> None:
    path = quantized(activations="uint8")
    found = capture(path, SAMPLE, ["stem.weight", "stem.bias"])
    stored = read_onnx(path).tensor("stem.weight")
    np.testing.assert_array_equal(found["stem.weight"].integers, stored.integers())
    assert found["stem.bias"].integers is not None
    assert found["stem.bias"].integers.shape == (16,)
    assert list(found.by_layer) == [""]


def test_only_the_chosen_images_are_kept_in_their_order(quantized: Callable[..., Path]) -> None:
    path = quantized(activations="uint8")
    everything = capture(path, SAMPLE, ["pool"])["pool.out"].integers
    chosen = capture(path, SAMPLE.select([4, 1]), ["pool"])
    assert everything is not None
    np.testing.assert_array_equal(chosen["pool.out"].integers, everything[[4, 1]])
    assert chosen.indices.tolist() == SAMPLE.indices[[4, 1]].tolist()


def test_float_models_have_values_and_no_integers() -> None:
    found = capture("resnet8", SAMPLE, ["stem", "stack1.relu1.out"])
    assert found["stem.out"].integers is None
    assert found["stack1.relu1.out"].values.min() == 0
    assert found["stem.out"].values.shape == (6, 16, 32, 32)


def test_batches_do_not_show(quantized: Callable[..., Path]) -> None:
    path = quantized(activations="uint8")
    whole = capture(path, SAMPLE, ["pool"])["pool.out"].values
    parts = capture(path, SAMPLE, ["pool"], batch=4)["pool.out"].values
    np.testing.assert_array_equal(whole, parts)


def pooled(folder: Path, *, batch: int | str, turned: bool = False) -> Path:
    graph = TinyQdq((3, 4, 5), batch=batch)
    name = graph.quantize("x", 0.1, 3)
    if turned:
        name = graph.quantize(graph.node("Transpose", [name], "t", perm=[1, 0, 2, 3]), 0.1, 3)
        name = graph.node("Transpose", [name], "back", perm=[1, 0, 2, 3])
    graph.node("GlobalAveragePool", [name], "p")
    return graph.save(folder, graph.quantize("p", 0.1, 3))


def test_a_fixed_batch_is_filled_up_and_cut_again(tmp_path: Path) -> None:
    images = np.random.default_rng(0).normal(0, 3, (5, 3, 4, 5)).astype(np.float32)
    fixed = capture(pooled(tmp_path, batch=2), images_of(images), ["p_q"])
    free = capture(pooled(tmp_path, batch="N"), images_of(images), ["p_q"])
    assert fixed["p.out"].values.shape == (5, 3, 1, 1)
    np.testing.assert_array_equal(fixed["p.out"].integers, free["p.out"].integers)


def test_a_tensor_without_an_axis_of_images_leaves_the_others_seen(tmp_path: Path) -> None:
    path = pooled(tmp_path, batch="N", turned=True)
    images = images_of(np.ones((2, 3, 4, 5), np.float32))
    found = capture(path, images, ["t", "x"])
    assert list(found.tensors) == ["x"]
    assert found.unseen == {
        "t.out": "its first axis does not count images: its shape is [3, 2, 4, 5] for a batch of "
        "2, so its values cannot be told apart by image"
    }
    with pytest.raises(BadModelError, match="its first axis does not count images"):
        found["t.out"]


def test_bad_requests_get_one_line(quantized: Callable[..., Path]) -> None:
    path = quantized(activations="uint8")
    with pytest.raises(
        BadModelError, match=r"No layer or quantized tensor 'stem\.outt'.*closest: stem\.out"
    ):
        capture(path, SAMPLE, ["stem.outt"])
    with pytest.raises(BadDataError, match="holds no images"):
        capture(path, images_of(np.zeros((0, 3, 32, 32), np.float32)))
    with pytest.raises(BadModelError, match=r"pool\.out was not captured"):
        capture(path, SAMPLE, ["stem"])["pool.out"]


@pytest.mark.parametrize("execution", ["reference", "runtime"])
def test_an_output_without_an_axis_of_samples_is_left_out_by_name(
    tmp_path: Path, execution: Execution
) -> None:
    model = onnx.load(small_networks.quantized("autoencoder", "qdq-uint8", tmp_path))
    first = model.graph.output[0].name
    model.graph.node.append(helper.make_node("ReduceSum", [first], ["total"], keepdims=0))
    model.graph.output.append(helper.make_tensor_value_info("total", TensorProto.FLOAT, []))
    path = tmp_path / "two.onnx"
    onnx.save(model, path)
    found = capture(path, "random:6", execution=execution, batch=3)
    assert found.tensors and all(len(t.values) == 6 for t in found.tensors.values())
    assert list(found.outputs) == [first]
    (name,) = found.left_out
    assert name == "total"
    assert "first axis does not count images" in found.left_out[name]
    text = "\n".join(capture_lines(found, range(6), Path("c.npz")))
    assert f"output {name} is left out: its first axis" in text
    assert capture_to_dict(found)["left_out"][0]["name"] == name
