"""QOperator files show the same layers and tensors as a person sees in the QDQ version."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import helper
from onnxruntime.quantization.matmul_nbits_quantizer import (
    DefaultWeightOnlyQuantConfig,
    MatMulNBitsQuantizer,
    QuantFormat,
)
from tiny_onnx import constant, model, saved, value, weights

from quantscope.errors import BadModelError
from quantscope.model import Network, load_onnx, read_onnx

F, U8, I8, I32 = np.float32, np.uint8, np.int8, np.int32
node = helper.make_node
MS = "com.microsoft"
SCALES = [constant("s", 0.1, F), constant("z", 0, U8), constant("s2", 0.25, F)]


def read(proto: onnx.ModelProto, folder: Path) -> Network:
    return read_onnx(saved(proto, folder))


def between(*nodes: onnx.NodeProto, constants: list[onnx.TensorProto]) -> onnx.ModelProto:
    """x -> Q -> nodes from `q` to `o` -> DQ -> y."""
    return model(
        [
            node("QuantizeLinear", ["x", "s", "z"], ["q"]),
            *nodes,
            node("DequantizeLinear", ["o", "s2", "z"], ["y"]),
        ],
        [*SCALES, *constants],
        inputs=[value("x", ["N", 4, 6, 8])],
    )


def test_a_qlinearconv_is_a_conv(tmp_path: Path) -> None:
    layer = node(
        "QLinearConv",
        ["q", "s", "z", "w", "ws", "wz", "s2", "z", "b"],
        ["o"],
        name="stem.conv_quant",
        pads=[1, 1, 1, 1],
    )
    scales = np.linspace(0.01, 0.05, 5, dtype=F)
    stored = [
        constant("w", np.ones((5, 4, 3, 3)), I8),
        constant("ws", scales),
        constant("wz", np.zeros(5), I8),
        constant("b", np.arange(5), I32),
    ]
    network = read(between(layer, constants=stored), tmp_path)
    assert network.format == "qoperator"
    (conv,) = network.layers
    assert (conv.name, conv.op_type, conv.file_op_type) == ("stem.conv", "Conv", "QLinearConv")
    assert [o.role for o in conv.inputs] == ["activation", "weight", "bias"]
    assert conv.macs == 5 * 6 * 8 * 4 * 9
    assert conv.outputs[0].shape == ("N", 5, 6, 8)
    assert [t.name for t in network.tensors] == [
        "x",
        "stem.conv.weight",
        "stem.conv.bias",
        "stem.conv.out",
    ]
    weight, bias = conv.weight, conv.bias
    assert weight is not None
    assert bias is not None
    assert weight.params.axis == bias.params.axis == 0
    np.testing.assert_array_equal(bias.params.scale, F(0.1) * scales)
    assert (bias.scale_name, bias.params.dtype) == (None, "int32")
    np.testing.assert_array_equal(bias.integers(), np.arange(5))
    out = network.tensor("stem.conv.out")
    assert (out.clips_negatives, out.folded_relu) == (True, True)
    assert conv.weight_bytes == 5 * 4 * 9 + 5 * 4
    assert conv.live_bytes == 4 * 6 * 8 + 5 * 6 * 8


UNARY = ["q", "s", "z", "s2", "z"]
BINARY = ["q", "s", "z", "q", "s", "z", "s2", "z"]


@pytest.mark.parametrize(
    ("op", "kind", "inputs", "attributes", "shape"),
    [
        ("QLinearAdd", "Add", BINARY, {}, ("N", 4, 6, 8)),
        ("QLinearMul", "Mul", BINARY, {}, ("N", 4, 6, 8)),
        ("QLinearSigmoid", "Sigmoid", UNARY, {}, ("N", 4, 6, 8)),
        ("QLinearLeakyRelu", "LeakyRelu", UNARY, {"alpha": 0.1}, ("N", 4, 6, 8)),
        ("QLinearGlobalAveragePool", "GlobalAveragePool", UNARY, {}, ("N", 4, 1, 1)),
        ("QLinearAveragePool", "AveragePool", UNARY, {"kernel_shape": [3, 3]}, ("N", 4, 4, 6)),
        ("QLinearReduceMean", "ReduceMean", UNARY, {"axes": [2, 3], "keepdims": 0}, ("N", 4)),
        ("QLinearSoftmax", "Softmax", UNARY, {"axis": 1, "opset": 13}, ("N", 4, 6, 8)),
        (
            "QLinearConcat",
            "Concat",
            ["s2", "z", "q", "s", "z", "q", "s", "z"],
            {"axis": 1},
            ("N", 8, 6, 8),
        ),
    ],
)
def test_onnxruntimes_operators_are_the_float_ones(
    tmp_path: Path, op: str, kind: str, inputs: list[str], attributes: dict, shape: object
) -> None:
    layer = node(op, inputs, ["o"], name="it_quant", domain=MS, **attributes)
    network = read(between(layer, constants=[]), tmp_path)
    it = network.layer("it")
    assert it.op_type == kind
    assert [o.quant.name for o in it.inputs if o.quant] == ["x"] * (len(inputs) // 3)
    assert it.outputs[0].quant is network.tensor("it.out")
    assert network.tensor("it.out").params.scale == F(0.25)
    assert it.outputs[0].shape == shape
    assert network.notes[1:] == ()


@pytest.mark.parametrize("trans_b", [0, 1])
@pytest.mark.parametrize("has_output_scale", [True, False])
def test_a_qgemm_is_a_gemm(tmp_path: Path, trans_b: int, has_output_scale: bool) -> None:
    inputs = ["q", "s", "z", "w", "ws", "wz", "b", *(["s2", "z"] if has_output_scale else [])]
    output = "o" if has_output_scale else "y"
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        node("QGemm", inputs, [output], name="head_quant", domain=MS, transB=trans_b),
    ]
    if has_output_scale:
        nodes.append(node("DequantizeLinear", ["o", "s2", "z"], ["y"]))
    stored = [
        constant("w", np.ones((3, 8) if trans_b else (8, 3)), I8),
        constant("ws", [0.1, 0.2, 0.3], F),
        constant("wz", [0, 0, 0], I8),
        constant("b", np.arange(3), I32),
    ]
    network = read(model(nodes, [*SCALES, *stored], inputs=[value("x", ["N", 8])]), tmp_path)
    head = network.layer("head")
    assert (head.op_type, head.macs) == ("Gemm", 24)
    assert head.weight is not None
    assert head.weight.params.axis == 1 - trans_b
    assert head.bias is not None
    np.testing.assert_allclose(head.bias.params.scale, [0.01, 0.02, 0.03], rtol=1e-6)
    assert head.outputs[0].dtype == ("uint8" if has_output_scale else "float32")


def test_a_qlinearmatmul_may_have_a_scale_per_column(tmp_path: Path) -> None:
    layer = node("QLinearMatMul", ["q", "s", "z", "w", "ws", "wz", "s2", "z"], ["o"], name="mm")
    stored = [
        constant("w", np.ones((8, 2)), I8),
        constant("ws", [0.1, 0.2], F),
        constant("wz", [0, 0], I8),
    ]
    network = read(between(layer, constants=stored), tmp_path)
    assert network.tensor("mm.weight").params.axis == 1
    assert network.layer("mm").macs == 4 * 6 * 2 * 8


def test_integers_flow_through_plain_operators(tmp_path: Path) -> None:
    nodes = [
        node("MaxPool", ["q"], ["p"], name="pool", kernel_shape=[2, 2]),
        node("QLinearAdd", ["p", "s", "z", "p", "s", "z", "s2", "z"], ["o"], name="a", domain=MS),
    ]
    network = read(between(*nodes, constants=[]), tmp_path)
    assert network.tensor("pool.out").params == network.tensor("x").params
    assert network.layer("pool").inputs[0].quant is network.tensor("x")


def test_both_ways_in_one_file_are_mixed(tmp_path: Path) -> None:
    nodes = [
        node("QLinearSigmoid", UNARY, ["p"], name="a", domain=MS),
        node("DequantizeLinear", ["p", "s2", "z"], ["d"]),
        node("DequantizeLinear", ["w", "s"], ["wd"]),
        node("MatMul", ["d", "wd"], ["m"], name="b"),
        node("QuantizeLinear", ["m", "s2", "z"], ["o"]),
    ]
    network = read(between(*nodes, constants=[constant("w", np.ones((8, 2)), U8)]), tmp_path)
    assert network.format == "mixed"
    assert [layer.name for layer in network.layers] == ["a", "b"]
    assert all(operand.quant for layer in network.layers for operand in layer.inputs)


def block_quantized(folder: Path, *, bits: int, symmetric: bool, format_: QuantFormat) -> Path:
    """40 rows in blocks of 16: the last block is not full."""
    proto = model(
        [node("MatMul", ["x", "w"], ["y"], name="mm")],
        [constant("w", weights(40, 6))],
        inputs=[value("x", ["N", 40])],
    )
    config = DefaultWeightOnlyQuantConfig(
        block_size=16, is_symmetric=symmetric, bits=bits, quant_format=format_
    )
    quantizer = MatMulNBitsQuantizer(proto, algo_config=config)
    quantizer.process()
    path = folder / "nbits.onnx"
    quantizer.model.save_model_to_file(str(path))
    return path


@pytest.mark.parametrize(
    ("bits", "format_"),
    [(4, QuantFormat.QOperator), (8, QuantFormat.QOperator), (4, QuantFormat.QDQ)],
)
def test_small_block_weights_dequantize_as_the_runtime_does(
    tmp_path: Path, bits: int, format_: QuantFormat
) -> None:
    path = block_quantized(tmp_path, bits=bits, symmetric=False, format_=format_)
    layer = read_onnx(path).layer("mm")
    assert (layer.op_type, layer.macs) == ("MatMul", 240)
    weight = layer.weight
    assert weight is not None
    assert (weight.params.bits, weight.params.block_size) == (bits, 16)
    values = weight.values() if format_ == QuantFormat.QDQ else weight.values().T
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    runtime = session.run(None, {"x": np.eye(40, dtype=F)})[0]
    np.testing.assert_allclose(values[:40], runtime, atol=2e-3)
    assert layer.weight_bytes == 40 * 6 * bits // 8


@pytest.mark.parametrize("format_", [QuantFormat.QOperator, QuantFormat.QDQ])
def test_negative_block_scales_of_onnxruntime_are_read_or_said(
    tmp_path: Path, format_: QuantFormat
) -> None:
    network = read_onnx(block_quantized(tmp_path, bits=4, symmetric=True, format_=format_))
    layer = network.layer("mm")
    assert layer.macs == 240
    assert layer.weight or any("negative scales" in note for note in network.notes)


def test_a_packed_weight_of_the_wrong_size_is_refused(tmp_path: Path) -> None:
    layer = node(
        "MatMulNBits",
        ["x", "w", "ws"],
        ["y"],
        name="mm",
        domain=MS,
        K=32,
        N=2,
        bits=4,
        block_size=16,
    )
    stored = [constant("w", np.zeros((2, 2, 7)), U8), constant("ws", np.ones(4), F)]
    path = saved(model([layer], stored, inputs=[value("x", ["N", 32])]), tmp_path)
    assert load_onnx(path).format == "blocks"
    with pytest.raises(
        BadModelError, match="does not hold 2 x 32 values of 4 bits in blocks of 16"
    ):
        read_onnx(path)


def test_operators_with_inputs_missing_do_not_crash(tmp_path: Path) -> None:
    for op in ("QLinearAdd", "QLinearConcat", "QGemm", "MatMulNBits", "DequantizeLinear"):
        proto = model([node(op, ["x"], ["y"], name="odd", domain=MS)])
        assert [layer.name for layer in read(proto, tmp_path).layers] == ["odd"]


def test_a_denormal_bias_scale_is_a_note_and_the_rest_is_shown(tmp_path: Path) -> None:
    names = ["q", "s", "z", "w", "ws", "wz", "s2", "z", "b"]
    stored = [
        constant("w", np.ones((2, 4, 3, 3)), I8),
        constant("ws", np.array([0.01, 1.2e-38], F)),
        constant("wz", np.zeros(2), I8),
        constant("b", np.arange(2), I32),
    ]
    layer = node("QLinearConv", names, ["o"], name="stem")
    network = read(between(layer, constants=stored), tmp_path)
    assert network.layer("stem").weight is not None and network.layer("stem").bias is None
    assert any("b is not shown as quantized" in note for note in network.notes)
