"""A QOperator model and its QDQ lift state the same arithmetic."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from quantscope.data import load_sample
from quantscope.errors import BadModelError
from quantscope.model import lift_to_qdq
from quantscope.run import evaluate
from quantscope.run.onnx.sessions import session_of

Array = np.ndarray


def single_node(
    node: onnx.NodeProto, constants: dict[str, Array], x: Array, y_type: int
) -> onnx.ModelProto:
    graph = helper.make_graph(
        [node],
        "one",
        [helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)],
        [helper.make_tensor_value_info("y", y_type, ["?"] * x.ndim)],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def f32(*values: float) -> Array:
    return np.array(values if len(values) > 1 else values[0], np.float32)


def run(model: onnx.ModelProto, x: Array) -> Array:
    return session_of(model, "reference").run(None, {"x": x})[0]


RNG = np.random.default_rng(5)
X = RNG.integers(0, 256, (2, 3, 7, 5), dtype=np.uint8)
W = RNG.integers(-60, 60, (4, 3, 3, 3), dtype=np.int8)
XS, XZ = {"xs": f32(0.02), "xz": np.uint8(7)}, np.uint8(7)
OUT = {"ys": f32(0.11), "yz": np.uint8(101)}


def lifted_and_original(
    op: str, inputs: str, constants: dict[str, Array], x: Array = X, domain: str = "", **attributes
) -> tuple[Array, Array]:
    node = helper.make_node(op, inputs.split(" "), ["y"], name="n", domain=domain, **attributes)
    model = single_node(
        node, {k: np.asarray(v) for k, v in constants.items()}, x, TensorProto.UINT8
    )
    lifted = lift_to_qdq(model)
    onnx.checker.check_model(lifted)
    assert {n.op_type for n in lifted.graph.node} & {"QuantizeLinear"}
    assert op not in {n.op_type for n in lifted.graph.node}
    oracle = ReferenceEvaluator(model).run(None, {"x": x})[0] if not domain else run(model, x)
    return run(lifted, x), oracle


LAST = X.ndim - 1


def assert_within_a_tie(ours: Array, oracle: Array) -> None:
    """Equal, but for a step where a real number lies on a rounding tie."""
    difference = np.abs(ours.astype(int) - oracle.astype(int))
    assert difference.max() <= 1
    assert (difference > 0).mean() < 0.02


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("with_bias", [False, True])
def test_a_lifted_convolution_gives_the_specifications_integers(
    per_channel: bool, with_bias: bool
) -> None:
    scales = f32(0.01, 0.02, 0.005, 0.03) if per_channel else f32(0.01)
    zeros = np.array([0, 3, -2, 0], np.int8) if per_channel else np.int8(0)
    constants = {**XS, "w": W, "ws": scales, "wz": zeros, **OUT}
    inputs = "x xs xz w ws wz ys yz"
    if with_bias:
        constants["b"] = RNG.integers(-3000, 3000, 4, dtype=np.int32)
        inputs += " b"
    attributes = {"strides": [2, 1], "pads": [0, 1, 2, 1], "dilations": [1, 2]}
    assert_within_a_tie(*lifted_and_original("QLinearConv", inputs, constants, **attributes))


def test_a_lifted_matmul_gives_the_specifications_integers() -> None:
    x = RNG.integers(0, 256, (2, 3, 5), dtype=np.uint8)
    constants = {**XS, "b": RNG.integers(0, 256, (5, 4), dtype=np.uint8), **OUT}
    constants |= {"bs": f32(0.015), "bz": np.uint8(120)}
    assert_within_a_tie(
        *lifted_and_original("QLinearMatMul", "x xs xz b bs bz ys yz", constants, x)
    )


@pytest.mark.parametrize(
    ("op", "inputs", "attributes"),
    [
        ("QLinearAdd", "x xs xz c cs cz ys yz", {}),
        ("QLinearMul", "x xs xz c cs cz ys yz", {}),
        ("QLinearGlobalAveragePool", "x xs xz ys yz", {}),
        ("QLinearAveragePool", "x xs xz ys yz", {"kernel_shape": [2, 2], "strides": [2, 2]}),
        ("QLinearSigmoid", "x xs xz ss sz", {}),
        ("QLinearLeakyRelu", "x xs xz ys yz", {"alpha": 0.1}),
        ("QLinearConcat", "ys yz x xs xz c cs cz", {"axis": 1}),
        ("QLinearSoftmax", "x xs xz ss sz", {"axis": -1, "opset": 11}),
        ("QLinearSoftmax", "x xs xz ss sz", {"axis": 1, "opset": 13}),
        ("QLinearSoftmax", "x xs xz ss sz", {"axis": LAST, "opset": 11}),
    ],
)
def test_lifted_microsoft_operators_agree_with_onnxruntimes(
    op: str, inputs: str, attributes: dict[str, object]
) -> None:
    constants = {**XS, **OUT, "c": RNG.integers(0, 256, X.shape, dtype=np.uint8)}
    constants |= {"cs": f32(0.013), "cz": np.uint8(99), "ss": f32(1 / 256), "sz": np.uint8(0)}
    constants = {k: v for k, v in constants.items() if k in inputs.split()}
    ours, kernel = lifted_and_original(op, inputs, constants, domain="com.microsoft", **attributes)
    assert np.abs(ours.astype(int) - kernel.astype(int)).max() <= 1


def test_a_softmax_of_many_axes_stays_as_it_is() -> None:
    """Up to opset 12 axis 1 meant all axes from there on, which today's Softmax cannot state."""
    inputs = ["x", "xs", "xz", "ss", "sz"]
    node = helper.make_node(
        "QLinearSoftmax", inputs, ["y"], domain="com.microsoft", axis=1, opset=11
    )
    constants = {**XS, "ss": f32(1 / 256), "sz": np.uint8(0)}
    model = single_node(node, constants, X, TensorProto.UINT8)
    assert list(lift_to_qdq(model).graph.node) == [node]


def test_a_lifted_gemm_agrees_with_onnxruntimes() -> None:
    x = RNG.integers(0, 128, (3, 6), dtype=np.uint8)
    constants = {**XS, "w": RNG.integers(-60, 60, (4, 6), dtype=np.int8), **OUT}
    constants |= {"ws": f32(0.01, 0.02, 0.03, 0.04), "wz": np.zeros(4, np.int8)}
    constants["c"] = RNG.integers(-900, 900, 4, dtype=np.int32)
    ours, kernel = lifted_and_original(
        "QGemm", "x xs xz w ws wz c ys yz", constants, x, "com.microsoft", transB=1, alpha=1.0
    )
    assert np.abs(ours.astype(int) - kernel.astype(int)).max() <= 1


@pytest.mark.parametrize("activations", ["int8", "uint8"])
@pytest.mark.parametrize("per_channel", [False, True])
def test_both_formats_of_a_configuration_state_the_same_scores(
    activations: str, per_channel: bool, quantized: Callable[..., Path]
) -> None:
    sample = load_sample().take(100)
    choices = {"activations": activations, "per_channel": per_channel}
    qdq, qoperator = (
        evaluate(quantized(format=f, **choices), sample, execution="reference")
        for f in ("qdq", "qoperator")
    )
    assert np.array_equal(qdq.scores, qoperator.scores)


def test_lifting_leaves_its_input_unchanged(quantized: Callable[..., Path]) -> None:
    model = onnx.load(quantized(format="qoperator"))
    before = model.SerializeToString(deterministic=True)
    lift_to_qdq(model)
    assert model.SerializeToString(deterministic=True) == before


def test_integer_tensors_keep_their_names(quantized: Callable[..., Path]) -> None:
    model = onnx.load(quantized(format="qoperator"))
    integers = {n.output[0] for n in model.graph.node if n.op_type.startswith("QLinear")}
    lifted = lift_to_qdq(model)
    assert integers <= {n.output[0] for n in lifted.graph.node if n.op_type == "QuantizeLinear"}
    ort.InferenceSession(lifted.SerializeToString())


def test_an_optimized_model_cannot_be_lifted() -> None:
    node = helper.make_node(
        "QLinearGlobalAveragePool",
        ["x", "xs", "xz", "ys", "yz"],
        ["y"],
        name="pool",
        domain="com.microsoft",
        channels_last=1,
    )
    model = single_node(node, {k: np.asarray(v) for k, v in {**XS, **OUT}.items()}, X, 2)
    with pytest.raises(BadModelError, match="'pool' is QLinearGlobalAveragePool in channels-last"):
        lift_to_qdq(model)


@pytest.mark.parametrize("opset", [10, 12, 13])
def test_per_channel_models_of_old_opsets_are_lifted_too(opset: int) -> None:
    constants = {**XS, "w": W, "ws": f32(0.01, 0.02, 0.005, 0.03), **OUT}
    constants["wz"] = np.zeros(4, np.int8)
    node = helper.make_node(
        "QLinearConv", ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz"], ["y"], name="n"
    )
    model = single_node(node, {k: np.asarray(v) for k, v in constants.items()}, X, 2)
    model.opset_import[0].version = opset
    oracle = ReferenceEvaluator(model).run(None, {"x": X})[0]
    assert_within_a_tie(run(lift_to_qdq(model), X), oracle)


@pytest.mark.parametrize(
    ("op", "inputs"),
    [("QLinearAdd", "x xs xz x xs xz"), ("QLinearConcat", "xs xz x xs"), ("QGemm", "x xs xz x")],
)
def test_an_operator_that_lacks_inputs_is_one_line(op: str, inputs: str) -> None:
    node = helper.make_node(op, inputs.split(), ["y"], domain="com.microsoft")
    model = single_node(node, {"xs": f32(0.02), "xz": np.asarray(XZ)}, X, TensorProto.UINT8)
    with pytest.raises(BadModelError, match=f"has other inputs or attributes than {op} takes"):
        lift_to_qdq(model)


def test_an_input_with_several_scales_has_no_bias() -> None:
    constants = {**XS, **OUT, "xs": f32(0.1, 0.2), "w": W, "ws": f32(0.1), "wz": np.int8(0)}
    node = helper.make_node(
        "QLinearConv", ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz", "b"], ["y"]
    )
    held = {k: np.asarray(v) for k, v in constants.items()} | {"b": np.zeros(4, np.int32)}
    with pytest.raises(BadModelError, match="The scale 'xs' of an input has 2 values, not one"):
        lift_to_qdq(single_node(node, held, X, TensorProto.UINT8))
