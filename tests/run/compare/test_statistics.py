"""How images come in batches is nowhere to be seen in a comparison."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from comparison_nets import Residual, residual
from paired_nets import Quantize, both
from tiny_qdq import TinyQdq, images_of

from quantscope.model import load_onnx, pair_networks, read_onnx
from quantscope.run.compare import scores, statistics
from quantscope.run.compare.compare import compare
from quantscope.run.compare.results import Comparison
from quantscope.run.compare.statistics import RunningSums
from quantscope.run.onnx.compare.graph import Probe

Array = np.ndarray[Any, Any]

FULL = (
    *("quantized_signal", "float_sum", "quantized_sum", "float_min", "float_max"),
    *("quantized_min", "quantized_max", "not_zero", "clipped_high"),
)
SOURCES = ("inherited", "weights", "rounding", "clipping")
RNG = np.random.default_rng(5)
MANY = RNG.normal(0, 1, (600, 3, 5, 7)).astype(np.float32)


@pytest.fixture(scope="module")
def net() -> Residual:
    return residual()


def compared(net: Residual, folder: Path, pictures: Array, batch: int) -> Comparison:
    model, original = net.save_quantized(folder), net.save_float(folder)
    return compare(model, images_of(pictures), float_model=original, batch=batch)


@pytest.mark.parametrize("end", ["clipped_low_fraction", "clipped_high_fraction"])
def test_what_is_clipped_in_one_batch_alone_is_counted(
    end: str, net: Residual, tmp_path: Path
) -> None:
    pictures = 0.05 * MANY[:9]
    pictures[5] = 8 * np.abs(MANY[5]) * (-1 if "low" in end else 1)
    apart, together = (compared(net, tmp_path, pictures, batch) for batch in (1, 9))
    cut = pictures[5] < -3.6 if "low" in end else pictures[5] > 4.05
    assert getattr(apart["x"], end) == pytest.approx(cut.sum() / pictures.size)
    for one, other in zip(apart.activations, together.activations, strict=True):
        for fraction in ("clipped_low_fraction", "clipped_high_fraction"):
            assert getattr(one, fraction) == pytest.approx(getattr(other, fraction), abs=1e-12)
        for source in SOURCES if one.sources else ():
            shares = [getattr(each.sources, source) for each in (one, other)]
            assert shares[0] == pytest.approx(shares[1], abs=1e-5)
    assert any(abs(t.sources.clipping) > 0.1 for t in apart.activations if t.sources)


@pytest.fixture(params=[1, 5_000, 1 << 30])
def bytes_at_once(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each batch added up at once, some of them together, or all at the end."""
    for module in (scores, statistics):
        monkeypatch.setattr(module, "BYTES_AT_ONCE", request.param)


@pytest.mark.usefixtures("bytes_at_once")
def test_hundreds_of_batches_are_added_up_as_a_few(net: Residual, tmp_path: Path) -> None:
    many, few = (compared(net, tmp_path, MANY, batch) for batch in (7, 200))
    for one, other in zip(many.activations, few.activations, strict=True):
        assert one.sqnr_db == pytest.approx(other.sqnr_db, abs=1e-5)
        for values in ("float_values", "quantized_values"):
            spreads = [asdict(getattr(each, values)) for each in (one, other)]
            assert spreads[0] == pytest.approx(spreads[1], rel=1e-5, abs=1e-6)
    assert many.output is not None and few.output is not None
    assert list(many.output.changed) == list(few.output.changed)
    assert many.output.kl_nats == pytest.approx(few.output.kl_nats)


@pytest.mark.usefixtures("bytes_at_once")
@pytest.mark.parametrize("batch", [7, 200])
def test_what_is_not_finite_is_found_among_hundreds(
    batch: int, net: Residual, tmp_path: Path
) -> None:
    pictures = MANY.copy()
    pictures[[530, 531, 599], 1, 2, 3] = np.nan
    found = compared(net, tmp_path, pictures, batch)
    assert found.not_finite_from == (
        "x: NaN or infinite in the float network for 3 of 600 images, first image 530"
    )


def test_a_filled_up_batch_leaves_every_number_as_it_is(net: Residual, tmp_path: Path) -> None:
    free = compared(net, tmp_path, MANY[:7], 7)
    model, original = net.save_quantized(tmp_path), net.save_float(tmp_path)
    for path in (model, original):
        proto = onnx.load(path)
        proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 4
        onnx.save(proto, path)
    fixed = compare(model, images_of(MANY[:7]), float_model=original)
    for one, other in zip(free.activations, fixed.activations, strict=True):
        assert one.clipped_high_fraction == pytest.approx(other.clipped_high_fraction, abs=1e-12)
        assert one.rmse_steps == pytest.approx(other.rmse_steps, rel=1e-4)
        assert one.float_values is not None and other.float_values is not None
        assert one.float_values.mean == pytest.approx(other.float_values.mean, rel=1e-4)
        assert one.float_values.std == pytest.approx(other.float_values.std, rel=1e-4)


def as_channels(net: TinyQdq, quantize: Quantize) -> str:
    """Between its layers the images of a batch are channels."""
    net.constant("whole", np.array([1, -1, 4, 5], np.int64))
    net.constant("apart", np.array([-1, 60], np.int64))
    net.node("Reshape", [quantize("x", 0.05, 128), "whole"], "r")
    net.node("Exp", ["r"], "s")
    net.node("Reshape", [quantize("s", 0.05, 0), "apart"], "y")
    return quantize("y", 0.05, 0)


@pytest.mark.parametrize("constant", [0.0, 0.3, 3.1])
def test_a_constant_has_no_deviation(constant: float, net: Residual, tmp_path: Path) -> None:
    found = compared(net, tmp_path, np.full_like(MANY[:11], constant), 4)["x"]
    assert found.float_values is not None and found.quantized_values is not None
    for values in (found.float_values, found.quantized_values):
        assert values.min == values.mean == values.max and values.std == 0
    assert found.float_values.mean == np.float32(constant)
    for channel in found.channels:
        assert channel.float_std == channel.quantized_std == 0
        assert channel.float_mean == np.float32(constant)


@pytest.mark.parametrize("offset", [0.0, 1000.0, -3.5e4])
def test_mean_and_deviation_far_from_zero_are_those_of_float64(
    offset: float, net: Residual, tmp_path: Path
) -> None:
    """Channels lie apart, and images of one too."""
    shifts = np.array([1, 1.5, -2]).reshape(1, 3, 1, 1) * offset
    drift = np.linspace(0, 3, 60).reshape(60, 1, 1, 1)
    pictures = (RNG.normal(0, 1, (60, 3, 5, 7)) + shifts + drift).astype(np.float32)
    found = compared(net, tmp_path, pictures, 4)["x"]
    exact = pictures.astype(np.float64)
    assert found.float_values is not None
    whole = found.float_values.mean, found.float_values.std
    assert whole == pytest.approx((exact.mean(), exact.std()), rel=1e-6)
    for channel in found.channels:
        values = exact[:, channel.channel]
        assert channel.float_mean == pytest.approx(values.mean(), rel=1e-6)
        assert channel.float_std == pytest.approx(values.std(), rel=1e-6)
        energy = ((values - channel.quantized_mean) ** 2).sum() if channel.quantized_std == 0 else 0
        if energy:  # all are clipped to one value
            expected = 10 * np.log10((values**2).sum() / energy)
            assert channel.sqnr_db == pytest.approx(expected, abs=1e-4)


def test_what_is_not_finite_is_found_where_nothing_else_is_measured(tmp_path: Path) -> None:
    pictures = RNG.normal(0, 1, (10, 3, 4, 5)).astype(np.float32)
    pictures[[4, 9], 0, 0, 0] = 100
    original, model = both(tmp_path, as_channels)
    found = compare(model, images_of(pictures), float_model=original, batch=3)
    assert {tensor.name: tensor.reason for tensor in found.unseen} == {
        "s.out": "the axis of its channels has another length in other batches"
    }
    assert found.not_finite_from is not None
    assert found.not_finite_from.startswith("s.out: NaN or infinite in the float network for 2 of")


def test_scores_of_another_number_for_each_batch_are_no_classes(tmp_path: Path) -> None:
    def products(net: TinyQdq, quantize: Quantize) -> str:
        net.node("Flatten", [quantize("x", 0.03, 128)], "f")
        value = quantize("f", 0.03, 128)
        net.node("Transpose", [value], "t", perm=[1, 0])
        return net.node("MatMul", [value, "t"], "y")

    pictures = RNG.normal(0, 1, (10, 3, 4, 5)).astype(np.float32)
    original, model = both(tmp_path, products)
    found = compare(model, images_of(pictures), float_model=original, batch=7)
    assert found.output is None
    assert found.no_output == "the output has not the same number of classes for every batch"


def test_rounding_is_what_the_other_sources_leave(net: Residual, tmp_path: Path) -> None:
    network = read_onnx(load_onnx(net.save_quantized(tmp_path)))
    tensor = network.tensor("conv.out")
    float_network = read_onnx(load_onnx(net.save_float(tmp_path)))
    pairs = {p.name: p for p in pair_networks(float_network, network).pairs}
    shares = {"inherited": 0.5, "weights": -0.2, "clipping": 0.3, "kernel": 0.15}
    rows = dict.fromkeys(FULL, 0.0) | {"signal": 8.0, "error": 2.0, "local_error": 1.0}
    rows |= {name: 2 * share for name, share in shares.items()}
    probe = Probe(pairs["conv.out"], tensor, tuple(rows), ("x",), None)
    sums_so_far = RunningSums(probe)
    sums_so_far.add(np.array([list(rows.values())], np.float32), 10, 1, 1)
    sources = sums_so_far.finish().sources
    assert sources is not None
    assert sources.rounding == pytest.approx(1 - sum(shares.values()))
    assert sources.kernel == pytest.approx(0.15)
    assert sources.total == pytest.approx(1)
