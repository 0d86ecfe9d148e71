"""Networks that the usual quantizer does not make: joins of three, scales by channel, float16."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from comparison_nets import sqnr
from onnx import TensorProto, helper, numpy_helper
from tiny_qdq import TinyQdq, images_of

from quantscope.data import load_sample
from quantscope.errors import BadModelError
from quantscope.run.capture.capture import capture
from quantscope.run.compare.compare import compare
from quantscope.run.compare.results import Comparison, ErrorSources
from quantscope.run.onnx.sessions import session_of

Array = np.ndarray[Any, Any]

RNG = np.random.default_rng(11)
PICTURES = RNG.normal(0, 1, (6, 2, 5, 3)).astype(np.float32)


def fake(values: Array, scale: Array | float, zero: Array | int, dtype: Any = np.uint8) -> Array:
    info, scale = np.iinfo(dtype), np.asarray(scale, np.float32)
    whole = np.clip(np.rint(values / scale) + zero, info.min, info.max)
    return np.asarray((whole - zero) * scale, np.float32)


# Three branches whose quantizers differ, one of them so narrow that it clips.
BRANCHES = {"one": (0.02, 128), "two": (0.05, 100), "three": (0.006, 128)}
JOINED = (0.03, 120)


def branch(values: Array, name: str) -> Array:
    return {"one": values, "two": values * np.float32(1.7), "three": np.abs(values)}[name]


def joining_net(folder: Path, *, quantize: bool) -> Path:
    net = TinyQdq((2, 5, 3))
    net.constant("factor", np.float32(1.7))
    net.node("Identity", ["x"], "one")
    net.node("Mul", ["x", "factor"], "two")
    net.node("Abs", ["x"], "three")
    parts = [net.quantize(n, *p) if quantize else n for n, p in BRANCHES.items()]
    net.node("Concat", parts, "joined", axis=1)
    joined = net.quantize("joined", *JOINED) if quantize else "joined"
    net.node("GlobalAveragePool", [joined], "pool")
    return net.save(folder, "pool", f"{quantize}.onnx")


@pytest.fixture(scope="module")
def joining(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    folder = tmp_path_factory.mktemp("joining")
    model, original = (joining_net(folder, quantize=q) for q in (True, False))
    return compare(model, images_of(PICTURES), float_model=original, batch=4, threads=1)


def test_a_join_of_three_splits_what_it_inherits_over_all_of_them(joining: Comparison) -> None:
    floats = {name: branch(PICTURES, name) for name in BRANCHES}
    quants = {name: fake(floats[name], *BRANCHES[name]) for name in BRANCHES}
    f = np.concatenate(list(floats.values()), axis=1)
    inherited = np.concatenate(list(quants.values()), axis=1)
    q = fake(inherited, *JOINED)
    error = (q - f).astype(np.float64)
    energy = (error * error).sum()
    found = joining["joined.out"]
    assert found.sqnr_db == pytest.approx(sqnr(f, q), abs=0.01)
    sources = found.sources
    assert sources is not None and found.no_sources is None
    assert sources.total == pytest.approx(1, abs=1e-4)
    assert sources.inherited == pytest.approx(((inherited - f) * error).sum() / energy, abs=1e-3)
    assert list(sources.inherited_by_input) == ["one.out", "two.out", "three.out"]
    # Branches of a Concat do not overlap, so the order in which they are swapped does not matter.
    for place, name in enumerate(BRANCHES):
        part = slice(2 * place, 2 * place + 2)
        share = ((inherited - f)[:, part] * error[:, part]).sum() / energy
        assert sources.inherited_by_input[f"{name}.out"] == pytest.approx(share, abs=1e-3), name
    total = sum(sources.inherited_by_input.values())
    assert total == pytest.approx(sources.inherited, abs=1e-6)


def test_a_sum_of_three_is_split_in_their_order(tmp_path: Path) -> None:
    def build(*, quantize: bool) -> Path:
        net = TinyQdq((2, 5, 3))
        net.constant("factor", np.float32(1.7))
        net.node("Identity", ["x"], "one")
        net.node("Mul", ["x", "factor"], "two")
        net.node("Abs", ["x"], "three")
        parts = [net.quantize(n, *p) if quantize else n for n, p in BRANCHES.items()]
        net.node("Sum", parts, "sum")
        return net.save(tmp_path, net.quantize("sum", 0.05, 60) if quantize else "sum",
                        f"{quantize}.onnx")  # fmt: skip

    found = compare(build(quantize=True), images_of(PICTURES), float_model=build(quantize=False))
    floats = [branch(PICTURES, name) for name in BRANCHES]
    quants = [fake(f, *p) for f, p in zip(floats, BRANCHES.values(), strict=True)]
    f = floats[0] + floats[1] + floats[2]
    q = fake(quants[0] + quants[1] + quants[2], 0.05, 60)
    error = (q - f).astype(np.float64)
    sources = found["sum.out"].sources
    assert sources is not None and sources.total == pytest.approx(1, abs=1e-4)
    for name, one, other in zip(BRANCHES, quants, floats, strict=True):
        share = ((one - other) * error).sum() / (error * error).sum()
        assert sources.inherited_by_input[f"{name}.out"] == pytest.approx(share, abs=1e-3), name


@dataclass(frozen=True)
class ByChannel:
    """A scale and a zero-point for each of the three channels of an activation."""

    scales = np.array([0.02, 0.003, 0.04], np.float32)
    zeros = np.array([128, 128, 90], np.uint8)
    weight = np.random.default_rng(5).normal(0, 0.6, (3, 2, 1, 1)).astype(np.float32)

    def conv(self, values: Array) -> Array:
        return np.asarray(np.einsum("oi,nihw->nohw", self.weight[:, :, 0, 0], values), np.float32)

    def quantized(self, values: Array) -> Array:
        shape = (1, 3, 1, 1)
        return fake(values, self.scales.reshape(shape), self.zeros.reshape(shape).astype(int))

    def save(self, folder: Path, *, quantize: bool) -> Path:
        net = TinyQdq((2, 5, 3))
        net.constant("w", self.weight)
        net.constant("scales", self.scales)
        net.constant("zeros", self.zeros)
        source = net.quantize("x", 0.03, 128) if quantize else "x"
        net.node("Conv", [source, "w"], "conv")
        value = "conv"
        if quantize:
            net.node("QuantizeLinear", ["conv", "scales", "zeros"], "conv_q", axis=1)
            value = net.node("DequantizeLinear", ["conv_q", "scales", "zeros"], "conv_dq", axis=1)
        net.node("Relu", [value], "relu")
        return net.save(folder, net.quantize("relu", 0.02, 0) if quantize else "relu",
                        f"{quantize}.onnx")  # fmt: skip


@pytest.fixture(scope="module")
def by_channel(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    folder = tmp_path_factory.mktemp("by_channel")
    model, original = (ByChannel().save(folder, quantize=q) for q in (True, False))
    return compare(model, images_of(PICTURES), float_model=original, batch=4, threads=1)


def test_an_activation_with_scales_by_channel_is_measured_in_its_own_steps(
    by_channel: Comparison,
) -> None:
    net = ByChannel()
    f = net.conv(PICTURES)
    q = net.quantized(net.conv(fake(PICTURES, 0.03, 128)))
    local = net.quantized(f)
    found = by_channel["conv.out"]
    assert found.sqnr_db == pytest.approx(sqnr(f, q), abs=0.01)
    assert found.local_sqnr_db == pytest.approx(sqnr(f, local), abs=0.01)
    steps = net.scales.reshape(1, 3, 1, 1).astype(np.float64)
    assert found.rmse_steps == pytest.approx(np.sqrt((((q - f) / steps) ** 2).mean()), rel=1e-3)
    low, high = ((end - net.zeros.astype(int)) * net.scales.astype(np.float64) for end in (0, 255))
    above = f > high.reshape(1, 3, 1, 1)
    below = f < low.reshape(1, 3, 1, 1)
    assert found.clipped_high_fraction == pytest.approx(above.mean(), abs=1e-9)
    assert found.clipped_low_fraction == pytest.approx(below.mean(), abs=1e-9)
    assert above.any() and below.any()
    for channel in found.channels:
        mine = np.s_[:, channel.channel]
        assert channel.sqnr_db == pytest.approx(sqnr(f[mine], q[mine]), abs=0.01)
        assert channel.clipped_high_fraction == pytest.approx(above[mine].mean(), abs=1e-9)
    assert found.used_share_of_range is None
    assert found.sources is None and found.no_sources == "it has more than one scale"


def test_what_comes_after_scales_by_channel_is_still_taken_apart(by_channel: Comparison) -> None:
    net = ByChannel()
    f = np.maximum(net.conv(PICTURES), 0)
    before = np.maximum(net.quantized(net.conv(fake(PICTURES, 0.03, 128))), 0)
    q = fake(before, 0.02, 0)
    error = (q - f).astype(np.float64)
    sources = by_channel["relu.out"].sources
    assert sources is not None
    expected = ((before - f) * error).sum() / (error * error).sum()
    assert sources.inherited == pytest.approx(expected, abs=1e-3)
    assert sources.total == pytest.approx(1, abs=1e-4)


HALF_WEIGHT = RNG.normal(0, 0.5, (4, 2, 3, 3)).astype(np.float16)


def half_net(folder: Path, *, quantize: bool) -> Path:
    """The same network in float16: values, weights and scales."""
    nodes: list[onnx.NodeProto] = []
    constants = [numpy_helper.from_array(HALF_WEIGHT, "w")]

    def through(name: str, scale: float, zero: int) -> str:
        constants.append(numpy_helper.from_array(np.array(scale, np.float16), f"{name}_s"))
        constants.append(numpy_helper.from_array(np.array(zero, np.uint8), f"{name}_z"))
        params = [f"{name}_s", f"{name}_z"]
        nodes.append(helper.make_node("QuantizeLinear", [name, *params], [f"{name}_q"]))
        nodes.append(helper.make_node("DequantizeLinear", [f"{name}_q", *params], [f"{name}_dq"]))
        return f"{name}_dq"

    source = through("x", 0.03, 128) if quantize else "x"
    nodes.append(helper.make_node("Conv", [source, "w"], ["conv"], name="conv", pads=[1] * 4))
    nodes.append(helper.make_node("Relu", ["conv"], ["relu"], name="relu"))
    output = through("relu", 0.02, 0) if quantize else "relu"
    half = TensorProto.FLOAT16
    graph = helper.make_graph(
        nodes,
        "half",
        [helper.make_tensor_value_info("x", half, ["N", 2, 5, 3])],
        [helper.make_tensor_value_info(output, half, None)],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    path = folder / f"{quantize}.onnx"
    onnx.save(model, path)
    return path


def test_float16_networks_are_compared_in_float32(tmp_path: Path) -> None:
    model, original = (half_net(tmp_path, quantize=q) for q in (True, False))
    pictures = images_of(PICTURES.astype(np.float16))
    found = compare(model, pictures, float_model=original, batch=4, threads=1)
    assert [t.name for t in found.activations] == ["x", "relu.out"]
    f = capture(original, pictures, ["relu"]).tensors
    q = capture(model, pictures, ["relu.out"])["relu.out"]
    (values,) = f.values()
    tensor = found["relu.out"]
    # onnxruntime computes float16 in float32 and leaves out a rounding that is cast back at once.
    assert tensor.sqnr_db == pytest.approx(sqnr(values.values, q.values), abs=0.05)
    assert tensor.clipped_high_fraction == pytest.approx(
        (values.values.astype(np.float64) > 255 * np.float64(np.float16(0.02))).mean(), abs=1e-9
    )
    assert tensor.sources is not None and tensor.sources.total == pytest.approx(1, abs=2e-3)
    assert 0 < tensor.sources.rounding < 1


def test_float16_against_float32_is_refused(tmp_path: Path) -> None:
    model = half_net(tmp_path, quantize=True)
    proto = onnx.load(half_net(tmp_path, quantize=False))
    whole = numpy_helper.from_array(HALF_WEIGHT.astype(np.float32), "w")
    proto.graph.initializer[0].CopyFrom(whole)
    for value in (*proto.graph.input, *proto.graph.output):
        value.type.tensor_type.elem_type = TensorProto.FLOAT
    onnx.save(proto, tmp_path / "float32.onnx")
    with pytest.raises(BadModelError) as caught:
        compare(model, images_of(PICTURES), float_model=tmp_path / "float32.onnx")
    assert str(caught.value) == (
        "The float model computes in float32, the quantized one between its integers in float16; "
        "give both in the same type"
    )


def test_weights_with_a_normalization_folded_in_are_compared_after_folding(tmp_path: Path) -> None:
    weight = RNG.normal(0, 0.5, (3, 2, 1, 1)).astype(np.float32)
    norm = [RNG.uniform(0.5, 2, 3).astype(np.float32) for _ in range(4)]
    scale, shift, mean, variance = norm
    factor = scale / np.sqrt(variance + np.float32(1e-5))
    folded, bias = weight * factor.reshape(-1, 1, 1, 1), shift - mean * factor
    step = np.abs(folded).max() / 127
    integers = np.rint(folded / step).astype(np.int8)
    plain, quant = TinyQdq((2, 5, 3)), TinyQdq((2, 5, 3))
    plain.constant("w", weight)
    names = [plain.constant(f"n{place}", values) for place, values in enumerate(norm)]
    plain.node("Conv", ["x", "w"], "conv")
    plain.node("BatchNormalization", ["conv", *names], "norm")
    plain.node("Relu", ["norm"], "relu")
    original = plain.save(tmp_path, "relu", "float.onnx")
    quant.stored("w", integers, np.float32(step))
    quant.constant("b", bias)
    quant.node("Conv", [quant.quantize("x", 0.03, 128), "w", "b"], "conv")
    model = quant.save(tmp_path, quant.quantize("conv", 0.03, 0))
    found = compare(model, images_of(PICTURES), float_model=original)
    rounded = integers * np.float32(step)
    assert found["conv.weight"].sqnr_db == pytest.approx(sqnr(folded, rounded), abs=1e-3)
    by_channel = [sqnr(f, q) for f, q in zip(folded, rounded, strict=True)]
    np.testing.assert_allclose(
        [c.sqnr_db for c in found["conv.weight"].channels], by_channel, atol=1e-2
    )
    assert found.unpaired == ()
    assert found["conv.out"].sources is not None
    assert found["conv.out"].sources.total == pytest.approx(1, abs=1e-4)


def test_a_constant_that_is_quantized_as_the_model_runs_has_its_rounding(tmp_path: Path) -> None:
    """As onnxruntime leaves a bias behind a Reshape when nothing is folded beforehand."""
    bias = RNG.normal(0, 0.7, 2).astype(np.float32)

    def written(name: str, *, is_quantized: bool) -> Path:
        net = TinyQdq((2, 5, 3))
        value = net.quantize("x", 0.03, 128) if is_quantized else "x"
        net.constant("bias", bias)
        net.constant("shape", np.array([1, 2, 1, 1], np.int64))
        added = net.node("Reshape", ["bias", "shape"], "b")
        added = net.quantize(added, 0.02, 100) if is_quantized else added
        net.node("Add", [value, added], "sum")
        value = net.quantize("sum", 0.03, 128) if is_quantized else "sum"
        return net.save(tmp_path, net.node("Flatten", [value], "y"), name)

    model, original = (
        written("q.onnx", is_quantized=True),
        written("f.onnx", is_quantized=False),
    )
    found = compare(model, images_of(PICTURES), float_model=original)
    (row,) = (tensor for tensor in found.tensors if tensor.role == "bias")
    rounded = fake(bias, 0.02, 100)
    assert not row.exact and row.sqnr_db == pytest.approx(sqnr(bias, rounded), abs=1e-3)
    assert row.rmse_steps == pytest.approx(np.sqrt(((rounded - bias) ** 2).mean()) / 0.02, rel=1e-3)
    assert row.quantized_values is not None
    assert row.quantized_values.max == pytest.approx(float(rounded.max()))


def test_a_layer_that_only_moves_integers_inherits_all(quantized: Callable[..., Path]) -> None:
    path = quantized(activations="uint8", format="qoperator")
    for execution, kernel in (("reference", None), ("runtime", 0.0)):
        found = compare(path, load_sample().take(4), execution=execution)["flatten.out"]  # type: ignore[arg-type]
        assert found.sources == ErrorSources(1.0, 0.0, 0.0, 0.0, kernel, {"pool.out": 1.0})
        assert found.no_sources is None


def test_a_quantizer_that_cannot_be_read_is_listed(tmp_path: Path) -> None:
    nets = [TinyQdq((2, 5, 3)) for _ in range(2)]
    values = [nets[0].quantize("x", 1e-42, 0), "x"]  # too small to divide by
    for net, value in zip(nets, values, strict=True):
        net.node("Relu", [value], "r")
    values = [nets[0].quantize("r", 0.02, 0), "r"]
    model, original = (
        net.save(tmp_path, net.node("Flatten", [value], "y"), f"{at}.onnx")
        for at, (net, value) in enumerate(zip(nets, values, strict=True))
    )
    found = compare(model, images_of(PICTURES), float_model=original)
    assert [tensor.name for tensor in found.activations] == ["r.out"]
    (missing,) = found.unpaired
    assert missing.name == "x_q" and "denormal" in missing.reason


def test_a_session_of_thousands_of_nodes_opens_in_seconds() -> None:
    """As a comparison of a large network has; planned, its memory took onnxruntime minutes."""
    made = [onnx.helper.make_node("NonZero", ["x"], ["places"])]  # of a shape that nobody knows
    made.append(onnx.helper.make_node("Cast", ["places"], ["value0"], to=onnx.TensorProto.FLOAT))
    for n in range(4000):
        made.append(onnx.helper.make_node("Mul", [f"value{n}", f"value{n}"], [f"square{n}"]))
        made.append(onnx.helper.make_node("Sub", [f"square{n}", f"value{n}"], [f"value{n + 1}"]))
    graph = onnx.helper.make_graph(
        made,
        "long",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", 2])],
        [onnx.helper.make_empty_tensor_value_info("value4000")],
    )
    opsets = [onnx.helper.make_opsetid("", 17)]
    start = time.process_time()
    session_of(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=9), "reference")
    assert time.process_time() - start < 5
