"""What ranges cost, found from counts, against quantizing every value with every pair of ends."""

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from comparison_nets import residual
from tiny_qdq import TinyQdq, images_of

from quantscope.arithmetic import QuantParams, dequantize, params_from_range, quantize
from quantscope.errors import BadConfigError, BadModelError
from quantscope.run import BestRanges, best_ranges, capture

Array = np.ndarray[Any, Any]

PICTURES = images_of(np.random.default_rng(2).normal(0, 1, (40, 3, 5, 7)).astype(np.float32))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder, net = tmp_path_factory.mktemp("net"), residual()
    return net.save_quantized(folder), net.save_float(folder)


@pytest.fixture(scope="module")
def found(files: tuple[Path, Path]) -> BestRanges:
    return best_ranges(files[0], PICTURES, float_model=files[1], batch=7, threads=2)


def float_values(files: tuple[Path, Path], tensor: str) -> Array:
    if tensor == "x":
        return np.asarray(PICTURES.images)
    (only,) = capture(files[1], PICTURES, [tensor.removesuffix(".out")], threads=1).tensors.values()
    return only.values


def squared_error(values: Array, params: QuantParams) -> float:
    real = dequantize(quantize(values, params), params).astype(np.float64)
    return float(((real - values) ** 2).mean())


def brute_force(values: Array, params: QuantParams) -> float:
    """Try every pair of 40 low and 40 high ends on every value; give the least error."""
    shares = np.linspace(0.05, 1.0, 40)
    low, high = min(0.0, float(values.min())), max(0.0, float(values.max()))
    ends = itertools.product(low * shares if low else [0.0], high * shares if high else [0.0])
    return min(
        squared_error(values, params_from_range(a, b, params.dtype, ends=params.ends))
        for a, b in ends
    )


@pytest.mark.parametrize("bits", [8, 4, 2])
@pytest.mark.parametrize("tensor", ["x", "conv.out", "branch.out"])
def test_no_pair_of_ends_costs_less_than_the_best_range(
    found: BestRanges, files: tuple[Path, Path], tensor: str, bits: int
) -> None:
    values, best = float_values(files, tensor), found[tensor].at_bits(bits)
    assert best.params.bits == bits
    told = squared_error(values, best.best.params)
    assert told <= 1.03 * brute_force(values, best.params)
    assert told == pytest.approx(best.best.total, rel=0.05)


def test_the_curve_says_what_todays_range_and_each_candidate_cost(
    found: BestRanges, files: tuple[Path, Path]
) -> None:
    for each in found.ranges:
        values = float_values(files, each.tensor)
        assert (each.lowest, each.highest) == (values.min(), values.max())
        assert each.spread.values == values.size
        if values.size < 1000:  # too few to lie evenly in any bin
            continue
        assert each.today.total == pytest.approx(squared_error(values, each.params), rel=0.05)
        for candidate in each.errors.candidates[30::30]:
            assert candidate.total == candidate.rounding + candidate.clipping
            truth = squared_error(values, candidate.params)
            assert candidate.total == pytest.approx(truth, rel=0.05)


def test_the_net_has_a_range_that_clips_too_much_and_the_best_one_is_wider(
    found: BestRanges,
) -> None:
    conv = found["conv.out"]  # its quantizer was made small enough to clip
    assert conv.today.clipping > conv.today.rounding
    assert conv.best.width > conv.today.width
    assert conv.gain_db > 1
    json.dumps(found.to_dict(), allow_nan=False)


def test_an_asymmetric_range_stays_so_where_its_zero_point_rounds_to_0(found: BestRanges) -> None:
    narrow = found["head.out"].at_bits(2)
    assert found["head.out"].params.zero_point != 0 and narrow.params.zero_point == 0
    assert narrow.best.params.zero_point != 0  # nearly all of its values are positive


def test_batches_and_threads_change_nothing(files: tuple[Path, Path], found: BestRanges) -> None:
    whole = best_ranges(files[0], PICTURES, float_model=files[1], threads=1)
    assert [each.to_dict() for each in whole.ranges] == [each.to_dict() for each in found.ranges]


def test_a_network_without_its_float_original_is_counted_with_every_quantizer_off(
    tmp_path: Path,
) -> None:
    net = TinyQdq((3, 5, 7))
    made = net.node("Mul", [net.quantize("x", 0.01, 100), "x"], "y")
    (only,) = best_ranges(net.save(tmp_path, made), PICTURES).ranges
    assert only.tensor == "x"
    assert only.lowest == pytest.approx(PICTURES.images.min())


def test_what_is_stored_has_no_range_to_find_from_samples(files: tuple[Path, Path]) -> None:
    found = best_ranges(files[0], PICTURES, ["conv.weight", "head"], float_model=files[1])
    assert [each.tensor for each in found.ranges] == ["head.out"]
    with pytest.raises(BadModelError, match=r"of conv.weight .*: It is stored"):
        found["conv.weight"]
    with pytest.raises(BadConfigError, match="1 bits are none of the widths"):
        found["head.out"].at_bits(1)
