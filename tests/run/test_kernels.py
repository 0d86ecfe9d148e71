"""The kernel map against what is known of onnxruntime, and the gap against the arithmetic."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import numpy_helper

from quantscope.data import load_sample
from quantscope.errors import BadConfigError
from quantscope.model import bundled_models
from quantscope.run import KernelMap, evaluate, kernel_gap, kernel_map
from quantscope.run.cpu import saturates_8bit_products
from quantscope.run.onnx.kernels import map_kernels
from quantscope.run.onnx.sessions import session_options
from quantscope.zoo import CONVOLUTIONS

x86_only = pytest.mark.skipif(
    saturates_8bit_products() is not True, reason="needs an x86 CPU with AVX2 and without VNNI"
)


def kernels(found: KernelMap) -> dict[str, str]:
    return {layer.name: layer.kernel for layer in found.layers}


def test_a_float_model_runs_no_integers() -> None:
    found = kernel_map(bundled_models()["resnet8"])
    assert found.integer_layers == 0
    assert {layer.why for layer in found.layers if layer.kernel == "float"} == {
        "the model is not quantized"
    }


def test_uint8_models_run_every_layer_as_integers(quantized: Callable[..., Path]) -> None:
    found = kernel_map(quantized(activations="uint8"))
    assert found.integer_layers == found.computing_layers == 14
    assert kernels(found)["flatten"] == "moves data"
    assert found.names_survived


def test_the_int8_option_decides_what_is_fused(quantized: Callable[..., Path]) -> None:
    path = quantized(activations="int8")
    off, on = (kernel_map(path, int8_kernels=allowed) for allowed in (False, True))
    assert off.integer_layers < on.integer_layers == 14
    assert (off.option, on.option) == ("0", "1")
    reasons = {layer.why for layer in off.layers if layer.kernel == "float"}
    assert reasons == {
        "onnxruntime fuses this int8 layer only with session.qdqisint8allowed=1 (--int8-kernels)"
    }


def test_a_wrong_bias_scale_is_named_as_the_reason(quantized: Callable[..., Path]) -> None:
    model = onnx.load(quantized(activations="uint8"))
    head = next(node for node in model.graph.node if node.name == "stack2.conv1")
    bias = next(node for node in model.graph.node if node.output[0] == head.input[2])
    scale = next(t for t in model.graph.initializer if t.name == bias.input[1])
    scale.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(scale) * 2, scale.name))
    layer = next(x for x in map_kernels(model).layers if x.name == "stack2.conv1")
    assert layer.kernel == "float"
    assert layer.why == (
        "the scale of its bias is not the product of its input's and weights' scales"
    )


def test_a_layer_left_float_says_what_is_not_quantized(quantized: Callable[..., Path]) -> None:
    from quantscope.quantize import LayerOverride

    path = quantized(activations="uint8", overrides=(LayerOverride("head", left_float=True),))
    layer = next(x for x in kernel_map(path).layers if x.name == "head")
    assert (layer.kernel, layer.executed_as) == ("float", "Gemm")
    assert layer.why is not None and "is not quantized" in layer.why


def test_nameless_nodes_can_be_followed(quantized: Callable[..., Path]) -> None:
    model = onnx.load(quantized(activations="uint8"))
    for node in model.graph.node:
        node.name = ""
    before = model.SerializeToString(deterministic=True)
    assert map_kernels(model).integer_layers == 14
    assert model.SerializeToString(deterministic=True) == before


def test_only_uint8_by_int8_products_can_saturate(quantized: Callable[..., Path]) -> None:
    multiplying = {conv.name for conv in CONVOLUTIONS} | {"head"}
    found = kernel_map(quantized(activations="uint8"))
    assert {layer.name for layer in found.layers if layer.saturates} == multiplying
    found = kernel_map(quantized(activations="int8"), int8_kernels=True)
    assert not any(layer.saturates for layer in found.layers)


@x86_only
def test_the_saturation_gap_is_found_and_explained(quantized: Callable[..., Path]) -> None:
    gap = kernel_gap(quantized(activations="uint8"), load_sample())
    assert gap.evaluation_delta.delta < 0
    assert gap.is_real
    assert "16-bit saturation, in 10 of this model's layers" in (gap.explanation() or "")
    assert "--reduce-range" in (gap.explanation() or "")


def test_seven_bit_weights_close_the_gap(quantized: Callable[..., Path]) -> None:
    gap = kernel_gap(quantized(activations="uint8", reduce_range=True), load_sample().take(300))
    assert not gap.is_real
    assert gap.explanation() is None


def test_int8_kernels_do_not_change_the_arithmetic(quantized: Callable[..., Path]) -> None:
    gap = kernel_gap(quantized(activations="int8"), load_sample().take(300), int8_kernels=True)
    assert not gap.is_real
    assert gap.runtime.provenance["session.qdqisint8allowed"] == "1"
    assert np.abs(gap.runtime.scores - gap.reference.scores).max() < 2


def test_models_without_two_executions_say_so() -> None:
    sample = load_sample().take(3)
    with pytest.raises(BadConfigError, match=r"resnet8\.onnx is a float model"):
        kernel_gap("resnet8", sample)
    with pytest.raises(BadConfigError, match=r"resnet8\.safetensors is a PyTorch model"):
        kernel_gap("resnet8-torch", sample)


@x86_only
def test_the_session_option_that_the_explanation_names_closes_the_gap(
    quantized: Callable[..., Path],
) -> None:
    path, sample = quantized(activations="uint8"), load_sample().take(200)
    stated = evaluate(path, sample, execution="reference")
    options = session_options("runtime")
    options.add_session_config_entry("session.x64quantprecision", "1")
    session = ort.InferenceSession(path, options)
    scores = session.run(None, {"input": sample.images.astype(np.float32)})[0]
    assert (scores.argmax(1) == stated.predictions).mean() > 0.99


@x86_only
def test_int8_made_uint8_by_the_optimizer_is_found_and_its_cure_named(
    quantized: Callable[..., Path],
) -> None:
    path = quantized(activations="int8", symmetric_activations=True)
    gap = kernel_gap(path, load_sample().take(300))
    assert gap.is_real
    assert "Keep its int8 activations int8 with --int8-kernels" in (gap.explanation() or "")
    assert not kernel_gap(path, load_sample().take(300), int8_kernels=True).is_real


def test_layers_of_a_qoperator_file_have_the_float_models_names(
    quantized: Callable[..., Path],
) -> None:
    names = {layer.name for layer in kernel_map(quantized(format="qoperator")).layers}
    assert {"stem", "stack2.shortcut", "stack3.add", "head"} <= names


def test_an_output_read_twice_is_named_as_the_reason(quantized: Callable[..., Path]) -> None:
    model = onnx.load(quantized(activations="uint8"))
    conv = next(node for node in model.graph.node if node.name == "stack2.conv1")
    model.graph.output.append(onnx.helper.make_tensor_value_info(conv.output[0], 1, ["N"] * 4))
    layer = next(x for x in map_kernels(model).layers if x.name == "stack2.conv1")
    assert layer.kernel == "float"
    assert layer.why == f"its output '{conv.output[0]}' is also read before it is quantized"


def qdq_model(nodes: str, constants: dict[str, np.ndarray], shape: list[int]) -> onnx.ModelProto:
    """`nodes` in ONNX's own text form."""
    text = f'<ir_version: 9, opset_import: ["" : 20]> g (float[{",".join(map(str, shape))}] x)'
    model = onnx.parser.parse_model(f"{text} => (float y) {{ {nodes} }}")
    model.graph.initializer.extend(
        numpy_helper.from_array(value, name) for name, value in constants.items()
    )
    return model


SCALES = {"s": np.float32(0.1).reshape(()), "z": np.uint8(3).reshape(())}
INPUT = "q = QuantizeLinear(x, s, z) xq = DequantizeLinear(q, s, z)"


def test_a_product_without_output_quantizer_can_saturate_too() -> None:
    weights = {"w": np.ones((6, 4), np.int8), "ws": np.float32(0.1).reshape(())}
    weights["wz"] = np.int8(0).reshape(())
    nodes = f"{INPUT} wq = DequantizeLinear(w, ws, wz) y = MatMul(xq, wq)"
    (layer,) = map_kernels(qdq_model(nodes, {**SCALES, **weights}, [2, 6])).layers
    assert (layer.executed_as, layer.saturates) == ("MatMulIntegerToFloat", True)


def test_a_depthwise_convolution_cannot_saturate() -> None:
    weights = {"w": np.ones((3, 1, 3, 3), np.int8), "ws": np.float32(0.1).reshape(())}
    weights["wz"] = np.int8(0).reshape(())
    nodes = (
        f"{INPUT} wq = DequantizeLinear(w, ws, wz) c = Conv<group = 3>(xq, wq) "
        "cq = QuantizeLinear(c, s, z) y = DequantizeLinear(cq, s, z)"
    )
    (layer,) = map_kernels(qdq_model(nodes, {**SCALES, **weights}, [1, 3, 8, 8])).layers
    assert (layer.executed_as, layer.saturates) == ("QLinearConv", False)
