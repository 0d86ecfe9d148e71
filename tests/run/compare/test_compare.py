"""A float and a quantized network side by side, against plain NumPy, PyTorch and onnxruntime."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from comparison_nets import (
    QUANTIZERS,
    Residual,
    clip,
    convolve,
    fake_quantize,
    relu,
    residual,
    sqnr,
)
from tiny_qdq import TinyQdq, images_of

from quantscope.data import load_sample
from quantscope.errors import BadDataError, BadModelError, StoppedError
from quantscope.model import bundled_models, load_onnx, read_onnx
from quantscope.run import evaluate
from quantscope.run.capture.capture import capture
from quantscope.run.compare.compare import compare
from quantscope.run.compare.results import Comparison

Array = np.ndarray[Any, Any]

SAMPLE = load_sample().take(10)
RNG = np.random.default_rng(2)
PICTURES = RNG.normal(0, 1, (7, 3, 5, 7)).astype(np.float32)
PICTURES[:, 1, :2] = 0


@pytest.fixture(scope="module")
def net() -> Residual:
    return residual()


@pytest.fixture(scope="module")
def small(net: Residual, tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    folder = tmp_path_factory.mktemp("small")
    model, original = net.save_quantized(folder), net.save_float(folder)
    return compare(model, images_of(PICTURES), float_model=original, batch=3, threads=1)


@pytest.fixture(scope="module")
def bundled() -> Comparison:
    return compare("resnet8-uint8", SAMPLE, threads=1)


def floats_of(net: Residual) -> dict[str, Array]:
    values: dict[str, Array] = {"x": PICTURES}
    values["conv"] = relu(convolve(values["x"], net.conv.weight, net.conv.bias))
    values["branch"] = convolve(values["conv"], net.branch.weight, net.branch.bias)
    values["add"] = relu(values["conv"] + values["branch"])
    values["pool"] = values["add"].mean(axis=(2, 3))
    values["head"] = values["pool"] @ net.head.weight.T + net.head.bias
    return values


def quantized_of(net: Residual) -> tuple[dict[str, Array], dict[str, Array]]:
    """After each quantizer, and before it (after its ReLU)."""
    after: dict[str, Array] = {"x": fake_quantize(PICTURES, "x")}
    before: dict[str, Array] = {"x": PICTURES}
    before["conv"] = relu(convolve(after["x"], net.conv.rounded, net.conv.bias))
    after["conv"] = fake_quantize(before["conv"], "conv")
    before["branch"] = convolve(after["conv"], net.branch.rounded, net.branch.bias)
    after["branch"] = fake_quantize(before["branch"], "branch")
    before["add"] = relu(after["conv"] + after["branch"])
    after["add"] = fake_quantize(before["add"], "add")
    before["pool"] = after["add"].mean(axis=(2, 3))
    after["pool"] = fake_quantize(before["pool"], "pool")
    before["head"] = after["pool"] @ net.head.rounded.T + net.head.bias
    after["head"] = fake_quantize(before["head"], "head")
    return before, after


def name_of(key: str) -> str:
    return key if key == "x" else f"{key}.out"


@pytest.mark.parametrize("key", QUANTIZERS)
def test_statistics_are_those_of_plain_numpy(key: str, net: Residual, small: Comparison) -> None:
    f, q = (v[key].astype(np.float64) for v in (floats_of(net), quantized_of(net)[1]))
    local = fake_quantize(floats_of(net)[key], key)
    scale, zero, dtype = QUANTIZERS[key]
    low, high = ((end - zero) * scale for end in (np.iinfo(dtype).min, np.iinfo(dtype).max))
    found = small[name_of(key)]
    assert found.sqnr_db == pytest.approx(sqnr(f, q), abs=0.01)
    assert found.local_sqnr_db == pytest.approx(sqnr(f, local), abs=0.01)
    assert found.clipped_high_fraction == pytest.approx((f > high).mean(), abs=1e-9)
    assert found.clipped_low_fraction == pytest.approx((f < low).mean(), abs=1e-9)
    beyond = max(0, (low - f.min()) / scale), max(0, (f.max() - high) / scale)
    found_beyond = found.beyond_low_steps, found.beyond_high_steps
    np.testing.assert_allclose(np.array(found_beyond, float), beyond, rtol=1e-4, atol=1e-4)
    assert found.rmse_steps == pytest.approx(np.sqrt(((f - q) ** 2).mean()) / scale, rel=1e-3)
    assert found.local_rmse_steps == pytest.approx(
        np.sqrt(((f - local) ** 2).mean()) / scale, rel=1e-3
    )
    assert found.ideal_rmse_steps == pytest.approx(np.sqrt((f != 0).mean() / 12), rel=1e-6)
    cosine = (f * q).sum() / np.linalg.norm(f) / np.linalg.norm(q)
    assert found.cosine == pytest.approx(cosine, abs=1e-6)
    used = np.clip([f.min(), f.max()], low, high)
    assert found.used_share_of_range == pytest.approx((used[1] - used[0]) / (high - low), rel=1e-5)
    for spread, values in ((found.float_values, f), (found.quantized_values, q)):
        assert spread is not None
        expected = (values.min(), values.max(), values.mean(), values.std())
        found_values = (spread.min, spread.max, spread.mean, spread.std)
        np.testing.assert_allclose(found_values, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("key", ["conv", "branch", "add", "head"])
def test_channels_are_those_of_plain_numpy(key: str, net: Residual, small: Comparison) -> None:
    f, q = floats_of(net)[key], quantized_of(net)[1][key]
    found = small[name_of(key)]
    assert [c.channel for c in found.channels] == list(range(f.shape[1]))
    expected = [sqnr(f[:, c], q[:, c]) for c in range(f.shape[1])]
    np.testing.assert_allclose([c.sqnr_db for c in found.channels], expected, atol=0.01)
    assert found.worst_channels[0] == int(np.argmin(expected))
    local = fake_quantize(f, key)
    scale, zero, dtype = QUANTIZERS[key]
    low, high = ((end - zero) * scale for end in (np.iinfo(dtype).min, np.iinfo(dtype).max))
    for number, of_one in enumerate(found.channels):
        a, b, alone = (v[:, number].astype(np.float64) for v in (f, q, local))
        used = np.clip([a.min(), a.max()], low, high)
        expected = {
            "float_max": a.max(),
            "float_mean": a.mean(),
            "float_std": a.std(),
            "quantized_min": b.min(),
            "quantized_mean": b.mean(),
            "quantized_std": b.std(),
            "clipped_high_fraction": (a > high).mean(),
            "used_share_of_range": (used[1] - used[0]) / (high - low),
            "rmse_steps": np.sqrt(((a - b) ** 2).mean()) / scale,
            "local_rmse_steps": np.sqrt(((a - alone) ** 2).mean()) / scale,
            "ideal_rmse_steps": np.sqrt((a != 0).mean() / 12),
            "cosine": (a * b).sum() / np.linalg.norm(a) / np.linalg.norm(b),
        }
        measured = {name: getattr(of_one, name) for name in expected}
        assert measured == pytest.approx(expected, rel=2e-3, abs=1e-5)


def test_channels_of_weights_are_measured_in_their_own_steps(bundled: Comparison) -> None:
    network = read_onnx(load_onnx(bundled_models()["resnet8-uint8"]))
    found = bundled["stack1.conv1.weight"]
    tensor = network.tensor("stack1.conv1.weight")
    q = tensor.values().astype(np.float64)
    for one in found.channels:
        rounded = q[one.channel]
        assert (one.quantized_mean, one.quantized_std) == pytest.approx(
            (rounded.mean(), rounded.std()), rel=1e-6
        )
        step = float(np.broadcast_to(tensor.params.step, len(q))[one.channel])
        assert one.rmse is not None
        assert one.rmse_steps == pytest.approx(one.rmse / step, rel=1e-6)
        assert one.used_share_of_range is not None and 0.3 < one.used_share_of_range <= 1
        assert one.cosine is not None and 0.999 < one.cosine < 1


def shares(error: Array, **sources: Array) -> dict[str, float]:
    return {name: float((s * error).sum() / (error * error).sum()) for name, s in sources.items()}


@pytest.mark.parametrize("key", ["conv", "branch", "add", "pool", "head"])
def test_sources_are_those_of_plain_numpy(key: str, net: Residual, small: Comparison) -> None:
    f = floats_of(net)
    before, after = quantized_of(net)
    with_float_weights = {
        "conv": lambda: relu(convolve(after["x"], net.conv.weight, net.conv.bias)),
        "branch": lambda: convolve(after["conv"], net.branch.weight, net.branch.bias),
        "head": lambda: after["pool"] @ net.head.weight.T + net.head.bias,
    }
    a = with_float_weights.get(key, lambda: before[key])()
    c = clip(before[key], key)
    expected = shares(
        after[key] - f[key],
        inherited=a - f[key],
        weights=before[key] - a,
        clipping=c - before[key],
        rounding=after[key] - c,
    )
    found = small[name_of(key)].sources
    assert found is not None and found.kernel is None
    assert found.total == pytest.approx(1, abs=1e-5)
    for source, share in expected.items():
        assert getattr(found, source) == pytest.approx(share, abs=1e-3), source


def test_both_branches_of_an_add_are_told_apart(net: Residual, small: Comparison) -> None:
    f, (_, after) = floats_of(net), quantized_of(net)
    error = after["add"] - f["add"]
    both = relu(after["conv"] + after["branch"])
    only_conv, only_branch = relu(after["conv"] + f["branch"]), relu(f["conv"] + after["branch"])
    expected = shares(
        error,
        conv=((only_conv - f["add"]) + (both - only_branch)) / 2,
        branch=((only_branch - f["add"]) + (both - only_conv)) / 2,
    )
    sources = small["add.out"].sources
    assert sources is not None
    assert set(sources.inherited_by_input) == {"conv.out", "branch.out"}
    for name, share in expected.items():
        assert sources.inherited_by_input[f"{name}.out"] == pytest.approx(share, abs=1e-3)
    assert sum(sources.inherited_by_input.values()) == pytest.approx(sources.inherited, abs=1e-6)


def test_cutting_negatives_is_no_error(small: Comparison) -> None:
    assert small["conv.out"].clipped_low_fraction == 0
    assert small["conv.out"].float_values.min == 0  # type: ignore[union-attr]


@pytest.mark.parametrize("key", ["conv", "branch", "head"])
def test_weights_are_compared_by_their_rounding(key: str, net: Residual, small: Comparison) -> None:
    layer = getattr(net, key)
    found = small[f"{key}.weight"]
    assert found.sqnr_db == found.local_sqnr_db
    assert found.sqnr_db == pytest.approx(sqnr(layer.weight, layer.rounded), abs=1e-3)
    by_channel = [sqnr(w, r) for w, r in zip(layer.weight, layer.rounded, strict=True)]
    np.testing.assert_allclose([c.sqnr_db for c in found.channels], by_channel, atol=1e-2)
    assert found.worst_channels[0] == int(np.argmin(by_channel))
    assert found.clipped_high_fraction == found.clipped_low_fraction == 0


def test_shares_of_every_layer_of_resnet8_add_up_to_one(bundled: Comparison) -> None:
    taken_apart = [t.sources for t in bundled.activations if t.sources is not None]
    assert len(taken_apart) == len(bundled.activations) - 1
    assert bundled["input"].exact and bundled["input"].sqnr_db is None
    assert bundled["input"].ideal_rmse_steps == 0  # pixels at scale 1: there is nothing to round
    assert {channel.ideal_rmse_steps for channel in bundled["input"].channels} == {0}
    assert bundled["input"].no_sources == "it has no error"
    for sources in taken_apart:
        assert sources.total == pytest.approx(1, abs=1e-3)


def test_every_tensor_of_resnet8_has_a_row(bundled: Comparison) -> None:
    assert bundled.unpaired == bundled.unseen == ()
    assert [t.role for t in bundled.tensors].count("activation") == 16
    assert [t.role for t in bundled.tensors].count("weight") == 10
    assert [t.role for t in bundled.tensors].count("bias") == 10


def test_sqnr_is_pytorchs(bundled: Comparison) -> None:
    torch = pytest.importorskip("torch")
    from torch.ao.ns.fx.utils import compute_sqnr

    quantized = capture("resnet8-uint8", SAMPLE, threads=1)
    names = [tensor.float_name for tensor in bundled.activations]
    floats = capture("resnet8", SAMPLE, names, threads=1)
    for tensor in bundled.activations[1:]:
        f = torch.from_numpy(floats[_captured_name(floats.tensors, tensor.float_name)].values)
        q = torch.from_numpy(quantized[tensor.name].values)
        assert tensor.sqnr_db == pytest.approx(float(compute_sqnr(f, q)), abs=0.05), tensor.name


def _captured_name(known: Any, float_name: str) -> str:
    return float_name if float_name in known else f"{float_name.removesuffix('.out')}.out"


def test_sqnr_is_onnxruntimes_where_it_looks_at_the_same(
    bundled: Comparison, tmp_path: Path
) -> None:
    from onnxruntime.quantization import qdq_loss_debug as peer

    def activations(name: str) -> Any:
        path = str(tmp_path / f"{name}.onnx")
        peer.modify_model_output_intermediate_tensors(str(bundled_models()[name]), path)
        rows = iter([{"input": SAMPLE.images.astype(np.float32)}])
        return peer.collect_activations(path, rows)  # type: ignore[arg-type]

    matched = peer.create_activation_matching(activations("resnet8-uint8"), activations("resnet8"))
    known = {name: match for name, match in matched.items() if "float" in match}
    errors = peer.compute_activation_error(known)
    ours = {t.float_name: t for t in bundled.activations if t.sqnr_db is not None}
    agreeing = errors.keys() & ours.keys()
    assert len(agreeing) >= 7
    for name in agreeing:
        assert ours[name].sqnr_db == pytest.approx(errors[name]["xmodel_err"], abs=0.05), name


def test_batches_do_not_matter(bundled: Comparison) -> None:
    other = compare("resnet8-uint8", SAMPLE, batch=3, threads=1)
    for one, two in zip(bundled.activations, other.activations, strict=True):
        assert one.sqnr_db == (two.sqnr_db and pytest.approx(two.sqnr_db, abs=1e-3))
        assert one.clipped_high_fraction == two.clipped_high_fraction


def test_sqnr_alone_is_the_same_sqnr(bundled: Comparison) -> None:
    quick = compare("resnet8-uint8", SAMPLE, detail="sqnr", threads=1)
    assert len(quick.tensors) == 16
    for tensor in quick.tensors:
        assert tensor.sqnr_db == (bundled[tensor.name].sqnr_db and pytest.approx(
            bundled[tensor.name].sqnr_db, abs=1e-4))  # fmt: skip
        assert tensor.local_sqnr_db is None and tensor.sources is None


@pytest.mark.parametrize("activations", ["int8", "uint8"])
def test_both_formats_state_the_same(activations: str, quantized: Callable[..., Path]) -> None:
    qdq, qoperator = (
        compare(
            quantized(activations=activations, format=f),
            SAMPLE.take(4),
            float_model="resnet8",
            threads=1,
        )
        for f in ("qdq", "qoperator")
    )
    for one in qdq.activations:
        two = qoperator[one.name]
        assert one.sqnr_db == (two.sqnr_db and pytest.approx(two.sqnr_db, abs=1e-3)), one.name


def test_json_holds_no_nan_and_says_its_version(bundled: Comparison, small: Comparison) -> None:
    for result in (bundled, small):
        found = json.loads(json.dumps(result.to_dict(), allow_nan=False))
        assert found["schema_version"] == 2
        assert {"name", "float_name", "layer", "role", "sqnr_db", "local_sqnr_db", "exact"} <= set(
            found["tensors"][0]
        )


def test_output_agreement_is_that_of_two_evaluations() -> None:
    data = load_sample().take(60)
    found = compare("resnet8-uint8", data, detail="sqnr", threads=1).output
    one = evaluate("resnet8", data, execution="reference")
    other = evaluate("resnet8-uint8", data, execution="reference")
    changed = one.predictions != other.predictions
    np.testing.assert_array_equal(found.changed, data.indices[changed])
    assert found.class_agreement == 1 - changed.mean()
    p, q = (_softmax(e.scores) for e in (one, other))
    assert found.kl_nats == pytest.approx((p * np.log(p / q)).sum(axis=1).mean(), rel=1e-3)


def test_where_the_model_ends_in_a_softmax_the_divergence_is_of_its_output(
    tmp_path: Path,
) -> None:
    for name in ("resnet8", "resnet8-int8"):
        model = onnx.load(str(bundled_models()[name]))
        output = model.graph.output[0]
        model.graph.node.append(onnx.helper.make_node("Softmax", [output.name], ["p"], name="p"))
        output.name = "p"
        onnx.save(model, str(tmp_path / f"{name}.onnx"))
    data = load_sample().take(20)
    found = compare(
        tmp_path / "resnet8-int8.onnx",
        data,
        float_model=tmp_path / "resnet8.onnx",
        detail="sqnr",
        threads=1,
    ).output
    logits = compare("resnet8-int8", data, detail="sqnr", threads=1).output
    assert (found.kl_of, logits.kl_of) == ("output", "softmax")
    assert found.kl_nats == pytest.approx(logits.kl_nats, rel=1e-3)


def _softmax(scores: Array) -> Array:
    grown = np.exp(scores.astype(np.float64) - scores.max(axis=1, keepdims=True))
    return np.asarray(grown / grown.sum(axis=1, keepdims=True))


def test_models_that_do_not_belong_together_are_refused(
    random_resnet8: Path, net: Residual, tmp_path: Path
) -> None:
    with pytest.raises(BadModelError, match="do not belong together: the layers match, but the"):
        compare("resnet8-uint8", SAMPLE, float_model=random_resnet8)
    with pytest.raises(BadModelError, match="do not belong together: the input"):
        compare("resnet8-uint8", SAMPLE, float_model=net.save_float(tmp_path))


def test_a_quantized_model_is_no_float_one() -> None:
    with pytest.raises(BadModelError, match=r"resnet8-int8\.onnx is quantized \(.*give the float"):
        compare("resnet8-uint8", SAMPLE, float_model="resnet8-int8")
    with pytest.raises(BadModelError, match=r"resnet8\.onnx is a float model"):
        compare("resnet8", SAMPLE, float_model="resnet8")


def test_a_model_without_a_known_original_is_compared_with_its_quantizers_off(
    net: Residual, tmp_path: Path
) -> None:
    path = net.save_quantized(tmp_path)
    found = compare(path, images_of(PICTURES))
    assert found.float_model == f"{path.name} with every quantizer off"
    assert len(found.activations) == len(
        compare(path, images_of(PICTURES), float_model=net.save_float(tmp_path)).activations
    )
    # The stand-in's weights are the dequantized ones: no error comes from them.
    assert all(row.sources.weights == 0 for row in found.activations if row.sources is not None)


def test_no_images_is_said() -> None:
    with pytest.raises(BadDataError, match="holds no images; give at least one"):
        compare("resnet8-uint8", images_of(np.zeros((0, 3, 32, 32), np.float32)))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_is_reported_where_it_starts(
    bad: float, net: Residual, tmp_path: Path
) -> None:
    pictures = PICTURES.copy()
    pictures[4, 1, 2, 3] = bad
    model, original = net.save_quantized(tmp_path), net.save_float(tmp_path)
    found = compare(model, images_of(pictures), float_model=original, batch=2)
    assert found.not_finite_from == (
        "x: NaN or infinite in the float network for 1 of 7 images, first image 4"
    )
    assert found["x"].sqnr_db is None and found["x"].not_finite_images == 1
    json.dumps(found.to_dict(), allow_nan=False)


def test_an_overflow_inside_is_reported_where_it_starts(tmp_path: Path) -> None:
    def build(*, quantize: bool) -> Path:
        net = TinyQdq((2, 3, 3))
        net.constant("huge", np.float32(3e38))
        x = net.quantize("x", 0.1, 0) if quantize else "x"
        net.node("Relu", [x], "first")
        first = net.quantize("first", 0.1, 0) if quantize else "first"
        net.node("Mul", [first, "huge"], "second")
        second = net.quantize("second", 0.1, 0) if quantize else "second"
        net.node("GlobalAveragePool", [second], "third")
        third = net.quantize("third", 0.1, 0) if quantize else "third"
        return net.save(tmp_path, third, f"{quantize}.onnx")

    pictures = np.full((3, 2, 3, 3), 5, np.float32)
    found = compare(build(quantize=True), images_of(pictures), float_model=build(quantize=False))
    assert found.not_finite_from is not None
    assert found.not_finite_from.startswith("second.out: NaN or infinite in the float network")
    assert found["first.out"].not_finite_images == 0
    json.dumps(found.to_dict(), allow_nan=False)


def test_a_model_with_a_fixed_batch_counts_no_filler(net: Residual, tmp_path: Path) -> None:
    model, original = net.save_quantized(tmp_path), net.save_float(tmp_path)
    free = compare(model, images_of(PICTURES), float_model=original)
    for path in (model, original):
        proto = onnx.load(path)
        proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 4
        onnx.save(proto, path)
    fixed = compare(model, images_of(PICTURES), float_model=original)
    assert fixed.output.images == 7
    for one, two in zip(free.activations, fixed.activations, strict=True):
        assert one.sqnr_db == pytest.approx(two.sqnr_db, abs=1e-4)


def test_models_at_different_opsets_are_compared(net: Residual, tmp_path: Path) -> None:
    model, original = net.save_quantized(tmp_path), net.save_float(tmp_path)
    same = compare(model, images_of(PICTURES), float_model=original)
    proto = onnx.load(original)
    proto.opset_import[0].version = 17
    onnx.save(proto, original)
    other = compare(model, images_of(PICTURES), float_model=original)
    assert [t.sqnr_db for t in same.activations] == [t.sqnr_db for t in other.activations]


def test_it_can_be_stopped() -> None:
    def stop(what: str, done: int, total: int) -> None:
        raise StoppedError("enough")

    with pytest.raises(StoppedError):
        compare("resnet8-uint8", SAMPLE, batch=2, progress=stop)
