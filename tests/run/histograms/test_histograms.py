"""Streaming counts, against numpy.histogram on values that were captured whole."""

import gc
import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from comparison_nets import Residual, residual
from hypothesis import given
from hypothesis import strategies as st
from tiny_qdq import TinyQdq, images_of

from quantscope.arithmetic import (
    QuantParams,
    dequantize,
    params_from_range,
    quantize,
    range_error,
    with_bits,
)
from quantscope.data import load_sample
from quantscope.errors import BadConfigError, BadDataError, BadModelError, StoppedError
from quantscope.model import find_model, load_onnx, pair_networks, read_onnx
from quantscope.run import capture
from quantscope.run.compare.compare import compare
from quantscope.run.cpu import saturates_8bit_products
from quantscope.run.histograms.counts import Grid, count_values, edges_between
from quantscope.run.histograms.histograms import histograms, weight_histogram
from quantscope.run.histograms.results import Histogram

Array = np.ndarray[Any, Any]

SAMPLE = load_sample().take(6)
PICTURES = np.random.default_rng(2).normal(0, 1, (7, 3, 5, 7)).astype(np.float32)

x86_only = pytest.mark.skipif(
    saturates_8bit_products() is not True, reason="needs an x86 CPU with AVX2 and without VNNI"
)


@pytest.fixture(scope="module")
def net() -> Residual:
    return residual()


@pytest.fixture(scope="module")
def files(net: Residual, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("net")
    return net.save_quantized(folder), net.save_float(folder)


def counted(values: Array, histogram: Histogram) -> Array:
    flat = values.astype(np.float64).ravel()
    edges = histogram.edges
    assert (np.diff(edges) > 0).all()
    assert edges[0] <= flat.min() and flat.max() < edges[-1]
    return np.histogram(flat, edges)[0]


def check_against_numpy(found: Histogram, floats: Array, quantized: Array) -> None:
    """Every series, exactly."""
    floats = floats.reshape(quantized.shape)
    np.testing.assert_array_equal(found["float"].counts, counted(floats, found))
    np.testing.assert_array_equal(found["quantized"].counts, counted(quantized, found))
    for name in ("int8", "uint8"):
        series = found[name]
        assert series.params is not None
        rounded = dequantize(quantize(floats, series.params, precision="float32"), series.params)
        np.testing.assert_array_equal(series.counts, counted(rounded, found))
        assert (series.min, series.max) == (rounded.min(), rounded.max())
        low, high = (series.params.expand(e, floats.shape) for e in
                     series.params.representable_range)  # fmt: skip
        assert series.above == np.count_nonzero(floats > high + 1e-6 * (high - low))
        assert series.below == np.count_nonzero(floats < low - 1e-6 * (high - low))
    assert (found["float"].min, found["float"].max) == (floats.min(), floats.max())
    assert all(series.values == floats.size for series in found.series)


def check_cost_of_range(found: Histogram, floats: Array, params: QuantParams) -> None:
    """What the counts say that a range costs is what quantizing every value does."""
    told = range_error(found.spread, params)
    error = dequantize(quantize(floats, params), params).astype(np.float64) - floats
    assert told.total == pytest.approx((error**2).mean(), rel=0.05)
    assert found.spread.values == floats.size
    assert found["float"].zeros == (floats == 0).sum()


def both(model: str | Path, original: str | Path, images: Any, found: Histogram) -> Any:
    q = capture(model, images, [found.name], threads=1).tensors
    f = capture(original, images, [found.float_name or ""], threads=1).tensors
    return [next(iter(tensors.values())).values for tensors in (f, q)]


@pytest.mark.parametrize("bins", [512, 60, 7])
def test_counts_of_a_small_net_are_numpys(files: tuple[Path, Path], bins: int) -> None:
    pictures = images_of(PICTURES)
    found = histograms(files[0], pictures, float_model=files[1], bins=bins, batch=3, threads=2)
    assert [t.name for t in found.tensors] == [
        *("x", "conv.out", "branch.out", "add.out", "pool.out", "head.out")
    ]
    for tensor in found.tensors:
        assert tensor.bins <= bins
        if tensor.name == "x":
            floats, quantized = PICTURES, capture(files[0], pictures, ["x"])["x"].values
        else:
            floats, quantized = both(*files, pictures, tensor)
        check_against_numpy(tensor, floats, quantized)


def test_counts_of_resnet8_are_numpys() -> None:
    names = ["stem", "stack1.conv2", "stack3.add", "head"]
    found = histograms("resnet8-uint8", SAMPLE, names, batch=4, threads=1)
    assert [t.name for t in found.tensors] == [f"{name}.out" for name in names]
    for tensor in found.tensors:
        floats, quantized = both("resnet8-uint8", "resnet8", SAMPLE, tensor)
        check_against_numpy(tensor, floats, quantized)
        if floats.size < 1000:
            continue  # too few to fill their bins evenly
        check_cost_of_range(tensor, floats, tensor.params)
        check_cost_of_range(tensor, floats, with_bits(tensor.params, 4))


@pytest.mark.parametrize("name", ["stem.weight", "stack2.shortcut.weight", "head.weight"])
def test_counts_of_weights_are_numpys(name: str) -> None:
    quants, floats = (read_onnx(load_onnx(find_model(m))) for m in ("resnet8-int8", "resnet8"))
    tensor, found_pair = quants.tensor(name), pair_networks(floats, quants).by_name[name]
    found = weight_histogram(tensor, found_pair, bins=100)
    values = found_pair.float_values()
    assert values is not None
    check_against_numpy(found, values, tensor.values())
    assert found["int8"].rule == "as the file has it"
    np.testing.assert_array_equal(found["int8"].counts, found["quantized"].counts)
    assert found["uint8"].rule == "asymmetric over the float values of each channel"
    expected = params_from_range(
        values.reshape(len(values), -1).min(axis=1),
        values.reshape(len(values), -1).max(axis=1),
        "uint8",
        axis=0,
    )
    assert found["uint8"].params == expected
    again = histograms("resnet8-int8", SAMPLE, [name], bins=100)[name]
    assert again.to_dict() == found.to_dict()


def test_weights_that_somebody_changed_are_shown_as_they_are(
    files: tuple[Path, Path], tmp_path: Path
) -> None:
    proto = onnx.load(files[0])
    stored = next(t for t in proto.graph.initializer if t.name == "branch_w_q")
    integers = onnx.numpy_helper.to_array(stored).copy()
    integers.flat[0] = 127
    stored.CopyFrom(onnx.numpy_helper.from_array(integers, stored.name))
    onnx.save(proto, tmp_path / "changed.onnx")
    found = histograms(
        tmp_path / "changed.onnx", images_of(PICTURES), ["branch.weight"], float_model=files[1]
    )["branch.weight"]
    assert found["quantized"].counts.sum() == found["int8"].counts.sum() == 16
    assert np.abs(found["quantized"].counts - found["int8"].counts).sum() == 2


def test_clipped_shares_are_those_of_a_comparison(files: tuple[Path, Path]) -> None:
    pictures = images_of(PICTURES)
    table = compare(files[0], pictures, float_model=files[1], threads=1)
    found = histograms(files[0], pictures, float_model=files[1], threads=1)
    clipped = 0
    for tensor in found.tensors:
        one, other = tensor["float"], table[tensor.name]
        assert one.clipped_low_fraction == pytest.approx(other.clipped_low_fraction, abs=1e-12)
        assert one.clipped_high_fraction == pytest.approx(other.clipped_high_fraction, abs=1e-12)
        clipped += (one.above or 0) > 0
    assert clipped >= 2


def test_batches_and_threads_do_not_matter(files: tuple[Path, Path]) -> None:
    pictures = images_of(PICTURES)
    one, other = (
        histograms(files[0], pictures, float_model=files[1], batch=b, threads=t)
        for b, t in ((1, 2), (7, 1))
    )
    assert [t.to_dict() for t in one.tensors] == [t.to_dict() for t in other.tensors]


def test_quantized_values_never_come_near_an_edge() -> None:
    found = histograms("resnet8-int8", SAMPLE.take(1), ["stack1.conv2.out"])["stack1.conv2.out"]
    codes = np.arange(-128, 128, dtype=np.int8)
    values = dequantize(codes, found.params).astype(np.float64)
    distance = np.abs(values[:, None] - found.edges).min(axis=1)
    assert (distance > 0.499 * found.step).all()
    assert found.edges[found.low_bin] == pytest.approx(found.low - found.step / 2)


@pytest.mark.parametrize("bins", [2, 3, 17, 64, 200, 256, 1000])
def test_even_values_give_an_even_histogram(tmp_path: Path, bins: int) -> None:
    """No comb: whatever the number of bins, each holds as many codes as the others."""
    net = TinyQdq((256,))
    path = net.save(tmp_path, net.quantize("x", 0.1, 100))
    codes = np.tile(np.arange(256) - 100, (5, 1))
    pictures = (codes * np.float32(0.1)).astype(np.float32)
    found = histograms(path, images_of(pictures), ["x"], bins=bins)["x"]
    assert set(found["quantized"].counts) == {5 * found.steps_per_bin}
    assert found.bins * found.steps_per_bin == 256


def test_fewer_bins_hold_the_same_counts(files: tuple[Path, Path]) -> None:
    fine = histograms(files[0], images_of(PICTURES), ["add"], float_model=files[1])["add.out"]
    coarse = fine.at_most(40)
    assert coarse.steps_per_bin > fine.steps_per_bin and coarse.bins <= 40
    assert set(coarse.edges[1:-1]) <= set(fine.edges)
    for one, other in zip(fine.series, coarse.series, strict=True):
        assert one.counts.sum() == other.counts.sum()
        assert (one.above, one.rule, one.max) == (other.above, other.rule, other.max)
    direct = histograms(files[0], images_of(PICTURES), ["add"], float_model=files[1], bins=40)
    assert direct["add.out"].to_dict() == coarse.to_dict()
    assert fine.at_most(4096) is fine


def test_the_other_type_has_the_same_range_by_the_usual_rule(
    quantized: Callable[..., Path],
) -> None:
    names = ["stem", "stack1.conv2"]
    unsigned = histograms(quantized(activations="uint8"), SAMPLE, names, float_model="resnet8")
    relu = unsigned["stem.out"]
    assert relu["uint8"].rule == "as the file has it" and relu["uint8"].params == relu.params
    assert relu["int8"].rule == "symmetric over the same range"
    assert relu["int8"].params == QuantParams(np.float32(relu.high / 127), 0, "int8")
    signed = histograms(quantized(activations="int8"), SAMPLE, names, float_model="resnet8")
    both_signs = signed["stack1.conv2.out"]
    assert both_signs["uint8"].rule == "asymmetric over the same range"
    np.testing.assert_array_equal(both_signs["uint8"].counts, both_signs["int8"].counts)


def test_outliers_far_outside_are_counted_exactly(tmp_path: Path) -> None:
    pictures = PICTURES[:, 0, 0].copy()
    pictures[3, 2], pictures[5, 1] = 9e7, -4e36
    quant, plain = (TinyQdq((7,)) for _ in range(2))
    quant.node("Neg", [quant.quantize("x", 0.01, 128)], "y")
    model = quant.save(tmp_path, quant.quantize("y", 0.01, 100))
    plain.node("Neg", ["x"], "y")
    original = plain.save(tmp_path, "y", "float.onnx")
    found = histograms(model, images_of(pictures), float_model=original, batch=2, bins=50)
    for name, floats in (("x", pictures), ("y.out", -pictures)):
        series = found[name]["float"]
        np.testing.assert_array_equal(series.counts, counted(floats, found[name]))
        assert (series.below, series.above) == (
            np.count_nonzero(floats < found[name].low),
            np.count_nonzero(floats > found[name].high),
        )
        assert found[name].bins <= 50
    json.dumps(found.to_dict(), allow_nan=False)


def test_what_is_not_finite_is_counted_apart(files: tuple[Path, Path]) -> None:
    pictures = PICTURES.copy()
    pictures[1, 0, 0, :3] = np.nan, np.inf, -np.inf
    found = histograms(files[0], images_of(pictures), ["x"], float_model=files[1])
    series = found["x"]["float"]
    assert series.not_finite == 3 and series.values == pictures.size
    np.testing.assert_array_equal(
        series.counts, counted(pictures[np.isfinite(pictures)], found["x"])
    )
    assert found["x"]["int8"].not_finite == 3
    json.dumps(found.to_dict(), allow_nan=False)


def per_channel_net(folder: Path) -> tuple[Path, Path]:
    quant, plain = (TinyQdq((3, 5, 7)) for _ in range(2))
    scales = np.array([0.02, 0.05, 0.011], np.float32)
    quant.constant("scale", scales)
    quant.constant("zero", np.array([120, 0, 255], np.uint8))
    quant.node("QuantizeLinear", ["x", "scale", "zero"], "x_q", axis=1)
    quant.node("DequantizeLinear", ["x_q", "scale", "zero"], "x_dq", axis=1)
    quant.node("Relu", ["x_dq"], "y")
    model = quant.save(folder, quant.quantize("y", 0.01, 0))
    plain.node("Relu", ["x"], "y")
    return model, plain.save(folder, "y", "float.onnx")


def test_a_scale_for_each_channel_is_counted_in_the_largest(tmp_path: Path) -> None:
    model, original = per_channel_net(tmp_path)
    found = histograms(model, images_of(PICTURES), ["x"], float_model=original, batch=2)["x"]
    assert found.step == pytest.approx(0.05)
    quantized = capture(model, images_of(PICTURES), ["x"])["x"].values
    check_against_numpy(found, PICTURES, quantized)
    assert found["int8"].params is not None and found["int8"].params.axis == 1


@pytest.mark.parametrize("dtype", [np.int16, np.uint16])
def test_sixteen_bits_share_bins_of_many_steps(tmp_path: Path, dtype: Any) -> None:
    quant, plain = (TinyQdq((3, 5, 7)) for _ in range(2))
    zero = 0 if dtype is np.int16 else 32768
    quant.node("Relu", [quant.quantize("x", 1e-4, zero, dtype)], "y")
    model = quant.save(tmp_path, quant.quantize("y", 0.01, 0))
    plain.node("Relu", ["x"], "y")
    original = plain.save(tmp_path, "y", "float.onnx")
    found = histograms(model, images_of(PICTURES), ["x"], float_model=original)["x"]
    assert found.steps_per_bin >= 128
    check_against_numpy(found, PICTURES, capture(model, images_of(PICTURES), ["x"])["x"].values)


def test_a_qoperator_file_counts_what_it_states(quantized: Callable[..., Path]) -> None:
    qdq, qoperator = (
        histograms(quantized(activations="uint8", format=f), SAMPLE, ["stack2.add.out"],
                   float_model="resnet8")["stack2.add.out"]
        for f in ("qdq", "qoperator")
    )  # fmt: skip
    np.testing.assert_array_equal(qdq["quantized"].counts, qoperator["quantized"].counts)
    np.testing.assert_array_equal(qdq["float"].counts, qoperator["float"].counts)


def test_runtime_counts_are_those_of_the_integers_which_ship(
    quantized: Callable[..., Path],
) -> None:
    path = quantized(activations="uint8")
    found = histograms(path, SAMPLE, ["stack1.add"], float_model="resnet8", execution="runtime")
    shipped = capture(path, SAMPLE, ["stack1.add"], execution="runtime")["stack1.add.out"]
    tensor = found["stack1.add.out"]
    np.testing.assert_array_equal(tensor["quantized"].counts, counted(shipped.values, tensor))
    assert found.execution == "runtime" and found.unseen == ()


@x86_only
def test_what_cannot_be_seen_in_runtime_execution_is_said(quantized: Callable[..., Path]) -> None:
    found = histograms(
        quantized(activations="int8"), SAMPLE, float_model="resnet8", execution="runtime",
        int8_kernels=False,
    )  # fmt: skip
    assert found.unseen
    hidden = found.unseen[0]
    assert "cannot be seen without changing the kernels" in hidden.reason
    with pytest.raises(BadModelError, match=f"no histogram of {hidden.name} .*cannot be seen"):
        found[hidden.name]


def test_without_a_float_model_the_quantizers_are_off(files: tuple[Path, Path]) -> None:
    found = histograms(files[0], images_of(PICTURES), ["conv", "conv.weight"])
    assert found.float_model == "quantized.onnx with every quantizer off"
    for tensor in found.tensors:
        assert [series.name for series in tensor.series][:2] == ["float", "quantized"]
    assert found["conv.out"]["float"].max > 2 * found["conv.out"]["quantized"].max  # clipped
    # Its weights are what the integers stand for.
    assert found["conv.weight"]["float"].min == found["conv.weight"]["quantized"].min


def test_a_model_with_a_fixed_batch_counts_no_filler(
    files: tuple[Path, Path], tmp_path: Path
) -> None:
    for path in files:
        proto = onnx.load(path)
        proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 4
        onnx.save(proto, tmp_path / path.name)
    free = histograms(files[0], images_of(PICTURES), float_model=files[1])
    fixed = histograms(
        tmp_path / files[0].name, images_of(PICTURES), float_model=tmp_path / files[1].name
    )
    assert [t.to_dict() for t in free.tensors] == [t.to_dict() for t in fixed.tensors]


def test_memory_does_not_grow_with_images(files: tuple[Path, Path]) -> None:
    def peak(images: int) -> int:
        pictures = images_of(np.resize(PICTURES, (images, 3, 5, 7)))
        gc.collect()  # so that none happens to come, or not, while it is measured
        tracemalloc.start()
        histograms(files[0], pictures, float_model=files[1], batch=8, threads=1)
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    peak(16)
    # Python's bookkeeping of batches grows a little; activations would be many times the pictures.
    added = (2400 - 300) * PICTURES[0].nbytes
    assert peak(2400) - peak(300) < added / 2


@given(
    scale=st.floats(2**-20, 2**13, width=32),
    low=st.integers(-300, 0),
    steps=st.lists(st.integers(-2000, 2000), min_size=1, max_size=20),
    part=st.sampled_from([0.0, 0.25, 0.5, -0.5, 0.4999999, 0.5000001]),
)
def test_edges_part_values_as_rounding_does(
    scale: float, low: int, steps: list[int], part: float
) -> None:
    grid = Grid(np.float32(scale), low, low + 255)
    values = ((np.array(steps) + part) * np.float64(grid.step)).astype(np.float32)
    found = count_values(values, grid)
    assert found.width == 1
    places = low + np.arange(found.first, found.end + 1)
    expected, _ = np.histogram(values.astype(np.float64), edges_between(grid, places))
    np.testing.assert_array_equal(found.counts, expected)
    assert found.counts.sum() == len(values)


def test_the_result_says_what_it_was_made_of(files: tuple[Path, Path]) -> None:
    found = histograms(files[0], images_of(PICTURES), float_model=files[1])
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert plain["schema_version"] == 1 and plain["images"] == 7
    assert plain["digest"] and plain["float_digest"] and plain["data_digest"]
    first = plain["tensors"][0]
    assert len(first["edges"]) == len(first["series"][0]["counts"]) + 1
    assert "onnxruntime" in plain["provenance"]


def test_bad_questions_are_answered_in_one_line(files: tuple[Path, Path], tmp_path: Path) -> None:
    pictures = images_of(PICTURES)
    with pytest.raises(BadModelError, match=r"No quantized tensor 'konv' in quantized.onnx; close"):
        histograms(files[0], pictures, ["konv"], float_model=files[1])
    with pytest.raises(BadDataError, match="made up holds no images; give at least one"):
        histograms(files[0], images_of(PICTURES[:0]), float_model=files[1])
    with pytest.raises(BadConfigError, match="at least 2 bins, not 1"):
        histograms(files[0], pictures, float_model=files[1], bins=1)
    with pytest.raises(BadModelError, match=r"quantized.onnx is quantized .*; give the float"):
        histograms(files[0], pictures, float_model=files[0])
    with pytest.raises(BadConfigError, match=r"stem.bias has 32 bits, far more steps than bins"):
        histograms("resnet8-int8", SAMPLE, ["stem.bias"])
    with pytest.raises(BadModelError, match=r"There is no histogram of head.out of .*there are x"):
        histograms(files[0], pictures, ["x"], float_model=files[1])["head.out"]


def test_it_can_be_stopped(files: tuple[Path, Path]) -> None:
    def stop(what: str, done: int, total: int) -> None:
        assert (what, total) == ("Counting", 7)
        raise StoppedError("enough")

    with pytest.raises(StoppedError):
        histograms(files[0], images_of(PICTURES), float_model=files[1], progress=stop)


@pytest.mark.slow
def test_counts_of_a_program_are_numpys(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("torchao")
    from quantscope.model import bundled_models
    from quantscope.quantize import PtqConfig, quantize_torch

    path = tmp_path / "program.pt2"
    config = PtqConfig(framework="torch", calibration_images=16)
    quantize_torch(bundled_models()["resnet8-torch"], path, config)
    names = ["stem.relu.out", "pool.out", "stem.weight"]
    found = histograms(path, SAMPLE, names, batch=4)
    assert found.float_model == "resnet8.safetensors"
    shipped = capture(path, SAMPLE, names[:2])
    for name in names[:2]:
        tensor = found[name]
        values = shipped[name].values
        np.testing.assert_array_equal(tensor["quantized"].counts, counted(values, tensor))
        assert tensor["float"].values == values.size
    # The same network as ONNX; its float32 sums may round a value into the next bin.
    original = next(iter(capture("resnet8", SAMPLE, ["stem.relu"]).tensors.values())).values
    moved = np.abs(
        found["stem.relu.out"]["float"].counts
        - counted(
            np.clip(original, 0, found["stem.relu.out"].edges[-1] - 1e-3), found["stem.relu.out"]
        )
    )
    assert moved.sum() < 1e-3 * original.size
    assert [series.name for series in found["stem.weight"].series] == [
        *("float", "quantized", "int8", "uint8")
    ]
    with pytest.raises(BadConfigError, match=r"program.pt2 .*int8 kernels are a setting"):
        histograms(path, SAMPLE, names, int8_kernels=True)
