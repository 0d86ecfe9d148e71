"""Dynamic quantization is read as layers whose weights are quantized, with run-time inputs."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import helper
from onnxruntime.quantization import QuantType, quantize_dynamic
from tiny_onnx import constant, model, saved, value

from quantscope.model import Network, load_onnx, read_onnx
from quantscope.report.network_text import quantized_text
from small_networks import NAMES, float_path, quantized

F, U8, I8, I32, I64 = np.float32, np.uint8, np.int8, np.int32, np.int64
node = helper.make_node
MS = "com.microsoft"
INT32 = onnx.TensorProto.INT32


def integers(kind: type, *shape: int) -> np.ndarray:
    info = np.iinfo(kind)
    drawn = np.random.default_rng(1).integers(info.min, info.max, shape, endpoint=True)
    return drawn.astype(kind)


def fused(path: Path) -> Path:
    """Write the graph that onnxruntime's optimizer makes of a file."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.log_severity_level = 3
    made = path.with_name(f"fused-{path.name}")
    options.optimized_model_filepath = str(made)
    ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return made


@pytest.mark.parametrize("name", NAMES)
def test_every_dynamic_network_counts_what_its_file_holds(name: str, tmp_path: Path) -> None:
    path = quantized(name, "dynamic", tmp_path)
    nodes = onnx.load(path).graph.node
    network = read_onnx(path)
    quantizers = [n for n in nodes if n.op_type == "DynamicQuantizeLinear"]
    products = [n for n in nodes if n.op_type in ("MatMulInteger", "ConvInteger")]
    assert network.format == "dynamic"
    assert {o.name for o in network.run_time_activations} == {n.input[0] for n in quantizers}
    assert {o.run_time_dtype for o in network.run_time_activations} == {"uint8"}
    weights = [layer.weight for layer in network.layers if layer.file_op_type.endswith("Integer")]
    assert [w.integer_names[0] for w in weights if w] == [n.input[1] for n in products]
    assert {layer.op_type for layer in network.layers} & {"MatMulInteger", "ConvInteger"} == set()
    dynamic = f"{len(quantizers):,} activations uint8, dynamic (parameters found at run time)"
    assert dynamic in quantized_text(network)


@pytest.mark.parametrize("name", NAMES)
def test_the_integer_weights_stand_for_the_float_ones(name: str, tmp_path: Path) -> None:
    network = read_onnx(quantized(name, "dynamic", tmp_path))
    there = sorted(
        float(np.linalg.norm(onnx.numpy_helper.to_array(tensor)))
        for tensor in onnx.load(float_path(name, tmp_path)).graph.initializer
        if tensor.data_type == onnx.TensorProto.FLOAT
    )
    for tensor in network.tensors:
        if tensor.role == "weight" and name not in ("mobile", "shuffle", "detector", "unet"):
            size = float(np.linalg.norm(tensor.values()))
            assert min(abs(size / each - 1) for each in there if each) < 0.01, tensor.name
        assert np.abs(tensor.params.scale).max() < 1


@pytest.mark.parametrize("name", ["encoder", "recurrent", "autoencoder"])
def test_what_onnxruntime_fuses_reads_as_what_it_was_fused_from(name: str, tmp_path: Path) -> None:
    path = quantized(name, "dynamic", tmp_path)
    apart, together = read_onnx(path), read_onnx(fused(path))
    kinds = {layer.file_op_type for layer in together.layers}
    assert kinds & {"DynamicQuantizeMatMul", "MatMulIntegerToFloat"}
    assert len(apart.run_time_activations) == len(together.run_time_activations)

    def weights(network: Network) -> list[tuple[object, ...]]:
        found = [(t.params.dtype, t.shape, t.values()) for t in network.tensors if t.has_data]
        return sorted((dtype, shape, float(v.sum())) for dtype, shape, v in found)

    assert weights(apart) == weights(together)


def test_scales_by_channel_lie_along_the_outputs(tmp_path: Path) -> None:
    made = tmp_path / "made.onnx"
    quantize_dynamic(
        float_path("recurrent", tmp_path), made, weight_type=QuantType.QInt8, per_channel=True
    )
    network = read_onnx(made)
    (first, last) = [t for t in network.tensors if t.role == "weight"]
    assert (first.params.axis, first.params.scale.shape, first.shape) == (1, (16,), (20, 16))
    assert (last.params.axis, last.params.scale.shape, last.shape) == (1, (5,), (12, 5))


@pytest.mark.parametrize("shift", [0.0, 0.9, -2.0])
def test_a_weight_that_is_quantized_at_each_run_is_a_weight(shift: float, tmp_path: Path) -> None:
    """A file that was not prepared has weights in Constant nodes; onnxruntime is the oracle."""
    weight = (np.random.default_rng(2).normal(0, 0.2, (4, 3, 3, 3)) + shift).astype(F)
    stored = node("Constant", [], ["w"], value=onnx.numpy_helper.from_array(weight, "stored"))
    conv = node("Conv", ["x", "w"], ["y"], name="conv")
    ends = [value("x", ["N", 3, 8, 8])], [value("y", ["N", 4, 6, 6])]
    proto = model([stored, conv], inputs=ends[0], outputs=ends[1], opset=17)
    floats = saved(proto, tmp_path, "float.onnx")
    path = tmp_path / "dynamic.onnx"
    quantize_dynamic(floats, path)
    network = read_onnx(path)
    assert [layer.op_type for layer in network.layers] == ["Conv"]
    assert [operand.name for operand in network.run_time_activations] == ["x"]
    (tensor,) = network.tensors
    assert tensor.role == "weight" and tensor is network.layers[0].weight
    proto = onnx.load(path)
    names = ["w_quantized", "w_scale", "w_zero_point"]
    proto.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in names)
    session = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    made = session.run(names, {"x": np.zeros((1, 3, 8, 8), F)})
    np.testing.assert_array_equal(tensor.integers(), made[0])
    assert (float(tensor.params.scale), int(tensor.params.zero_point)) == (made[1], made[2])


def test_two_activations_multiplied_are_both_found_at_run_time(tmp_path: Path) -> None:
    made = tmp_path / "made.onnx"
    quantize_dynamic(
        float_path("encoder", tmp_path), made, extra_options={"MatMulConstBOnly": False}
    )
    network = read_onnx(made)
    both = [layer for layer in network.layers if len(layer.activations) == 2]
    products = [layer for layer in both if layer.op_type == "MatMul"]
    assert len(products) == 4
    for layer in products:
        assert [o.run_time_dtype for o in layer.inputs] == ["uint8", "uint8"]
    # The scores are divided by the root of the heads' width: that is no scale.
    assert sum(layer.op_type == "Div" for layer in network.layers) == 2


def dynamic_product(*after: onnx.NodeProto, output: str, scale: object = 0.02) -> onnx.ModelProto:
    return model(
        [
            node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
            node("MatMulInteger", ["q", "w", "z", "wz"], ["sums"], name="fc_quant"),
            node("Cast", ["sums"], ["real"], to=1),
            node("Mul", ["s", "ws"], ["both"]),
            node("Mul", ["real", "both"], ["product"]),
            *after,
        ],
        [
            constant("w", integers(U8, 6, 5)),
            constant("ws", scale, F),
            constant("wz", 120, U8),
        ],
        inputs=[value("x", ["N", 6])],
        outputs=[value(output, None)],
    )


def test_a_product_is_one_layer_with_its_weights_parameters(tmp_path: Path) -> None:
    network = read_onnx(saved(dynamic_product(output="product"), tmp_path))
    (layer,) = network.layers
    assert (layer.name, layer.op_type, layer.file_op_type) == ("fc", "MatMul", "MatMulInteger")
    assert [o.role for o in layer.inputs] == ["activation", "weight"]
    assert (layer.inputs[0].name, layer.inputs[0].dtype) == ("x", "float32")
    assert layer.inputs[0].run_time_dtype == "uint8"
    weight = layer.weight
    assert weight is not None
    assert (weight.name, weight.params.dtype) == ("fc.weight", "uint8")
    assert float(weight.params.scale) == pytest.approx(0.02)
    assert int(weight.params.zero_point) == 120
    assert layer.outputs[0].name == "product"
    assert layer.macs == 6 * 5
    assert layer.weight_bytes == 30
    assert quantized_text(network) == (
        "1 activation uint8, dynamic (parameters found at run time), 1 weight uint8"
    )


def test_a_constant_factor_of_the_network_is_no_scale(tmp_path: Path) -> None:
    times = node("Mul", ["product", "half"], ["y"])
    proto = dynamic_product(times, output="y")
    proto.graph.initializer.append(constant("half", 0.5, F))
    network = read_onnx(saved(proto, tmp_path))
    assert [layer.op_type for layer in network.layers] == ["MatMul", "Mul"]
    assert network.layers[0].outputs[0].name == "product"


def test_sums_that_the_model_gives_stay_as_the_file_has_them(tmp_path: Path) -> None:
    proto = dynamic_product(output="product")
    proto.graph.output.append(value("sums", None, INT32))
    network = read_onnx(saved(proto, tmp_path))
    kinds = sorted(layer.file_op_type for layer in network.layers)
    assert kinds == ["Cast", "DynamicQuantizeLinear", "MatMulInteger", "Mul", "Mul"]
    assert not any(tensor.role == "weight" for tensor in network.tensors)


def test_an_attention_on_integers_shows_its_weights(tmp_path: Path) -> None:
    attention = node(
        "QAttention",
        ["q", "w", "b", "s", "ws", "", "z", "wz"],
        ["y"],
        domain=MS,
        name="Attention_0_quant",
        num_heads=2,
    )
    stored = [
        constant("w", integers(I8, 8, 24)),
        constant("b", np.zeros(24), F),
        constant("ws", np.full(24, 0.01), F),
        constant("wz", np.zeros(24), I8),
    ]
    quantizer = node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"])
    proto = model([quantizer, attention], stored, inputs=[value("x", ["N", 3, 8])])
    network = read_onnx(saved(proto, tmp_path))
    (layer,) = network.layers
    assert (layer.name, layer.op_type) == ("Attention_0", "Attention")
    assert [o.role for o in layer.inputs] == ["activation", "weight", "weight"]
    assert layer.inputs[0].run_time_dtype == "uint8"
    assert layer.weight is not None
    assert (layer.weight.params.axis, layer.weight.params.scale.size) == (1, 24)


def test_an_lstm_quantizes_what_it_reads_and_its_state(tmp_path: Path) -> None:
    names = ["x", "w", "r", "b", "", "h", "c", "", "ws", "wz", "rs", "rz"]
    lstm = node("DynamicQuantizeLSTM", names, ["y"], domain=MS, name="lstm_quant", hidden_size=3)
    stored = [
        constant("w", integers(I8, 1, 5, 12)),
        constant("r", integers(I8, 1, 3, 12)),
        constant("b", np.zeros((1, 24)), F),
        constant("ws", np.full((1, 12), 0.01), F),
        constant("wz", np.zeros((1, 12)), I8),
        constant("rs", [0.02], F),
        constant("rz", [0], I8),
    ]
    ports = [value("x", [4, 1, 5]), value("h", [1, 1, 3]), value("c", [1, 1, 3])]
    network = read_onnx(saved(model([lstm], stored, inputs=ports), tmp_path))
    (layer,) = network.layers
    assert layer.op_type == "LSTM"
    assert {o.name: o.run_time_dtype for o in layer.activations} == {
        "x": "uint8",
        "h": "uint8",
        "c": None,
    }
    by_file = {tensor.integer_names[0]: tensor.params for tensor in network.tensors}
    assert (by_file["w"].axis, by_file["w"].scale.size) == (2, 12)
    assert by_file["r"].axis is None


@pytest.mark.parametrize("per_channel", [False, True])
def test_an_lstm_of_two_directions_has_a_scale_for_each(tmp_path: Path, per_channel: bool) -> None:
    names = ["x", "w", "r", "b", "", "", "", "", "ws", "wz", "rs", "rz"]
    lstm = node(
        *("DynamicQuantizeLSTM", names, ["y"]),
        **{"domain": MS, "name": "lstm", "hidden_size": 3, "direction": "bidirectional"},
    )
    shape = (2, 12) if per_channel else (2,)
    stored = [
        constant("w", integers(I8, 2, 5, 12)),
        constant("r", integers(I8, 2, 3, 12)),
        constant("b", np.zeros((2, 24)), F),
        constant("ws", np.full(shape, 0.01), F),
        constant("wz", np.zeros(shape), I8),
        constant("rs", [0.02, 0.03], F),
        constant("rz", [0, 0], I8),
    ]
    network = read_onnx(saved(model([lstm], stored, inputs=[value("x", [4, 1, 5])]), tmp_path))
    by_file = {tensor.integer_names[0]: tensor.params for tensor in network.tensors}
    assert (by_file["r"].axis, by_file["r"].scale.tolist()) == (0, pytest.approx([0.02, 0.03]))
    if per_channel:
        assert "w" not in by_file
        assert "w is not shown as quantized: it has 12 scales for each of 2 directions" in str(
            network.notes
        )
    else:
        assert by_file["w"].axis == 0


def test_quantized_embeddings_are_weights_each_with_its_own_scale(tmp_path: Path) -> None:
    parts = {"word": 9, "place": 4, "kind": 2}
    shapes = {**{name: (rows, 6) for name, rows in parts.items()}, "gamma": (6,), "beta": (6,)}
    stored = [constant(name, integers(U8, *shape)) for name, shape in shapes.items()]
    stored += [constant(f"{name}_s", 0.01 * (i + 1), F) for i, name in enumerate(shapes)]
    stored += [constant(f"{name}_z", 100 + i, U8) for i, name in enumerate(shapes)]
    inputs = ["ids", "kinds", *shapes, "", *(f"{n}_s" for n in shapes), *(f"{n}_z" for n in shapes)]
    embed = node("QEmbedLayerNormalization", inputs, ["y", "m"], domain=MS, name="embed_quant")
    ports = [value(name, ["N", 4], INT32) for name in ("ids", "kinds")]
    network = read_onnx(saved(model([embed], stored, inputs=ports), tmp_path))
    params = {tensor.integer_names[0]: tensor.params for tensor in network.tensors}
    assert {name: int(found.zero_point) for name, found in params.items()} == {
        name: 100 + i for i, name in enumerate(shapes)
    }
    assert float(params["beta"].scale) == pytest.approx(0.05)


@pytest.mark.parametrize(("bits", "kind"), [(4, "uint4"), (2, "uint2")])
def test_a_packed_table_is_unpacked_as_onnxruntime_reads_it(
    bits: int, kind: str, tmp_path: Path
) -> None:
    packed = integers(U8, 7, 32 * bits // 8)
    scales = np.random.default_rng(2).uniform(0.01, 0.1, (7, 2)).astype(F)
    gather = node(
        "GatherBlockQuantized",
        ["t", "ids", "s"],
        ["y"],
        domain=MS,
        bits=bits,
        block_size=16,
        gather_axis=0,
        quantize_axis=1,
    )
    stored = [constant("t", packed), constant("s", scales)]
    ids = value("ids", ["N"], onnx.TensorProto.INT64)
    path = saved(model([gather], stored, inputs=[ids]), tmp_path)
    network = read_onnx(path)
    assert load_onnx(path).format == "blocks"
    (table,) = network.tensors
    assert (table.role, table.params.dtype, table.shape) == ("weight", kind, (7, 32))
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    (rows,) = session.run(None, {"ids": np.arange(7)})
    np.testing.assert_allclose(table.values(), rows, rtol=1e-6)


def test_a_table_of_integers_is_a_weight_that_its_rows_share_parameters_with(
    tmp_path: Path,
) -> None:
    network = read_onnx(quantized("encoder", "dynamic", tmp_path))
    table, rows = network.tensor("embeddings.word.weight"), network.tensor("embeddings.word.out")
    assert table.role == "weight"
    assert rows.shares_params_with == (table.name,)
    assert rows.params == table.params
