"""A mean over samples and how sure it is."""

import numpy as np
import pytest
from scipy import stats

from quantscope.run import estimate_mean


def test_numbers_have_students_interval_and_test() -> None:
    values = np.random.default_rng(1).normal(0.3, 1, 40)
    found = estimate_mean(values)
    assert found is not None and found.interval_95 is not None
    test = stats.ttest_1samp(values, 0)
    assert found.value == pytest.approx(values.mean())
    assert found.interval_95 == pytest.approx(tuple(test.confidence_interval()))
    assert found.p_value == pytest.approx(test.pvalue)


def test_samples_without_a_number_are_left_out() -> None:
    found = estimate_mean(np.array([1.0, np.nan, 3.0]))
    assert found is not None and found.value == 2
    assert estimate_mean(np.array([np.nan])) is None


def test_where_no_sample_changed_counts_stay_uncertain_and_numbers_do_not() -> None:
    none = np.zeros(100)
    counted, measured = estimate_mean(none, counts=True), estimate_mean(none)
    assert counted is not None and counted.interval_95 is not None
    low, high = counted.interval_95
    assert low == -high and 0.03 < high < 0.06  # about three of a hundred could have
    assert counted.p_value == 1
    assert measured is not None and measured.interval_95 == (0, 0)


def test_counts_are_tested_by_their_signs() -> None:
    values = np.array([1.0] * 9 + [-1.0] + [0.0] * 90)
    found = estimate_mean(values, counts=True)
    assert found is not None and found.interval_95 is not None
    assert found.p_value == pytest.approx(stats.binomtest(1, 10).pvalue)
    assert found.interval_95[0] < 0.08 < found.interval_95[1]


def test_the_interval_of_counts_covers_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(400):
        values = rng.choice([-1.0, 0.0, 1.0], 200, p=[0.02, 0.92, 0.06])
        found = estimate_mean(values, counts=True)
        assert found is not None and found.interval_95 is not None
        covered += found.interval_95[0] <= 0.04 <= found.interval_95[1]
    assert 365 <= covered <= 400


def test_a_sample_that_changes_by_two_is_one_sample() -> None:
    values = np.array([2.0] * 4 + [-1.0] + [0.0] * 95)
    found = estimate_mean(values, counts=True)
    assert found is not None and found.value == pytest.approx(0.07)
    assert found.p_value == pytest.approx(stats.binomtest(1, 5).pvalue)


def test_the_interval_covers_where_samples_change_by_two() -> None:
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(400):
        values = rng.choice([-2.0, 0.0, 2.0], 200, p=[0.03, 0.91, 0.06])
        found = estimate_mean(values, counts=True)
        assert found is not None and found.interval_95 is not None
        covered += found.interval_95[0] <= 0.06 <= found.interval_95[1]
    assert 365 <= covered <= 400
