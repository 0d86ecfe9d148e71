"""Models that nobody here made: every way to write quantization down gives the same view."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import helper
from tiny_onnx import constant, model, saved, value, weights

from quantscope.errors import BadModelError
from quantscope.model import Network, read_onnx

F, U8, I8, I64 = np.float32, np.uint8, np.int8, np.int64
node = helper.make_node


def read(proto: onnx.ModelProto, folder: Path) -> Network:
    return read_onnx(saved(proto, folder))


def pair(
    name: str, scale: str = "s", zero: str = "z", **attributes: object
) -> list[onnx.NodeProto]:
    """Q and DQ of the value `name`, giving `name_d`."""
    inputs = [scale, zero] if zero else [scale]
    return [
        node("QuantizeLinear", [name, *inputs], [f"{name}_q"], **attributes),
        node("DequantizeLinear", [f"{name}_q", *inputs], [f"{name}_d"], **attributes),
    ]


SCALES = [constant("s", 0.1, F), constant("z", 3, U8)]


def qdq_around(*nodes: onnx.NodeProto, out: str, **more: object) -> onnx.ModelProto:
    constants = [*SCALES, *more.pop("constants", [])]  # type: ignore[misc]
    inputs = more.pop("inputs", [value("x", ["N", 4, 6, 8])])
    tail = [*pair(out), node("Identity", [f"{out}_d"], ["y"], name="end")]
    return model([*pair("x"), *nodes, *tail], constants, inputs=inputs, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("layer", "constants", "shape"),
    [
        (node("Reshape", ["x_d", "to"], ["o"]), [constant("to", [0, -1], I64)], ("N", 192)),
        (node("Transpose", ["x_d"], ["o"], perm=[0, 2, 3, 1]), [], ("N", 6, 8, 4)),
        (node("Concat", ["x_d", "x_d"], ["o"], axis=1), [], ("N", 8, 6, 8)),
        (node("MaxPool", ["x_d"], ["o"], kernel_shape=[2, 2], strides=[2, 2]), [], ("N", 4, 3, 4)),
        (node("Sigmoid", ["x_d"], ["o"]), [], ("N", 4, 6, 8)),
        (node("MatMul", ["x_d", "w"], ["o"]), [constant("w", weights(8, 5))], ("N", 4, 6, 5)),
        (
            node("Conv", ["x_d", "w"], ["o"], group=4),
            [constant("w", weights(4, 1, 3, 3))],
            ("N", 4, 4, 6),
        ),
        (
            node("Conv", ["x_d", "w"], ["o"], group=2),
            [constant("w", weights(6, 2, 3, 3))],
            ("N", 6, 4, 6),
        ),
    ],
)
def test_quantizers_around_any_operator_are_its_tensors(
    tmp_path: Path, layer: onnx.NodeProto, constants: Sequence[onnx.TensorProto], shape: object
) -> None:
    layer.name = "it"
    network = read(qdq_around(layer, out="o", constants=constants), tmp_path)
    assert [found.name for found in network.layers] == ["it", "end"]
    it = network.layer("it")
    assert it.inputs[0].quant is network.tensor("x")
    assert it.outputs[0].quant is network.tensor("it.out")
    assert it.outputs[0].shape == shape
    assert network.tensor("x").consumers == ("it",)
    assert network.tensor("it.out").producer == "it"
    assert network.tensor("it.out").consumers == ("end",)
    assert network.tensor("x").shares_params_with == ("it.out",)


def test_grouped_and_depthwise_convolutions_count_their_own_channels_only(tmp_path: Path) -> None:
    def macs(group: int, *shape: int) -> int | None:
        layer = node("Conv", ["x_d", "w"], ["o"], name="c", group=group)
        constants = [constant("w", weights(*shape))]
        return read(qdq_around(layer, out="o", constants=constants), tmp_path).layer("c").macs

    assert macs(1, 4, 4, 3, 3) == 4 * 4 * 6 * 4 * 9
    assert macs(2, 6, 2, 3, 3) == 6 * 4 * 6 * 2 * 9
    assert macs(4, 4, 1, 3, 3) == 4 * 4 * 6 * 1 * 9


@pytest.mark.parametrize(
    ("op", "shapes", "attributes", "macs"),
    [
        ("Gemm", [(5, 7), (7, 3)], {}, 5 * 7 * 3),
        ("Gemm", [(7, 5), (3, 7)], {"transA": 1, "transB": 1}, 5 * 7 * 3),
        ("MatMul", [(2, 5, 7), (7, 3)], {}, 2 * 5 * 7 * 3),
        ("MatMul", [(7,), (7, 3)], {}, 7 * 3),
        ("ConvTranspose", [(1, 4, 5, 6), (4, 3, 2, 2)], {}, 4 * 5 * 6 * 3 * 4),
        ("Einsum", [(2, 3), (3, 4)], {"equation": "ij,jk->ik"}, None),
        ("Add", [(2, 3), (2, 3)], {}, 0),
    ],
)
def test_multiply_accumulates(
    tmp_path: Path, op: str, shapes: list[tuple[int, ...]], attributes: dict, macs: int | None
) -> None:
    inputs = [value("a", shapes[0]), value("b", shapes[1])]
    proto = model([node(op, ["a", "b"], ["y"], **attributes)], inputs=inputs)
    assert read(proto, tmp_path).layers[0].macs == macs


def conv_with(
    *before: onnx.NodeProto, constants: Sequence[onnx.TensorProto], opset: int = 21
) -> onnx.ModelProto:
    """x -> Q/DQ -> conv with the weight `w_d` made by the nodes `before` -> Q/DQ."""
    return model(
        [
            *pair("x"),
            *before,
            node("Conv", ["x_d", "w_d"], ["c"], name="conv"),
            *pair("c"),
            node("Identity", ["c_d"], ["y"]),
        ],
        [*SCALES, *constants],
        opset=opset,
    )


W = weights(4, 3, 3, 3)
STEP = np.float32(0.01)
INTEGERS = np.clip(np.rint(W / STEP), -128, 127).astype(np.int8)


@pytest.mark.parametrize(
    ("before", "constants"),
    [
        (
            [node("DequantizeLinear", ["w_q", "ws", "wz"], ["w_d"])],
            [constant("w_q", INTEGERS), constant("ws", STEP), constant("wz", 0, I8)],
        ),
        (
            [node("DequantizeLinear", ["w_q", "ws"], ["w_d"])],
            [constant("w_q", INTEGERS), constant("ws", [STEP], F)],
        ),
        (
            [
                node("Constant", [], ["ws"], value_float=float(STEP)),
                node("Constant", [], ["wz"], value=constant("", 0, I8)),
                node("Constant", [], ["w_q"], value=constant("", INTEGERS)),
                node("DequantizeLinear", ["w_q", "ws", "wz"], ["w_d"]),
            ],
            [],
        ),
        (
            [
                node("Identity", ["ws0"], ["ws"]),
                node("QuantizeLinear", ["w", "ws", "wz"], ["w_q"]),
                node("DequantizeLinear", ["w_q", "ws", "wz"], ["w_d"]),
            ],
            [constant("w", W), constant("ws0", STEP), constant("wz", 0, I8)],
        ),
        (
            [
                node("DequantizeLinear", ["w_q", "ws", "wz"], ["w_t"]),
                node("Transpose", ["w_t"], ["w_d"], perm=[3, 2, 0, 1]),
            ],
            [
                constant("w_q", INTEGERS.transpose(2, 3, 1, 0)),
                constant("ws", STEP),
                constant("wz", 0, I8),
            ],
        ),
    ],
    ids=["stored", "no zero-point", "Constant nodes", "quantized in the graph", "transposed"],
)
def test_a_weight_is_found_however_it_is_written(
    tmp_path: Path, before: list[onnx.NodeProto], constants: list[onnx.TensorProto]
) -> None:
    network = read(conv_with(*before, constants=constants), tmp_path)
    assert [layer.name for layer in network.layers] == ["conv", "identity_1"]
    weight = network.layer("conv").weight
    assert weight is not None
    assert (weight.name, weight.role, weight.params.dtype) == ("conv.weight", "weight", "int8")
    assert weight.params.scale == STEP
    assert weight.integers().size == INTEGERS.size
    np.testing.assert_array_equal(np.sort(weight.integers().ravel()), np.sort(INTEGERS.ravel()))
    assert weight.values().astype(np.float64).sum() == pytest.approx(
        INTEGERS.astype(np.float64).sum() * STEP, rel=1e-6
    )
    assert network.layer("conv").weight_bytes == INTEGERS.size
    assert network.layer("conv").macs == 4 * 3 * 5 * 27
    assert not weight.integers().flags.writeable


@pytest.mark.parametrize(("axis", "count"), [(0, 4), (1, 3), (2, 5), (-1, 7)])
def test_per_channel_on_any_axis(tmp_path: Path, axis: int, count: int) -> None:
    scales = np.linspace(0.1, 0.2, count, dtype=F)
    network = read(
        model(
            [
                node("DequantizeLinear", ["w_q", "ws", "wz"], ["w"], axis=axis),
                node("Mul", ["x", "w"], ["y"], name="mul"),
            ],
            [
                constant("w_q", np.ones((4, 3, 5, 7)), U8),
                constant("ws", scales),
                constant("wz", np.arange(count), U8),
            ],
            inputs=[value("x", [4, 3, 5, 7])],
        ),
        tmp_path,
    )
    params = network.tensor("mul.weight").params
    assert params.axis == axis % 4
    np.testing.assert_array_equal(params.scale, scales)
    np.testing.assert_array_equal(params.zero_point, np.arange(count))


def test_a_bias_may_be_quantized_or_float(tmp_path: Path) -> None:
    layer = node("Conv", ["x_d", "w", "b_d"], ["o"], name="conv")
    stored = [
        constant("w", weights(4, 4, 3, 3)),
        constant("b_q", np.arange(4), np.int32),
        constant("bs", 0.001, F),
    ]
    dequantize = node("DequantizeLinear", ["b_q", "bs"], ["b_d"])
    conv = read(qdq_around(dequantize, layer, out="o", constants=stored), tmp_path).layer("conv")
    assert conv.bias is not None
    assert (conv.bias.params.dtype, conv.bias.name) == ("int32", "conv.bias")
    assert [o.role for o in conv.inputs] == ["activation", "weight", "bias"]
    layer.input[2] = "b"
    stored = [stored[0], constant("b", np.ones(4), F)]
    conv = read(qdq_around(layer, out="o", constants=stored), tmp_path).layer("conv")
    assert conv.bias is None
    assert [(o.role, o.dtype) for o in conv.inputs[1:]] == [
        ("weight", "float32"),
        ("bias", "float32"),
    ]


def test_one_dequantizer_may_have_many_readers(tmp_path: Path) -> None:
    nodes = [
        node("Relu", ["x_d"], ["a"], name="one"),
        node("Abs", ["x_d"], ["b"], name="two"),
        node("Add", ["a", "b"], ["o"], name="sum"),
    ]
    network = read(qdq_around(*nodes, out="o"), tmp_path)
    assert network.tensor("x").consumers == ("one", "two")
    assert network.layer("sum").inputs[0].source == "one"
    assert network.layer("sum").inputs[0].quant is None, (
        "a partly quantized model is shown as it is"
    )


def test_a_pair_for_each_reader_is_still_one_tensor(tmp_path: Path) -> None:
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["q1"]),
        node("QuantizeLinear", ["x", "s", "z"], ["q2"]),
        node("DequantizeLinear", ["q1", "s", "z"], ["d1"]),
        node("DequantizeLinear", ["q2", "s", "z"], ["d2"]),
        node("Relu", ["d1"], ["a"], name="one"),
        node("Abs", ["d2"], ["b"], name="two"),
        node("Add", ["a", "b"], ["y"]),
    ]
    network = read(model(nodes, SCALES), tmp_path)
    (tensor,) = network.tensors
    assert tensor.consumers == ("one", "two")
    assert (tensor.integer_names, tensor.dequantized_names) == (("q1", "q2"), ("d1", "d2"))
    assert network.tensor("d2") is tensor


def test_two_quantizers_in_a_row_are_two_tensors_of_one_layer(tmp_path: Path) -> None:
    nodes = [
        node("Tanh", ["x"], ["t"], name="tanh"),
        *pair("t"),
        *pair("t_d", "s2"),
        node("Abs", ["t_d_d"], ["y"], name="abs"),
    ]
    network = read(model(nodes, [*SCALES, constant("s2", 0.3, F)]), tmp_path)
    assert [(t.name, t.producer) for t in network.tensors] == [
        ("tanh.out", "tanh"),
        ("tanh.out_2", "tanh"),
    ]
    assert network.layer("abs").inputs[0].quant is network.tensor("tanh.out_2")
    assert network.layer("abs").inputs[0].source == "tanh"


def test_integers_that_are_only_moved_keep_their_scale(tmp_path: Path) -> None:
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        node("MaxPool", ["q"], ["p"], name="pool", kernel_shape=[2, 2]),
        node("Flatten", ["p"], ["f"], name="flat"),
        node("DequantizeLinear", ["f", "s", "z"], ["y"]),
    ]
    network = read(model(nodes, SCALES), tmp_path)
    pool, flat = network.tensor("pool.out"), network.tensor("flat.out")
    assert pool.follows == "x"
    assert flat.follows is None, "the dequantizer states its scale"
    assert pool.params == flat.params == network.tensor("x").params
    assert network.layer("flat").inputs[0].quant is pool


@pytest.mark.parametrize(
    ("kind", "dtype", "bits"),
    [
        (onnx.TensorProto.UINT16, "uint16", 16),
        (onnx.TensorProto.INT16, "int16", 16),
        (onnx.TensorProto.INT4, "int4", 4),
        (onnx.TensorProto.UINT4, "uint4", 4),
        (onnx.TensorProto.FLOAT8E4M3FN, "float8e4m3fn", 8),
        (onnx.TensorProto.FLOAT8E5M2, "float8e5m2", 8),
    ],
)
def test_other_types_are_shown_as_they_are(
    tmp_path: Path, kind: int, dtype: str, bits: int
) -> None:
    numbers = [0, 1, 2, 3, 4, 5]
    nodes = [
        node("DequantizeLinear", ["w_q", "ws"], ["w"]),
        node("Mul", ["x", "w"], ["m"], name="mul"),
        node("QuantizeLinear", ["m", "ws", "mz"], ["q"]),
        node("DequantizeLinear", ["q", "ws", "mz"], ["y"]),
    ]
    stored = [
        helper.make_tensor("w_q", kind, [6], numbers),
        helper.make_tensor("mz", kind, [], [0]),
        constant("ws", 0.5, F),
    ]
    network = read(model(nodes, stored, inputs=[value("x", ["N", 6])]), tmp_path)
    weight = network.tensor("mul.weight")
    assert (weight.params.dtype, weight.params.bits) == (dtype, bits)
    np.testing.assert_array_equal(weight.values(), np.array(numbers, F) / 2)
    assert network.tensor("mul.out").params.dtype == dtype
    assert weight.stored_bytes == 6 * bits // 8


def test_the_output_type_may_be_an_attribute(tmp_path: Path) -> None:
    nodes = [
        node("QuantizeLinear", ["x", "s"], ["q"], output_dtype=onnx.TensorProto.INT8),
        node("DequantizeLinear", ["q", "s"], ["y"]),
    ]
    (tensor,) = read(model(nodes, SCALES[:1]), tmp_path).tensors
    assert tensor.params.dtype == "int8"


def test_blocks_along_an_axis(tmp_path: Path) -> None:
    scales = np.linspace(0.1, 0.4, 2 * 5, dtype=F).reshape(2, 5)
    nodes = [
        node("DequantizeLinear", ["w_q", "ws"], ["w"], axis=0, block_size=4),
        node("MatMul", ["x", "w"], ["y"], name="mm"),
    ]
    integers = np.arange(40).reshape(8, 5).astype(ml_dtypes.int4)
    stored = [constant("w_q", integers), constant("ws", scales)]
    path = saved(model(nodes, stored, inputs=[value("x", ["N", 8])]), tmp_path)
    weight = read_onnx(path).tensor("mm.weight")
    assert (weight.params.block_size, weight.params.axis) == (4, 0)
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    runtime = session.run(None, {"x": np.eye(8, dtype=F)})[0]
    np.testing.assert_allclose(weight.values(), runtime, rtol=1e-6)


@pytest.mark.parametrize("opset", [10, 11, 12, 13, 17, 19, 21, 23, onnx.defs.onnx_opset_version()])
def test_every_opset_since_quantizers_exist(tmp_path: Path, opset: int) -> None:
    before = [node("DequantizeLinear", ["w_q", "ws", "wz"], ["w_d"])]
    stored = [constant("w_q", INTEGERS), constant("ws", STEP), constant("wz", 0, I8)]
    network = read(conv_with(*before, constants=stored, opset=opset), tmp_path)
    assert network.opset == opset
    assert [t.name for t in network.tensors] == ["x", "conv.weight", "conv.out"]


def test_onnxruntimes_own_quantizers_count_too(tmp_path: Path) -> None:
    nodes = [
        node("QuantizeLinear", ["x", "s", "z16"], ["q"], domain="com.microsoft"),
        node("DequantizeLinear", ["q", "s", "z16"], ["d"], domain="com.microsoft"),
        node("Relu", ["d"], ["y"], name="relu"),
    ]
    proto = model(nodes, [SCALES[0], constant("z16", 9, np.uint16)], opset=17)
    network = read(proto, tmp_path)
    assert network.tensor("x").params.dtype == "uint16"
    assert network.layer("relu").outputs[0].shape == ("N", 3, 5, 7)


def test_external_data_and_large_weights_are_mapped_not_copied(tmp_path: Path) -> None:
    big = np.arange(200 * 300, dtype=np.int64).reshape(200, 300).astype(I8)
    nodes = [
        node("DequantizeLinear", ["w_q", "s"], ["w"]),
        node("MatMul", ["x", "w"], ["y"], name="mm"),
    ]
    proto = model(nodes, [SCALES[0], constant("w_q", big)], inputs=[value("x", ["N", 200])])
    inside = read(proto, tmp_path).tensor("mm.weight").integers()
    onnx.save(
        proto,
        tmp_path / "outside.onnx",
        save_as_external_data=True,
        location="outside.data",
        size_threshold=0,
    )
    outside = read_onnx(tmp_path / "outside.onnx").tensor("mm.weight").integers()
    for array in (inside, outside):
        np.testing.assert_array_equal(array, big)
        assert not array.flags.owndata
        assert not array.flags.writeable


def test_dynamic_dimensions_stay_symbols_and_costs_take_a_batch_of_one(tmp_path: Path) -> None:
    def network(*shape: int | str | None) -> Network:
        nodes = [node("Conv", ["x", "w"], ["y"], name="conv")]
        return read(model(nodes, [constant("w", W)], inputs=[value("x", shape)]), tmp_path)

    dynamic = network("N", 3, 5, 7)
    assert dynamic.layer("conv").outputs[0].shape == ("N", 4, 3, 5)
    assert (dynamic.batch, dynamic.macs) == (1, 4 * 3 * 5 * 27)
    assert "The batch is dynamic; MACs and bytes are for a batch of 1" in dynamic.notes
    unnamed = network(None, 3, 5, 7)
    assert (unnamed.batch, unnamed.macs) == (1, 4 * 3 * 5 * 27)
    fixed = network(2, 3, 5, 7)
    assert (fixed.batch, fixed.macs) == (None, 2 * 4 * 3 * 5 * 27)
    assert network("N", 3, "H", 7).macs is None


def test_subgraphs_are_named_and_not_entered(tmp_path: Path) -> None:
    def branch(op: str) -> onnx.GraphProto:
        return helper.make_graph([node(op, ["x"], [op])], op, [], [value(op, None)])

    nodes = [
        node("If", ["c"], ["y"], name="if", then_branch=branch("Relu"), else_branch=branch("Abs"))
    ]
    inputs = [value("x", [2]), value("c", [], onnx.TensorProto.BOOL)]
    network = read(model(nodes, inputs=inputs), tmp_path)
    assert set(network.layer("if").subgraphs) == {"then_branch", "else_branch"}
    assert any("subgraphs that are not entered" in note for note in network.notes)


def test_dynamic_quantization_is_said_not_shown(tmp_path: Path) -> None:
    nodes = [
        node("DynamicQuantizeLinear", ["x"], ["q", "qs", "qz"], name="dyn"),
        node("DequantizeLinear", ["q", "qs", "qz"], ["y"], name="dq"),
    ]
    network = read(model(nodes), tmp_path)
    assert [layer.name for layer in network.layers] == ["dyn", "dq"]
    assert not network.tensors
    assert any("is computed when the model runs" in note for note in network.notes)


def test_different_parameters_at_both_ends_are_said(tmp_path: Path) -> None:
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        node("DequantizeLinear", ["q", "s2", "z"], ["d"]),
        node("Relu", ["d"], ["y"]),
    ]
    network = read(model(nodes, [*SCALES, constant("s2", 0.2, F)]), tmp_path)
    assert network.tensor("x").params.scale == F(0.1)
    assert any("read with another" in note for note in network.notes)


@pytest.mark.parametrize(
    ("scale", "zero", "said"),
    [
        (0.0, 0, "Scale 0 is not positive"),
        (-0.5, 0, "is not positive"),
        (np.nan, 0, "is not finite"),
        (np.inf, 0, "is not finite"),
        ([0.1, 0.0, 0.2], [0, 0, 0], "channel 1"),
        ([0.1, 0.2], [0, 0], "2 scales for 3 channels along axis 1"),
        ([0.1, 0.2, 0.3], [0, 0], "2 zero-points for 3 scales"),
        ([[0.1, 0.2]], 0, "needs a block size"),
    ],
)
def test_a_wrong_scale_is_refused_in_one_line(
    tmp_path: Path, scale: object, zero: object, said: str
) -> None:
    stored = [constant("s", scale, F), constant("z", zero, U8)]  # type: ignore[arg-type]
    proto = model([*pair("x"), node("Relu", ["x_d"], ["y"])], stored)
    with pytest.raises(BadModelError) as caught:
        read(proto, tmp_path)
    assert said in str(caught.value)
    assert "The quantization of 'x' in" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_name_names_what_is_near(tmp_path: Path) -> None:
    network = read(qdq_around(node("Relu", ["x_d"], ["o"], name="relu_6"), out="o"), tmp_path)
    with pytest.raises(BadModelError, match=r"No quantized tensor 'relu_9\.out' in tiny\.onnx; c"):
        network.tensor("relu_9.out")
    with pytest.raises(
        BadModelError, match=r"closest: relu_6\. List them with: quantscope inspect \S*/tiny\.onnx"
    ):
        network.layer("relu_9")
    assert network.layer("relu_6").outputs[0].quant is network.tensor("o_q")


def test_activations_have_no_integers(tmp_path: Path) -> None:
    network = read(qdq_around(node("Relu", ["x_d"], ["o"], name="relu"), out="o"), tmp_path)
    with pytest.raises(BadModelError, match=r"relu\.out has no stored integers"):
        network.tensor("relu.out").integers()


def folded(tmp_path: Path, op: str, zero: int, **attributes: object) -> tuple[bool, bool]:
    layer = node(op, ["x_d"], ["o"], name="it", **attributes)
    proto = qdq_around(layer, out="o", constants=[constant("z2", zero, U8)])
    for quantizer in proto.graph.node[3:5]:
        quantizer.input[2] = "z2"
    tensor = read(proto, tmp_path).tensor("it.out")
    return tensor.clips_negatives, tensor.folded_relu


def test_only_behind_a_sum_a_clipping_quantizer_is_taken_for_a_relu(tmp_path: Path) -> None:
    assert folded(tmp_path, "Tanh", 0) == (True, False)
    assert folded(tmp_path, "Tanh", 1) == (False, False)
    assert folded(tmp_path, "Relu", 0) == (True, False)
    assert folded(tmp_path, "Sigmoid", 0) == (True, False)
    assert folded(tmp_path, "MaxPool", 0, kernel_shape=[2, 2]) == (True, False)
    layers = [
        node("Relu", ["x_d"], ["r"]),
        node("MaxPool", ["r"], ["o"], name="pool", kernel_shape=[2, 2]),
    ]
    proto = qdq_around(*layers, out="o", constants=[])
    proto.graph.initializer[1].raw_data = b"\0"
    tensor = read(proto, tmp_path).tensor("pool.out")
    assert (tensor.clips_negatives, tensor.folded_relu) == (True, False)
    assert not read(proto, tmp_path).tensor("x").folded_relu, "no layer makes the model's input"


WEIGHT = constant("w", np.ones((4, 4, 1, 1)))


@pytest.mark.parametrize(
    ("layers", "tensor", "stands_for_relu"),
    [
        ([node("Conv", ["x_d", "w"], ["o"], name="it")], "it.out", True),
        (
            [node("Tanh", ["x_d"], ["t"]), node("Add", ["x_d", "t"], ["o"], name="it")],
            "it.out",
            True,
        ),
        # SiLU's smallest value vanishes below a coarse step.
        (
            [node("Sigmoid", ["x_d"], ["t"]), node("Mul", ["x_d", "t"], ["o"], name="it")],
            "it.out",
            False,
        ),
        # Gelu's 1 + erf is never negative.
        (
            [node("Erf", ["x_d"], ["t"]), node("Add", ["t", "one"], ["o"], name="it")],
            "it.out",
            False,
        ),
        ([node("Mul", ["x_d", "x_d"], ["o"], name="it")], "it.out", False),
        # What a Sigmoid reads came out of no ReLU.
        (
            [
                node("Conv", ["x_d", "w"], ["c"], name="it"),
                node("QuantizeLinear", ["c", "s", "z0"], ["c_q"]),
                node("DequantizeLinear", ["c_q", "s", "z0"], ["c_d"]),
                node("Sigmoid", ["c_d"], ["o"], name="after"),
            ],
            "it.out",
            False,
        ),
    ],
)  # fmt: skip
def test_a_quantizer_stands_for_a_relu_only_where_one_is_removed(
    layers: list[onnx.NodeProto], tensor: str, stands_for_relu: bool, tmp_path: Path
) -> None:
    stored = [WEIGHT, constant("one", np.float32(1)), constant("z0", 0, U8)]
    proto = qdq_around(*layers, out="o", constants=stored)
    for quantizer in proto.graph.node:
        if quantizer.op_type in ("QuantizeLinear", "DequantizeLinear") and "o" in (
            quantizer.input[0], quantizer.input[0].removesuffix("_q")
        ):  # fmt: skip
            quantizer.input[2] = "z0"
    found = read(proto, tmp_path).tensor(tensor)
    assert (found.clips_negatives, found.folded_relu) == (True, stands_for_relu)


def test_memory_counts_what_waits_for_later_layers(tmp_path: Path) -> None:
    """All in uint8 but for m and the model's output; a waits while b and c are made."""
    nodes = [
        node("Relu", ["x_d"], ["a"], name="a"),
        *pair("a"),
        node("MaxPool", ["a_d"], ["b"], name="b", kernel_shape=[3, 3]),
        *pair("b"),
        node("Flatten", ["b_d"], ["c"], name="c"),
        *pair("c"),
        node("ReduceMax", ["a_d"], ["m"], name="m", keepdims=0),
        node("Mul", ["c_d", "m"], ["o"], name="mul"),
    ]
    network = read(qdq_around(*nodes, out="o"), tmp_path)
    small = 4 * 4 * 6
    live = {layer.name: layer.live_bytes for layer in network.layers}
    assert live["a"] == 192 + 192
    assert live["b"] == 192 + small
    assert live["c"] == 192 + small + small, "a is still needed by m"
    assert live["m"] == 192 + small + 4, "one float32"
    assert live["mul"] == small + 4 + small
    assert live["end"] == network.peak_live_bytes == small + 4 * small, "the output is float"


def test_json_has_a_version_and_nothing_that_is_not_a_number(tmp_path: Path) -> None:
    layer = node("Elu", ["x_d"], ["o"], name="elu", alpha=float("inf"))
    scales = np.array([0.3, 0.1, 0.2, 0.4], F)
    before = [
        node("DequantizeLinear", ["w_q", "ws"], ["w"], axis=0),
        node("Conv", ["o", "w"], ["c"], name="conv"),
    ]
    stored = [constant("w_q", np.ones((4, 4, 1, 1)), I8), constant("ws", scales)]
    network = read(qdq_around(layer, *before, out="c", constants=stored), tmp_path)
    brief, full = network.to_dict(), network.to_dict(full=True)
    json.dumps([brief, full], allow_nan=False)
    assert brief["schema_version"] == 1
    assert brief["layers"][0]["attributes"]["alpha"] is None
    assert brief["not_finite"] == {"layers[0].attributes.alpha": "inf"}
    shown = {tensor["name"]: tensor["params"] for tensor in brief["tensors"]}["conv.weight"]
    assert (shown["scale"]["argmin"], shown["scale"]["argmax"]) == (1, 3)
    assert shown["scale"]["min"] == pytest.approx(0.1)
    assert shown["scale"]["mean"] == pytest.approx(0.25)
    listed = {tensor["name"]: tensor["params"] for tensor in full["tensors"]}["conv.weight"]
    assert listed["scale"] == scales.astype(float).tolist()
    assert listed["range_high"] == [127 * float(scale) for scale in scales]


def test_a_float_model_says_so(tmp_path: Path) -> None:
    network = read(model([node("Relu", ["x"], ["y"])]), tmp_path)
    assert (network.format, network.is_quantized, network.tensors) == ("float", False, ())


def test_a_dimension_of_minus_one_is_an_open_one(random_resnet8: Path, tmp_path: Path) -> None:
    model = onnx.load(random_resnet8)
    for edge in (*model.graph.input, *model.graph.output):
        edge.type.tensor_type.shape.dim[0].dim_value = -1
    onnx.save(model, tmp_path / "open.onnx")
    opened, plain = read_onnx(tmp_path / "open.onnx"), read_onnx(random_resnet8)
    assert opened.inputs[0].shape == (None, 3, 32, 32)
    assert (opened.macs, opened.batch) == (plain.macs, 1)


def test_a_denormal_bias_scale_is_a_note_and_the_rest_is_shown(
    quantized: Callable[..., Path], tmp_path: Path
) -> None:
    proto = onnx.load(quantized(activations="uint8"))
    conv = next(n for n in proto.graph.node if n.name == "stem")
    bias = next(n for n in proto.graph.node if n.output[0] == conv.input[2])
    scale = next(t for t in proto.graph.initializer if t.name == bias.input[1])
    values = onnx.numpy_helper.to_array(scale).copy()
    values[3] = 1.6e-39
    scale.CopyFrom(onnx.numpy_helper.from_array(values, scale.name))
    onnx.save(proto, tmp_path / "dead.onnx")
    network = read_onnx(tmp_path / "dead.onnx")
    assert network.layer("stem").weight is not None
    assert network.layer("stem").bias is None
    assert any("denormal" in note for note in network.notes)
