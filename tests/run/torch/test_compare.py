"""Two PyTorch programs side by side, against plain NumPy, torch and torchao."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from comparison_nets import (
    QUANTIZERS,
    Residual,
    clip,
    convolve,
    fake_quantize,
    layer,
    relu,
    residual,
    sqnr,
)
from tiny_qdq import images_of
from torch_nets import NAMES, FloatNet, QuantizedNet, save

from quantscope.data import load_sample
from quantscope.errors import BadConfigError, BadModelError, StoppedError
from quantscope.model import Model, bundled_models, need_original, open_model
from quantscope.model.float_original import PROVENANCE_KEY
from quantscope.quantize import PtqConfig
from quantscope.quantize.pt2e import quantize_torch
from quantscope.run import evaluate
from quantscope.run.compare.compare import compare
from quantscope.run.compare.reading import reading
from quantscope.run.compare.results import Comparison
from quantscope.run.torch.nodes import save_resnet8
from quantscope.zoo import Weights, write_safetensors

Array = np.ndarray[Any, Any]

# Without a sum in the middle between two integers, which NumPy and torch may round differently.
PICTURES = np.random.default_rng(12).normal(0, 1, (7, 3, 5, 7)).astype(np.float32)


@pytest.fixture(scope="module")
def net() -> Residual:
    return residual()


@pytest.fixture(scope="module")
def paths(net: Residual, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("programs")
    return save(QuantizedNet(net), folder / "q.pt2"), save(FloatNet(net), folder / "f.pt2")


@pytest.fixture(scope="module")
def small(paths: tuple[Path, Path]) -> Comparison:
    return compare(paths[0], images_of(PICTURES), float_model=paths[1], batch=3)


def plain(net: Residual) -> tuple[dict[str, Array], dict[str, Array], dict[str, Array]]:
    """Of the float network, of the quantized one after each quantizer, and before it."""
    f: dict[str, Array] = {"x": PICTURES}
    f["conv"] = relu(convolve(f["x"], net.conv.weight, net.conv.bias))
    f["branch"] = convolve(f["conv"], net.branch.weight, net.branch.bias)
    f["add"] = relu(f["conv"] + f["branch"])
    f["pool"] = f["add"].mean(axis=(2, 3), keepdims=True)
    f["head"] = f["pool"][:, :, 0, 0] @ net.head.weight.T + net.head.bias
    b: dict[str, Array] = {"x": PICTURES}
    q: dict[str, Array] = {"x": fake_quantize(PICTURES, "x")}
    layers = {
        "conv": lambda: relu(convolve(q["x"], net.conv.rounded, net.conv.bias)),
        "branch": lambda: convolve(q["conv"], net.branch.rounded, net.branch.bias),
        "add": lambda: relu(q["conv"] + q["branch"]),
        "pool": lambda: q["add"].mean(axis=(2, 3), keepdims=True),
        "head": lambda: q["pool"][:, :, 0, 0] @ net.head.rounded.T + net.head.bias,
    }
    for key, compute in layers.items():
        b[key] = compute()
        q[key] = fake_quantize(b[key], key)
    return f, q, b


@pytest.mark.parametrize("key", QUANTIZERS)
def test_statistics_are_those_of_plain_numpy(key: str, net: Residual, small: Comparison) -> None:
    f, q = (v[key].astype(np.float64) for v in plain(net)[:2])
    local = fake_quantize(plain(net)[0][key], key)
    scale, zero, dtype = QUANTIZERS[key]
    low, high = ((end - zero) * scale for end in (np.iinfo(dtype).min, np.iinfo(dtype).max))
    found = small[NAMES[key]]
    assert found.sqnr_db == pytest.approx(sqnr(f, q), abs=0.01)
    assert found.local_sqnr_db == pytest.approx(sqnr(f, local), abs=0.01)
    assert found.clipped_high_fraction == pytest.approx((f > high).mean(), abs=1e-9)
    assert found.clipped_low_fraction == pytest.approx((f < low).mean(), abs=1e-9)
    assert found.rmse_steps == pytest.approx(np.sqrt(((f - q) ** 2).mean()) / scale, rel=1e-3)
    assert found.ideal_rmse_steps == pytest.approx(np.sqrt((f != 0).mean() / 12), rel=1e-6)
    cosine = (f * q).sum() / np.linalg.norm(f) / np.linalg.norm(q)
    assert found.cosine == pytest.approx(cosine, abs=1e-5)
    for spread, values in ((found.float_values, f), (found.quantized_values, q)):
        assert spread is not None
        np.testing.assert_allclose(
            [spread.min, spread.max, spread.mean, spread.std],
            [values.min(), values.max(), values.mean(), values.std()],
            atol=1e-4,
        )
    used = np.clip([f.min(), f.max()], low, high)
    assert found.used_share_of_range == pytest.approx((used[1] - used[0]) / (high - low), abs=1e-5)
    channels = [sqnr(f[:, c], q[:, c]) for c in range(f.shape[1])]
    np.testing.assert_allclose([c.sqnr_db for c in found.channels], channels, atol=0.02)
    assert found.worst_channels[0] == int(np.argmin(channels))


def shares(error: Array, **sources: Array) -> dict[str, float]:
    return {name: float((s * error).sum() / (error * error).sum()) for name, s in sources.items()}


@pytest.mark.parametrize("key", ["conv", "branch", "add", "pool", "head"])
def test_sources_are_those_of_plain_numpy(key: str, net: Residual, small: Comparison) -> None:
    f, q, b = plain(net)
    with_float_weights = {
        "conv": lambda: relu(convolve(q["x"], net.conv.weight, net.conv.bias)),
        "branch": lambda: convolve(q["conv"], net.branch.weight, net.branch.bias),
        "head": lambda: q["pool"][:, :, 0, 0] @ net.head.weight.T + net.head.bias,
    }
    a = with_float_weights.get(key, lambda: b[key])()
    c = clip(b[key], key)
    expected = shares(
        q[key] - f[key],
        inherited=a - f[key],
        weights=b[key] - a,
        clipping=c - b[key],
        rounding=q[key] - c,
    )
    found = small[NAMES[key]].sources
    assert found is not None and found.kernel is None
    assert found.total == pytest.approx(1, abs=1e-5)
    for source, share in expected.items():
        assert getattr(found, source) == pytest.approx(share, abs=1e-3), source


def test_both_branches_of_an_add_are_told_apart(net: Residual, small: Comparison) -> None:
    f, q, _ = plain(net)
    both = relu(q["conv"] + q["branch"])
    only_conv, only_branch = relu(q["conv"] + f["branch"]), relu(f["conv"] + q["branch"])
    expected = shares(
        q["add"] - f["add"],
        conv=((only_conv - f["add"]) + (both - only_branch)) / 2,
        branch=((only_branch - f["add"]) + (both - only_conv)) / 2,
    )
    sources = small[NAMES["add"]].sources
    assert sources is not None and len(sources.inherited_by_input) == 2
    for key, share in expected.items():
        assert sources.inherited_by_input[NAMES[key]] == pytest.approx(share, abs=1e-3)


@pytest.mark.parametrize(("key", "name"), [("conv", "conv2d"), ("head", "linear")])
def test_weights_are_compared_by_their_rounding(
    key: str, name: str, net: Residual, small: Comparison
) -> None:
    part, found = getattr(net, key), small[f"{name}.weight"]
    assert found.sqnr_db == found.local_sqnr_db
    assert found.sqnr_db == pytest.approx(sqnr(part.weight, part.rounded), abs=1e-3)
    by_channel = [sqnr(w, r) for w, r in zip(part.weight, part.rounded, strict=True)]
    np.testing.assert_allclose([c.sqnr_db for c in found.channels], by_channel, atol=1e-2)
    assert found.clipped_high_fraction == found.clipped_low_fraction == 0


def test_every_tensor_has_a_row_and_json_no_nan(small: Comparison) -> None:
    assert small.unpaired == small.unseen == ()
    assert [t.role for t in small.tensors].count("activation") == 6
    assert [t.role for t in small.tensors].count("weight") == 3
    found = json.loads(json.dumps(small.to_dict(), allow_nan=False))
    assert found["execution"] == "reference" and "torch" in found["provenance"]


def test_sqnr_alone_is_the_same_sqnr(paths: tuple[Path, Path], small: Comparison) -> None:
    quick = compare(paths[0], images_of(PICTURES), float_model=paths[1], detail="sqnr", threads=1)
    assert len(quick.tensors) == 6
    for tensor in quick.tensors:
        assert tensor.sqnr_db == pytest.approx(small[tensor.name].sqnr_db, abs=1e-4)
        assert tensor.local_sqnr_db is None and tensor.sources is None


def same_results(one: Comparison, other: Comparison) -> None:
    assert len(one.activations) == len(other.activations)
    for a, b in zip(one.activations, other.activations, strict=True):
        assert a.sqnr_db == pytest.approx(b.sqnr_db, abs=1e-3), a.name
        assert a.local_sqnr_db == pytest.approx(b.local_sqnr_db, abs=1e-3), a.name
        assert a.clipped_high_fraction == b.clipped_high_fraction
        assert a.sources is not None and b.sources is not None
        assert a.sources.inherited == pytest.approx(b.sources.inherited, abs=1e-3), a.name


@pytest.mark.parametrize("batch", [2, (3, 5)])
def test_what_the_programs_take_at_once_does_not_matter(
    batch: Any, net: Residual, small: Comparison, tmp_path: Path
) -> None:
    quantized = save(QuantizedNet(net), tmp_path / "q.pt2", batch=batch)
    original = save(FloatNet(net), tmp_path / "f.pt2", batch=batch)
    found = compare(quantized, images_of(PICTURES), float_model=original)
    assert found.output.images == 7
    same_results(found, small)


def test_batches_are_such_as_both_programs_take(
    net: Residual, paths: tuple[Path, Path], small: Comparison, tmp_path: Path
) -> None:
    two = save(FloatNet(net), tmp_path / "two.pt2", batch=2)
    same_results(compare(paths[0], images_of(PICTURES), float_model=two), small)
    three = save(QuantizedNet(net), tmp_path / "three.pt2", batch=3)
    with pytest.raises(BadModelError, match=r"two\.pt2 and three\.pt2 take no batch in common"):
        compare(three, images_of(PICTURES), float_model=two)


def test_operators_that_write_into_their_input_do_not_matter(
    net: Residual, small: Comparison, tmp_path: Path
) -> None:
    quantized = save(QuantizedNet(net, in_place=True), tmp_path / "q.pt2")
    original = save(FloatNet(net, in_place=True), tmp_path / "f.pt2")
    same_results(compare(quantized, images_of(PICTURES), float_model=original), small)


def test_output_agreement_is_that_of_two_evaluations(paths: tuple[Path, Path]) -> None:
    pictures = np.random.default_rng(4).normal(0, 1, (60, 3, 5, 7)).astype(np.float32)
    found = compare(paths[0], images_of(pictures), float_model=paths[1], detail="sqnr").output
    one, other = (evaluate(path, images_of(pictures)) for path in paths)
    np.testing.assert_array_equal(
        found.changed, np.flatnonzero(one.predictions != other.predictions)
    )
    assert found.execution == "reference"


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_is_reported_where_it_starts(
    bad: float, paths: tuple[Path, Path]
) -> None:
    pictures = PICTURES.copy()
    pictures[4, 1, 2, 3] = bad
    found = compare(paths[0], images_of(pictures), float_model=paths[1], batch=2)
    assert found.not_finite_from == (
        "x: NaN or infinite in the float network for 1 of 7 images, first image 4"
    )
    assert found["x"].sqnr_db is None and found["x"].not_finite_images == 1
    json.dumps(found.to_dict(), allow_nan=False)


def test_models_that_do_not_belong_together_are_refused(
    paths: tuple[Path, Path], net: Residual, tmp_path: Path
) -> None:
    rng = np.random.default_rng(9)
    other = replace(net, conv=layer(rng, 4, 3, 3, 3), head=layer(rng, 3, 4))
    path = save(FloatNet(other), tmp_path / "other.pt2")
    with pytest.raises(BadModelError, match=r"do not belong together: .* of 2 of 3 differ, first"):
        compare(paths[0], images_of(PICTURES), float_model=path)
    with pytest.raises(BadModelError, match=r"q\.pt2 is quantized \(.*give the float model"):
        compare(paths[0], images_of(PICTURES), float_model=paths[0])
    for given in (None, *paths):
        with pytest.raises(BadModelError, match=r"f\.pt2 is a float program"):
            compare(paths[1], images_of(PICTURES), float_model=given)
    with pytest.raises(BadModelError, match=r"^There is no file nowhere\.pt2; give a model"):
        compare("nowhere.pt2", images_of(PICTURES))


def test_bad_requests_get_one_line(paths: tuple[Path, Path], tmp_path: Path) -> None:
    pictures = images_of(PICTURES)
    with pytest.raises(BadModelError) as error:
        compare(paths[0], pictures, float_model="resnet8")
    assert str(error.value) == (
        "resnet8.onnx is no program or weights of PyTorch, but q.pt2 is; give its float model "
        "as .pt2 or .safetensors (bundled: resnet8-torch)"
    )
    with pytest.raises(BadConfigError, match=r"q\.pt2 does not say which float model .* --float"):
        compare(paths[0], pictures)
    with pytest.raises(BadConfigError, match="which has no runtime execution here"):
        compare(paths[0], pictures, float_model=paths[1], execution="runtime")
    with pytest.raises(BadConfigError, match="int8 kernels are a setting of onnxruntime"):
        compare(paths[0], pictures, float_model=paths[1], int8_kernels=True)
    with pytest.raises(BadModelError, match=r"^There is no file .*no\.pt2; give a model"):
        compare(paths[0], pictures, float_model=tmp_path / "no.pt2")
    with pytest.raises(BadModelError, match=r"f\.pt2 is a PyTorch model, but resnet8-int8\.onnx"):
        compare("resnet8-int8", load_sample().take(1), float_model=paths[1])


def test_it_can_be_stopped(paths: tuple[Path, Path]) -> None:
    before = torch.get_num_threads()

    def stop(what: str, done: int, total: int) -> None:
        raise StoppedError("enough")

    with pytest.raises(StoppedError):
        compare(paths[0], images_of(PICTURES), float_model=paths[1], batch=2, progress=stop)
    assert torch.get_num_threads() == before


def test_a_program_may_say_which_bundled_weights_it_was_made_from(
    paths: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def saying(text: str) -> Model:
        model = open_model(paths[0])  # anew: an opened model remembers its original
        monkeypatch.setattr(type(model), "metadata", {PROVENANCE_KEY: text})
        return model

    digest = evaluate("resnet8-torch", load_sample().take(1)).digest
    said = saying(json.dumps({"float_model_digest": digest}))
    assert need_original(said).path == bundled_models()["resnet8-torch"]
    for text in ("not json", "[]", "{}"):
        with pytest.raises(BadConfigError, match="does not say which float model"):
            need_original(saying(text))


def test_float_weights_that_the_program_was_not_made_from_are_told(
    random_weights: Weights, tmp_path: Path
) -> None:
    own, other, quantized = (tmp_path / f"{n}" for n in ("a.safetensors", "b.safetensors", "q.pt2"))
    digest = write_safetensors(random_weights, own)
    write_safetensors({name: w * np.float32(1.01) for name, w in random_weights.items()}, other)
    quantize_torch(own, quantized, PtqConfig(framework="torch", calibration_images=2))
    save_resnet8(other, tmp_path / "b.pt2")

    def found(float_model: Path) -> Comparison:
        return compare(quantized, load_sample().take(2), float_model=float_model, detail="sqnr")

    same = found(own)
    assert same.made_from == same.float_digest == digest
    assert not any("another float model" in sentence for sentence in reading(same))
    first = reading(found(other))[0]
    assert first.startswith("q.pt2 says that it was made from another float model than b.safet")
    # An exported program may hold the very weights: its digest does not tell.
    assert found(tmp_path / "b.pt2").made_from is None


def test_an_image_alone_has_the_integers_that_it_has_among_others(resnet8_program: Path) -> None:
    images = load_sample().take(9)
    one, other, last = (
        compare(resnet8_program, images, batch=batch, detail="sqnr").to_dict()["tensors"]
        for batch in (1, 9, 4)
    )
    for alone, among, in_the_last in zip(one, other, last, strict=True):
        assert alone["sqnr_db"] == pytest.approx(among["sqnr_db"], abs=1e-5), alone["name"]
        assert in_the_last["sqnr_db"] == pytest.approx(among["sqnr_db"], abs=1e-5)
    scores = [evaluate(resnet8_program, images, batch=batch).scores for batch in (1, 9)]
    np.testing.assert_array_equal(*scores)


@pytest.mark.slow
def test_a_quantized_resnet8_knows_its_weights(tmp_path: Path) -> None:
    quantize_torch(
        bundled_models()["resnet8-torch"],
        tmp_path / "q.pt2",
        PtqConfig(framework="torch", calibration_images=32),
    )
    found = compare(tmp_path / "q.pt2", load_sample().take(20))
    assert found.float_model == "resnet8.safetensors"
    assert found.unpaired == found.unseen == ()
    for tensor in found.activations:
        assert tensor.exact or tensor.sources is not None
        assert tensor.sources is None or tensor.sources.total == pytest.approx(1, abs=1e-3)
