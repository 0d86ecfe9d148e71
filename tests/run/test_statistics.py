"""The statistics against SciPy, and against simulation where there is no oracle."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from quantscope.run.statistics import Agreement, delta_interval, mcnemar_exact, wilson_interval


@pytest.mark.parametrize(("correct", "total"), [(0, 10), (10, 10), (1, 3), (8719, 10_000)])
def test_wilson_interval_is_scipys(correct: int, total: int) -> None:
    oracle = stats.binomtest(correct, total).proportion_ci(method="wilson")
    assert wilson_interval(correct, total) == pytest.approx((oracle.low, oracle.high), abs=1e-12)


@given(st.integers(0, 2000), st.integers(0, 2000))
def test_mcnemar_is_the_binomial_test_of_the_flips(first: int, second: int) -> None:
    flips = first + second
    oracle = stats.binomtest(first, flips, 0.5).pvalue if flips else 1.0
    assert mcnemar_exact(first, second) == pytest.approx(oracle, rel=1e-9, abs=1e-300)


def test_mcnemar_survives_more_flips_than_a_float_can_count() -> None:
    assert mcnemar_exact(5000, 5000) == 1.0
    assert mcnemar_exact(0, 5000) == 0.0


def test_newcombe_interval_gives_the_published_example() -> None:
    # Newcombe 1998, table II, first row: a=36, b=12, c=2, d=0 of 50; method 10.
    low, high = delta_interval(Agreement(both=36, only_first=12, only_second=2, neither=0))
    assert (low, high) == pytest.approx((0.0569, 0.3404), abs=5e-5)


def test_delta_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(1)
    shares = np.array([0.84, 0.05, 0.03, 0.08])
    counts = rng.multinomial(1000, shares, size=2000)
    intervals = np.array([delta_interval(Agreement(*map(int, row))) for row in counts])
    covered = ((intervals[:, 0] <= 0.02) & (intervals[:, 1] >= 0.02)).mean()
    assert 0.93 < covered < 0.97


def test_delta_interval_of_identical_classifiers_holds_zero() -> None:
    low, high = delta_interval(Agreement(both=870, only_first=0, only_second=0, neither=130))
    assert low <= 0 <= high
    assert high - low < 0.01


@given(*[st.integers(0, 300)] * 4)
def test_delta_interval_turns_with_the_order(both: int, one: int, two: int, none: int) -> None:
    if both + one + two + none == 0:
        return
    low, high = delta_interval(Agreement(both, one, two, none))
    other_low, other_high = delta_interval(Agreement(both, two, one, none))
    assert (low, high) == pytest.approx((-other_high, -other_low), abs=1e-12)
