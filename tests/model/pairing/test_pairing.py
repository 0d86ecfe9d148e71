"""Float and quantized networks paired by structure: hand-built graphs, and ResNet8 in all forms."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_static,
)
from pairing_oracle import scramble, sqnr_db, worst_rounding
from tiny_onnx import constant, model, saved, value, weights

from quantscope.data import load_sample
from quantscope.errors import BadModelError
from quantscope.model import bundled_models, read_onnx
from quantscope.model.pairing import Pairing, pair_networks
from quantscope.zoo import build_torch, read_safetensors

F, U8, I8, I64 = np.float32, np.uint8, np.int8, np.int64
node = helper.make_node
FOLDED = {
    *("stem.out", "stack1.conv1.out", "stack1.add.out", "stack2.conv1.out"),
    *("stack2.add.out", "stack3.conv1.out", "stack3.add.out"),
}


def paired(
    folder: Path,
    floats: Sequence[onnx.NodeProto],
    quants: Sequence[onnx.NodeProto],
    constants: Sequence[onnx.TensorProto] = (),
    **more: Any,
) -> Pairing:
    """Both graphs read `x` [N,3,8,8] and end in `y`; `s`, `z` (127) and `low` (0) are at hand."""
    given = [*constants, *SCALES]
    x = more.pop("inputs", [value("x", ["N", 3, 8, 8])])
    one = saved(model(floats, constants, inputs=x), folder, "float.onnx")
    two = saved(model(quants, given, inputs=x), folder, "quant.onnx")
    return pair_networks(read_onnx(one), read_onnx(two))


SCALES = [constant("s", 0.02, F), constant("z", 127, U8), constant("low", 0, U8)]
W = [constant("w", weights(4, 3, 3, 3)), constant("b", weights(4, seed=1))]
V = [constant("v", weights(5, 4, 3, 3, seed=2))]


def qdq(name: str, zero: str = "z", to: str = "") -> list[onnx.NodeProto]:
    to = to or f"{name}_d"
    return [
        node("QuantizeLinear", [name, "s", zero], [f"{to}_q"]),
        node("DequantizeLinear", [f"{to}_q", "s", zero], [to]),
    ]


def found(pairing: Pairing) -> dict[str, str]:
    assert not pairing.unpaired
    return activations(pairing)


CONV = node("Conv", ["x_d", "w", "b"], ["c"], name="other")


def test_a_folded_relu_stands_for_the_relus_output(tmp_path: Path) -> None:
    floats = [
        node("Conv", ["x", "w", "b"], ["conv"], name="one"),
        node("Relu", ["conv"], ["relu"]),
        node("Conv", ["relu", "v"], ["y"], name="two"),
    ]
    quants = [
        *(*qdq("x"), CONV, *qdq("c", "low")),
        *(node("Conv", ["c_d", "v"], ["d"], name="last"), *qdq("d", to="y")),
    ]
    pairing = paired(tmp_path, floats, quants, [*W, *V])
    assert found(pairing) == {"x": "x", "other.out": "relu", "last.out": "y"}
    conv = pairing.by_name["other.out"]
    assert conv.through == ("Relu",) and conv.through_relu
    assert (conv.layer, conv.float_layer, conv.found_by) == ("other", "relu_1", "weights")
    assert pairing.layers[0].folded == ("relu_1",)
    assert pairing.by_name["x"].found_by == "input"


def test_a_relu_that_is_still_there_leaves_the_convolution_its_own_output(tmp_path: Path) -> None:
    floats = [node("Conv", ["x", "w", "b"], ["conv"]), node("Relu", ["conv"], ["y"])]
    quants = [
        *(*qdq("x"), CONV, *qdq("c")),
        *(node("Relu", ["c_d"], ["r"], name="act"), *qdq("r", "low", to="y")),
    ]
    pairing = paired(tmp_path, floats, quants, W)
    assert found(pairing) == {"x": "x", "other.out": "conv", "act.out": "y"}
    assert not any(p.through_relu for p in pairing.pairs)


def test_a_value_read_before_and_after_its_relu_is_two_tensors(tmp_path: Path) -> None:
    floats = [
        node("Conv", ["x", "w", "b"], ["conv"]),
        node("Relu", ["conv"], ["relu"]),
        node("MaxPool", ["relu"], ["p"], kernel_shape=[2, 2]),
        node("MaxPool", ["conv"], ["r"], kernel_shape=[2, 2]),
        node("Concat", ["p", "r"], ["y"], axis=1),
    ]
    quants = [
        *(*qdq("x"), CONV, *qdq("c", "z", to="raw"), *qdq("c", "low", to="clipped")),
        node("MaxPool", ["raw"], ["r"], kernel_shape=[2, 2], name="of_raw"),
        node("MaxPool", ["clipped"], ["p"], kernel_shape=[2, 2], name="of_clipped"),
        node("Concat", ["p", "r"], ["y"], axis=1),
    ]
    pairing = paired(tmp_path, floats, quants, W)
    assert found(pairing) == {"x": "x", "other.out": "conv", "other.out_2": "relu"}
    layers = {p.layer: p.float_layer for p in pairing.layers}
    assert layers["of_clipped"] == "maxpool_1" and layers["of_raw"] == "maxpool_2"


def test_a_folded_batch_norm_is_in_the_weights_and_the_bias(tmp_path: Path) -> None:
    norm = [
        constant("scale", [1.5, -0.5, 2, 0.1], F),
        constant("shift", [0.3, 0.1, -0.2, 0], F),
        constant("mean", [0.1, 0.2, 0.3, 0.4], F),
        constant("var", [1, 2, 0.5, 0.25], F),
    ]
    factor = np.array([1.5, -0.5, 2, 0.1]) / np.sqrt(np.array([1, 2, 0.5, 0.25]) + 1e-5)
    weight = weights(4, 3, 3, 3) * factor[:, None, None, None]
    bias = np.array([0.3, 0.1, -0.2, 0]) - np.array([0.1, 0.2, 0.3, 0.4]) * factor
    scales = np.abs(weight).max(axis=(1, 2, 3)) / 127
    whole = np.round(weight / scales[:, None, None, None])
    floats = [
        node("Conv", ["x", "w"], ["conv"], name="one"),
        node("BatchNormalization", ["conv", "scale", "shift", "mean", "var"], ["norm"], name="bn"),
        node("Clip", ["norm", "zero", "six"], ["clip"]),
        node("Conv", ["clip", "v"], ["y"]),
    ]
    quants = [
        *qdq("x"),
        node("DequantizeLinear", ["wq", "ws", "wz"], ["wd"], axis=0),
        node("DequantizeLinear", ["bq", "bs"], ["bd"], axis=0),
        node("Conv", ["x_d", "wd", "bd"], ["c"], name="other"),
        *(*qdq("c", "low"), node("Conv", ["c_d", "v"], ["y"])),
    ]
    integers = [
        constant("wq", whole, I8),
        constant("ws", scales, F),
        constant("wz", [0] * 4, I8),
        constant("bq", np.round(bias / (0.02 * scales)), np.int32),
        constant("bs", 0.02 * scales, F),
    ]
    limits = [constant("zero", 0, F), constant("six", 6, F)]
    pairing = paired(tmp_path, floats, quants, [W[0], *V, *norm, *limits, *integers])
    assert found(pairing) == {"x": "x", "other.out": "clip"}
    by_name = pairing.by_name
    assert by_name["other.out"].through == ("BatchNormalization", "Clip")
    assert by_name["other.out"].through_relu
    assert by_name["other.weight"].float_name == "w"
    assert by_name["other.weight"].through == ("BatchNormalization",)
    assert (by_name["other.bias"].float_name, by_name["other.bias"].float_layer) == ("shift", "bn")
    np.testing.assert_allclose(by_name["other.weight"].float_values(), weight, rtol=1e-5)
    np.testing.assert_allclose(by_name["other.bias"].float_values(), bias, atol=1e-6)
    assert max(worst_rounding(pairing, read_onnx(tmp_path / "quant.onnx")).values()) <= 0.501


DENSE = [constant("m", weights(6, 5)), constant("n", weights(5, seed=3))]
FLAT = {"inputs": [value("x", ["N", 6])]}


@pytest.mark.parametrize("turned", [False, True])
def test_a_gemm_stands_for_a_matmul_and_its_add(tmp_path: Path, turned: bool) -> None:
    matrix = constant("g", weights(6, 5).T if turned else weights(6, 5))
    floats = [node("MatMul", ["x", "m"], ["a"]), node("Add", ["n", "a"], ["y"])]
    quants = [
        *(*qdq("x"), *qdq("g"), *qdq("n")),
        node("Gemm", ["x_d", "g_d", "n_d"], ["o"], name="dense", transB=int(turned)),
        *qdq("o", to="y"),
    ]
    pairing = paired(tmp_path, floats, quants, [*DENSE, matrix], **FLAT)
    assert found(pairing) == {"x": "x", "dense.out": "y"}
    assert pairing.by_name["dense.weight"].float_name == "m"
    assert pairing.by_name["dense.weight"].reshaped == turned
    assert pairing.by_name["dense.bias"].float_name == "n"
    quantized = read_onnx(tmp_path / "quant.onnx")
    assert max(worst_rounding(pairing, quantized).values()) <= 0.501


def test_a_matmul_before_its_bias_is_nothing_in_a_float_gemm(tmp_path: Path) -> None:
    floats = [node("Gemm", ["x", "m", "n"], ["g"]), node("Relu", ["g"], ["y"])]
    quants = [
        *(*qdq("x"), node("MatMul", ["x_d", "m"], ["a"], name="product"), *qdq("a"), *qdq("n")),
        *(node("Add", ["a_d", "n_d"], ["o"], name="sum"), *qdq("o", "low", to="y")),
    ]
    pairing = paired(tmp_path, floats, quants, DENSE, **FLAT)
    assert {p.name: p.float_name for p in pairing.pairs} == {
        "x": "x",
        "sum.out": "y",
        "sum.bias": "n",
    }
    assert pairing.by_name["sum.out"].through_relu
    assert [(u.name, u.reason) for u in pairing.unpaired] == [
        (
            "product.out",
            "the float network adds the bias in the same layer: it has no such tensor",
        )
    ]


def test_padding_in_a_layer_of_its_own_or_in_the_convolution(tmp_path: Path) -> None:
    pads = constant("pads", [0, 0, 1, 1, 0, 0, 1, 1], I64)
    apart = [
        node("Pad", ["x", "pads"], ["padded"]),
        node("Conv", ["padded", "w", "b"], ["y"]),
    ]
    inside = [*qdq("x"), node("Conv", ["x_d", "w", "b"], ["o"], pads=[1] * 4), *qdq("o", to="y")]
    assert found(paired(tmp_path, apart, inside, [*W, pads])) == {"x": "x", "conv_1.out": "y"}

    plain = [node("Conv", ["x", "w", "b"], ["y"], pads=[1] * 4)]
    extra = [
        *(*qdq("x"), node("Pad", ["x_d", "pads"], ["p"], name="pad"), *qdq("p")),
        *(node("Conv", ["p_d", "w", "b"], ["o"]), *qdq("o", to="y")),
    ]
    pairing = paired(tmp_path, plain, extra, [*W, pads])
    assert {p.name: p.float_name for p in pairing.pairs} == {"x": "x", "conv_1.out": "y"}
    assert [(u.name, u.reason) for u in pairing.unpaired] == [
        ("pad.out", "only the quantized network has a Pad here, after what is x")
    ]


def test_averaging_and_flattening_are_the_same_however_they_are_written(tmp_path: Path) -> None:
    floats = [
        node("Conv", ["x", "w", "b"], ["conv"]),
        node("GlobalAveragePool", ["conv"], ["mean"]),
        node("Flatten", ["mean"], ["flat"]),
        node("Gemm", ["flat", "k"], ["y"]),
    ]
    quants = [
        *(*qdq("x"), CONV, *qdq("c"), node("Identity", ["c_d"], ["same"])),
        *(node("ReduceMean", ["same", "axes"], ["m"], keepdims=0, name="mean"), *qdq("m")),
        node("Reshape", ["m_d", "to"], ["flat"], name="again"),
        *(*qdq("flat"), node("MatMul", ["flat_d", "k"], ["o"], name="dense"), *qdq("o", to="y")),
    ]
    shapes = [constant("axes", [2, 3], I64), constant("to", [-1, 4], I64)]
    pairing = paired(tmp_path, floats, quants, [*W, constant("k", weights(4, 7)), *shapes])
    pairs = found(pairing)
    assert pairs["other.out"] == "conv" and pairs["dense.out"] == "y"
    assert pairs["mean.out"] == "mean" and pairing.by_name["mean.out"].reshaped
    assert pairs["again.out"] == "flat" and not pairing.by_name["again.out"].reshaped


def test_a_transpose_of_the_quantized_network_alone_turns_what_it_is_before(tmp_path: Path) -> None:
    floats = [node("Conv", ["x", "w", "b"], ["conv"]), node("Sigmoid", ["conv"], ["y"])]
    quants = [
        *(*qdq("x"), CONV, *qdq("c")),
        *(node("Transpose", ["c_d"], ["t"], perm=[0, 2, 3, 1], name="turn"), *qdq("t")),
        *(node("Sigmoid", ["t_d"], ["g"], name="gate"), *qdq("g", "low")),
        node("Transpose", ["g_d"], ["u"], perm=[0, 3, 1, 2], name="back"),
        *qdq("u", "low", to="y"),
    ]
    pairing = paired(tmp_path, floats, quants, W)
    assert found(pairing) == {
        **{"x": "x", "other.out": "conv", "turn.out": "conv", "gate.out": "y", "back.out": "y"}
    }
    orders = {p.name: p.order for p in pairing.pairs if p.order}
    assert orders == {"turn.out": (0, 2, 3, 1), "gate.out": (0, 2, 3, 1)}


def test_constants_tell_apart_what_the_graph_does_not(tmp_path: Path) -> None:
    """A factor is folded, a hard-swish is not: its Add of 3 must not be taken for the bias."""
    numbers = [constant(f"k{n}", n, F) for n in (0, 1, 3, 6)] + [constant("half", 0.5, F)]
    swish = ["k3", "k0", "k6"]
    floats = [
        node("Conv", ["x", "w"], ["conv"]),
        node("Mul", ["conv", "half"], ["scaled"]),
        node("Add", ["scaled", "half"], ["shifted"]),
        node("Mul", ["shifted", "k1"], ["once"]),
        node("Add", ["once", "k3"], ["plus"]),
        node("Clip", ["plus", "k0", "k6"], ["clip"]),
        node("Mul", ["once", "clip"], ["product"]),
        node("Div", ["product", "k6"], ["y"]),
    ]
    halved = [constant("wh", weights(4, 3, 3, 3) / 2), constant("bh", np.full(4, 0.5), F)]
    quants = [
        *(*qdq("x"), node("Conv", ["x_d", "wh", "bh"], ["c"], name="other"), *qdq("c")),
        *(node("Add", ["c_d", swish[0]], ["p"], name="plus"), *qdq("p", "low")),
        *(node("Mul", ["p_d", "c_d"], ["q"], name="product"), *qdq("q")),
        *(node("Div", ["q_d", "k6"], ["o"], name="sixth"), *qdq("o", to="y")),
    ]
    pairing = paired(tmp_path, floats, quants, [W[0], *numbers, *halved])
    pairs = found(pairing)
    assert pairs.pop("other.out") in ("shifted", "once")
    assert pairs == {"x": "x", "plus.out": "clip", "product.out": "product", "sixth.out": "y"}
    assert pairing.by_name["other.out"].through == ("Mul", "Add")


def test_an_operator_that_stands_for_several_is_paired_by_its_readers(tmp_path: Path) -> None:
    floats = [
        node("Conv", ["x", "w", "b"], ["conv"]),
        node("Sigmoid", ["conv"], ["gate"]),
        node("Mul", ["conv", "gate"], ["swish"]),
        node("Conv", ["swish", "v"], ["y"]),
    ]
    quants = [
        *(*qdq("x"), CONV, *qdq("c")),
        node("HardSwish", ["c_d"], ["g"], name="hard"),
        *(*qdq("g"), node("Conv", ["g_d", "v"], ["o"], name="last"), *qdq("o", to="y")),
    ]
    pairing = paired(tmp_path, floats, quants, [*W, *V])
    assert pairing.by_name["hard.out"].float_name == "swish"
    assert pairing.by_name["hard.out"].found_by == "readers"


def test_what_matches_nothing_is_listed_with_the_reason(tmp_path: Path) -> None:
    floats = [node("Conv", ["x", "w", "b"], ["y"])]
    quants = [
        *(*qdq("x"), CONV, *qdq("c", to="y")),
        *(node("Tanh", ["y"], ["t"], name="aside"), *qdq("t"), node("Exp", ["t_d"], ["e"])),
    ]
    pairing = paired(tmp_path, floats, quants, W)
    assert {p.name: p.float_name for p in pairing.pairs} == {"x": "x", "other.out": "y"}
    assert [(u.name, u.role, u.reason) for u in pairing.unpaired] == [
        (
            "aside.out",
            "activation",
            "nothing in the float network matches aside (Tanh) or its readers",
        )
    ]


class Noise(CalibrationDataReader):
    def __init__(self) -> None:
        images = np.random.default_rng(1).uniform(0, 255, (2, 3, 32, 32)).astype(F)
        self._batches = iter([{"input": images}])

    def get_next(self) -> dict[str, Any] | None:  # type: ignore[override]
        return next(self._batches, None)


@pytest.fixture(scope="module")
def images() -> dict[str, Any]:
    return {"input": load_sample().images[:4].astype(F)}


def resnet8_names(path: Path) -> dict[str, str]:
    """Where each tensor of a quantized ResNet8 stands in the float one, known by heart."""
    network = read_onnx(path)
    names = {"input": "input"}
    for layer in network.layers:
        after = [x for x in network.layers if any(o.source == layer.name for o in x.inputs)]
        relu = [x for x in after if x.op_type == "Relu"]
        folded = f"{layer.name}.out" in FOLDED
        names[f"{layer.name}.out"] = (relu[0] if folded else layer).outputs[0].name
    return names


def check_resnet8(
    float_path: Path, path: Path, images: Any, *, least_db: float, listed: int = 0
) -> Pairing:
    floats, quants = read_onnx(float_path), read_onnx(path)
    pairing = pair_networks(floats, quants)
    assert len(pairing.unpaired) == listed
    names = {p.name for p in (*pairing.pairs, *pairing.unpaired)}
    assert names == {t.name for t in quants.tensors}
    assert max(worst_rounding(pairing, quants).values()) <= 0.501
    assert min(sqnr_db(pairing, float_path, quants, images).values()) > least_db
    return pairing


@pytest.mark.parametrize(
    "choices",
    [
        {"activations": "int8"},
        {"activations": "uint8", "per_channel": False},
        {"activations": "uint8", "format": "qoperator", "reduce_range": True},
    ],
    ids=str,
)
def test_resnet8_pairs_completely(
    quantized: Callable[..., Path], choices: dict[str, Any], images: Any
) -> None:
    float_path = bundled_models()["resnet8"]
    pairing = check_resnet8(float_path, quantized(**choices), images, least_db=10)
    expected = resnet8_names(float_path)
    pairs = found(pairing)
    assert pairs.keys() <= expected.keys()
    assert pairs == {name: expected[name] for name in pairs}
    assert {p.name for p in pairing.pairs if p.through_relu} == FOLDED


@pytest.mark.parametrize(
    "options",
    [
        {"extra_options": {"DedicatedQDQPair": True}},
        {"extra_options": {"AddQDQPairToWeight": True}},
        {"extra_options": {"QuantizeBias": False}},
        {"activation_type": QuantType.QUInt16, "weight_type": QuantType.QInt16},
        {"weight_type": QuantType.QInt4},
        {"op_types_to_quantize": ["Conv"]},
        {"quant_format": QuantFormat.QOperator, "activation_type": QuantType.QUInt8},
    ],
    ids=str,
)
def test_every_option_of_the_quantizer_pairs_alike_whatever_the_names(
    random_resnet8: Path,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    options: dict[str, Any],
) -> None:
    caplog.set_level("ERROR")
    path = tmp_path / "quantized.onnx"
    quantize_static(random_resnet8, path, Noise(), **{"quant_format": QuantFormat.QDQ, **options})
    pairing = pair_networks(read_onnx(random_resnet8), read_onnx(path))
    expected = resnet8_names(random_resnet8)
    pairs = found(pairing)
    if "op_types_to_quantize" not in options:  # else ReLUs stay where they were
        plain = {
            name: name.partition(".out")[0] + ".out" if "." in name else name for name in pairs
        }
        assert pairs == {name: expected[plain[name]] for name in pairs}
    else:
        assert len(pairs) == 16
    renamed = saved(scramble(onnx.load(path)), tmp_path, "scrambled.onnx")
    again = pair_networks(read_onnx(random_resnet8), read_onnx(renamed))
    assert not again.unpaired
    assert sorted(p.float_name for p in again.pairs) == sorted(p.float_name for p in pairing.pairs)
    assert max(worst_rounding(again, read_onnx(renamed)).values()) <= 0.501


def test_bundled_models_pair_completely(images: Any) -> None:
    models = bundled_models()
    for name in ("resnet8-int8", "resnet8-uint8"):
        check_resnet8(models["resnet8"], models[name], images, least_db=10)


def test_pytorchs_program_and_export_pair_with_the_float_onnx(tmp_path: Path, images: Any) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("torchao")
    from quantscope.model import read_network
    from quantscope.quantize import PtqConfig, quantize_torch
    from quantscope.quantize.pt2e import quiet_torch

    models = bundled_models()
    program, exported = tmp_path / "program.pt2", tmp_path / "exported.onnx"
    config = PtqConfig(framework="torch", calibration_images=32)
    quantize_torch(models["resnet8-torch"], program, config, onnx_output=exported)
    # PyTorch pads in a layer of its own, the float ONNX in the convolution.
    checks = {"images": images, "least_db": 10, "listed": 2}
    pairing = check_resnet8(models["resnet8"], exported, **checks)
    for padded in pairing.unpaired:
        assert padded.reason.startswith("only the quantized network has a Pad here, after what is ")
    renamed = saved(scramble(onnx.load(exported)), tmp_path, "scrambled.onnx")
    again = check_resnet8(models["resnet8"], renamed, **checks)
    assert sorted(p.float_name for p in again.pairs) == sorted(p.float_name for p in pairing.pairs)
    direct = pair_networks(read_onnx(models["resnet8"]), read_network(program))
    assert list(activations(direct).values()) == list(activations(pairing).values())
    assert [u.reason for u in direct.unpaired] == [u.reason for u in pairing.unpaired]
    with quiet_torch():
        module = build_torch(read_safetensors(models["resnet8-torch"]))
        batch = ({0: torch.export.Dim("batch")},)
        exported_float = torch.export.export(
            module, (torch.zeros(2, 3, 32, 32),), dynamic_shapes=batch
        )
        torch.export.save(exported_float, tmp_path / "float.pt2")
    both_torch = pair_networks(read_network(tmp_path / "float.pt2"), read_network(program))
    assert not both_torch.unpaired
    for p in both_torch.pairs:
        assert p.layer == p.float_layer


def activations(pairing: Pairing) -> dict[str, str]:
    return {p.name: p.float_name for p in pairing.pairs if p.role == "activation"}


def test_a_pairing_is_plain_values_as_json(quantized: Callable[..., Path]) -> None:
    floats = read_onnx(bundled_models()["resnet8"])
    pairing = pair_networks(floats, read_onnx(quantized(activations="int8")))
    facts = json.loads(json.dumps(pairing.to_dict()))
    assert facts["float_digest"] == floats.digest
    assert facts["unpaired"] == []
    stem = next(p for p in facts["pairs"] if p["name"] == "stem.out")
    assert stem["through"] == ["Relu"] and stem["through_relu"] is True
    assert stem["layer"] == "stem" and stem["role"] == "activation"
    assert facts["outputs"] == {"logits": "logits"}


def refusal(floats: Path, quants: Path) -> str:
    with pytest.raises(BadModelError) as caught:
        pair_networks(read_onnx(floats), read_onnx(quants))
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_a_quantized_model_is_not_taken_for_the_float_one() -> None:
    models = bundled_models()
    assert refusal(models["resnet8-uint8"], models["resnet8-int8"]) == (
        f"resnet8-uint8.onnx is quantized ({len(read_onnx(models['resnet8-uint8']).tensors)} "
        "quantized tensors, qdq); give the float model that resnet8-int8.onnx was made from"
    )
    assert refusal(models["resnet8"], models["resnet8"]) == (
        "resnet8.onnx is not quantized: it has no tensor to pair with resnet8.onnx; "
        "give a quantized model"
    )


def test_models_that_do_not_belong_together_are_told_apart(
    tmp_path: Path, random_resnet8: Path
) -> None:
    int8 = bundled_models()["resnet8-int8"]
    text = refusal(random_resnet8, int8)
    assert text.startswith(
        "random_resnet8.onnx and resnet8-int8.onnx do not belong together: the layers match, but "
        "the weights of 10 of 10 differ, first those of stem (cosine 0."
    )
    assert text.endswith("; give the float model that resnet8-int8.onnx was made from")
    conv = [node("Conv", ["x", "w", "b"], ["y"])]
    small = saved(model(conv, W), tmp_path, "small.onnx")
    assert refusal(small, int8) == (
        "small.onnx and resnet8-int8.onnx do not belong together: the input x is Nx3x5x7, input is "
        "Nx3x32x32; give the float model that resnet8-int8.onnx was made from"
    )
    sized = saved(model(conv, W, inputs=[value("x", ["N", 3, 32, 32])]), tmp_path, "sized.onnx")
    text = refusal(sized, int8)
    assert "of the 10 convolutions and matrix products of resnet8-int8.onnx have no" in text
    two = model(
        [node("Add", ["x", "x2"], ["y"])], inputs=[value("x", ["N", 3]), value("x2", ["N", 3])]
    )
    assert "they take 2 and 1 inputs" in refusal(saved(two, tmp_path, "two.onnx"), int8)


def test_a_file_that_changed_after_reading_is_refused(tmp_path: Path) -> None:
    floats = saved(model([node("Conv", ["x", "w", "b"], ["y"])], W), tmp_path, "float.onnx")
    quants = [*qdq("x"), CONV, *qdq("c", to="y")]
    quant = read_onnx(saved(model(quants, [*W, *SCALES]), tmp_path, "quant.onnx"))
    before = read_onnx(floats)
    saved(model([node("Conv", ["x", "w"], ["y"])], W), tmp_path, "float.onnx")
    with pytest.raises(BadModelError, match=r"float.onnx has changed since it was read; read it"):
        pair_networks(before, quant)
