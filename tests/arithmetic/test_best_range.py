"""The cost of a range from a histogram, against quantizing every value."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from quantscope.arithmetic import (
    QuantParams,
    Spread,
    best_params,
    dequantize,
    params_from_range,
    quantize,
    range_error,
    range_errors,
    with_bits,
)
from quantscope.arithmetic.best_range import WIDTHS
from quantscope.errors import BadConfigError

Values = NDArray[np.float32]

RANDOM = np.random.default_rng(7)
NORMAL = RANDOM.normal(0.4, 1.3, 60_000).astype(np.float32)
LONG_TAILED = RANDOM.standard_t(3, 60_000).astype(np.float32)
RELU = np.maximum(NORMAL, 0)

PARAMS = [
    params_from_range(-4, 5, "int8"),
    params_from_range(-4, 5, "uint8"),
    params_from_range(-5, 5, "int8", symmetric=True),
    with_bits(params_from_range(-4, 5, "uint8"), 4),
    with_bits(params_from_range(-5, 5, "int8", symmetric=True), 3),
    with_bits(params_from_range(-4, 5, "int8"), 2),
    params_from_range(-4, 5, "int16"),
    params_from_range(0, 1.5, "uint4"),
]


def brute_force(values: Values, params: QuantParams) -> tuple[float, float]:
    """Quantize every value; the squares of those that round to an integer in use, and the rest."""
    wide = values.astype(np.float64)
    error = (dequantize(quantize(values, params), params).astype(np.float64) - wide) ** 2
    low, high = params.representable_range
    half = float(params.step) / 2
    inside = (wide >= low - half) & (wide <= high + half)
    return float(error[inside].sum() / values.size), float(error[~inside].sum() / values.size)


def binned(values: Values, bins: int = 2048) -> Spread:
    counts, edges = np.histogram(values[values != 0], bins, range=(values.min(), values.max()))
    zeros = int((values == 0).sum())
    counts[min(np.searchsorted(edges, 0.0, side="right") - 1, bins - 1)] += zeros
    return Spread.of_bins(edges, counts, lowest=values.min(), highest=values.max(), zeros=zeros)


@pytest.mark.parametrize("params", PARAMS, ids=lambda p: f"{p.type_text}")
@pytest.mark.parametrize("values", [NORMAL, LONG_TAILED, RELU], ids=["normal", "tails", "relu"])
def test_a_histogram_tells_what_quantizing_every_value_costs(
    values: Values, params: QuantParams
) -> None:
    found = range_error(binned(values), params)
    rounding, clipping = brute_force(values, params)
    assert found.rounding == pytest.approx(rounding, rel=0.02)
    assert found.clipping == pytest.approx(clipping, rel=0.02, abs=1e-3 * (rounding + clipping))


@given(
    values=st.lists(st.floats(-50, 50, width=32), min_size=1, max_size=60),
    low=st.floats(-20, 0),
    high=st.floats(0.01, 20),
    symmetric=st.booleans(),
    bits=st.integers(2, 8),
)
@settings(deadline=None)
def test_values_as_they_are_cost_exactly_what_quantizing_them_does(
    values: list[float], low: float, high: float, symmetric: bool, bits: int
) -> None:
    params = with_bits(params_from_range(low, high, "int8", symmetric=symmetric), bits)
    given_values = np.array(values, np.float32)
    found = range_error(Spread.of_values(given_values), params)
    assert found.total == pytest.approx(sum(brute_force(given_values, params)), rel=1e-3, abs=1e-9)


def test_bins_as_wide_as_a_step_still_show_its_rounding() -> None:
    # Histograms are counted in bins around each step: their middles alone would show no error.
    params = params_from_range(-4, 5, "int8")
    step = float(params.step)
    edges = (np.arange(-700, 700) - 0.5) * step
    counts, _ = np.histogram(NORMAL, edges)
    found = range_error(Spread.of_bins(edges, counts), params)
    assert found.rounding == pytest.approx(brute_force(NORMAL, params)[0], rel=0.02)
    assert found.rounding == pytest.approx(step**2 / 12, rel=0.05)


def test_zeros_are_exact_and_not_spread_over_their_bin() -> None:
    params = params_from_range(0, 8, "uint8")
    counts, edges = np.histogram([0.0] * 90 + [1.0] * 10, 4, range=(0, 2))
    spread = Spread.of_bins(edges, counts, lowest=0.0, highest=1.0, zeros=90)
    assert spread.values == 100
    near_zero = Spread.of_bins(edges, counts, lowest=0.0, highest=1.0)
    assert range_error(spread, params).total < 0.2 * range_error(near_zero, params).total


@pytest.mark.parametrize("params", PARAMS, ids=lambda p: f"{p.type_text}")
def test_no_range_of_the_grid_is_better_than_the_best_by_brute_force(params: QuantParams) -> None:
    values = LONG_TAILED[:6000]
    found = range_errors(binned(values), params)
    symmetric = params.qmin < 0 and not params.zero_point.any()
    top = float(np.abs(values).max()) if symmetric else None
    costs = []
    for share in WIDTHS:
        low, high = (-top, top) if top else (values.min(), values.max())
        tried = params_from_range(
            low * share, high * share, params.dtype, symmetric=symmetric, ends=params.ends
        )
        costs.append(sum(brute_force(values, tried)))
    assert sum(brute_force(values, found.best.params)) <= min(costs) * 1.03
    assert found.best.total <= found.today.total
    assert found.best.params.dtype == params.dtype and found.best.params.ends == params.ends


def test_fewer_bits_want_a_narrower_range() -> None:
    spread = Spread.of_values(LONG_TAILED)
    widths = [
        range_errors(spread, with_bits(PARAMS[2], bits)).best.width for bits in (2, 3, 4, 6, 8)
    ]
    assert widths == sorted(widths)


def test_two_ends_move_apart_where_one_of_them_is_an_outlier() -> None:
    values = np.append(np.abs(NORMAL), -30).astype(np.float32)
    params = with_bits(params_from_range(-30, 6, "int8"), 4)
    found = range_errors(Spread.of_values(values), params)
    together = min(found.candidates, key=lambda one: one.total)
    assert found.best.total < 0.5 * together.total
    assert found.best.low > -1 and found.best.high > 3
    assert found.gain_db > 10


def test_each_channel_gets_a_range_of_its_own() -> None:
    weights = RANDOM.normal(0, [[0.1], [1.0], [5.0]], (3, 500)).astype(np.float32)
    params = with_bits(
        params_from_range(weights.min(1), weights.max(1), "int8", symmetric=True, axis=0), 4
    )
    best = best_params(weights, params)
    assert best.axis == 0 and best.ends == params.ends and best.bits == 4
    assert (best.scale < params.scale).all() and not best.zero_point.any()
    for channel in range(3):
        now, then = (
            ((dequantize(quantize(weights, p), p) - weights)[channel] ** 2).mean()
            for p in (best, params)
        )
        assert now < then


def test_zeros_alone_keep_their_range() -> None:
    found = range_errors(Spread.of_values(np.zeros(9)), PARAMS[0])
    assert found.best is found.today and found.best.total == 0 and found.gain_db == 0


def test_what_has_no_single_range_is_refused() -> None:
    spread = Spread.of_values(NORMAL)
    with pytest.raises(BadConfigError, match="float8e4m3fn has no range to choose"):
        range_error(spread, QuantParams(0.1, dtype="float8e4m3fn"))
    with pytest.raises(BadConfigError, match="2 scales have as many ranges"):
        range_error(spread, QuantParams([0.1, 0.2], dtype="int8", axis=0))
    with pytest.raises(BadConfigError, match="no finite value"):
        range_errors(Spread.of_values([np.nan]), PARAMS[0])
