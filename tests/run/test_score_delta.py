"""Two scores of the same samples: against SciPy, whatever was measured."""

import numpy as np
import pytest
from scipy import special, stats

from quantscope.errors import BadDataError
from quantscope.run import Score, ScoreDelta
from quantscope.run.statistics import Agreement, delta_interval, incomplete_beta, paired_t_p

RNG = np.random.default_rng(6)
COUNT = 40
ROWS = np.arange(100, 100 + COUNT)
ONE = RNG.normal(30, 4, COUNT)
TWO = ONE + RNG.normal(0.4, 1, COUNT)


def score(values: np.ndarray, *, higher: bool = True, unit: str = "dB") -> Score:
    return Score("SQNR of the outputs", unit, higher, np.asarray(values, float))


def test_other_numbers_get_a_paired_t_test_as_scipys() -> None:
    found = ScoreDelta(score(ONE), score(TWO), ROWS)
    oracle = stats.ttest_rel(ONE, TWO)
    low, high = oracle.confidence_interval(0.95)
    assert found.delta == pytest.approx(ONE.mean() - TWO.mean())
    assert found.p_value == pytest.approx(oracle.pvalue, rel=1e-9)
    assert found.interval_95 == pytest.approx((low, high), rel=1e-9)
    assert (found.interval_of, found.p_of) == ("paired t", "paired t-test")
    assert set(found.better) == set(ROWS[ONE > TWO]) and set(found.worse) == set(ROWS[ONE < TWO])
    assert found.most_worse[0][0] == ROWS[np.argmin(ONE - TWO)]
    assert found.most_worse[0][1] == (ONE - TWO).min()


def test_right_or_wrong_gets_mcnemar_and_newcombe() -> None:
    one, two = RNG.random(COUNT) < 0.8, RNG.random(COUNT) < 0.6
    found = ScoreDelta(score(one, unit="share"), score(two, unit="share"), ROWS)
    flips = int((one & ~two).sum()), int((two & ~one).sum())
    assert found.p_value == pytest.approx(stats.binomtest(flips[0], sum(flips)).pvalue)
    counts = Agreement(int((one & two).sum()), *flips, int((~one & ~two).sum()))
    assert found.interval_95 == delta_interval(counts)
    assert (found.interval_of, found.p_of) == ("Newcombe, paired", "McNemar exact")
    assert list(found.better) == list(ROWS[one & ~two])


def test_where_lower_is_better_better_is_lower() -> None:
    found = ScoreDelta(score(ONE, higher=False), score(TWO, higher=False), ROWS)
    assert set(found.better) == set(ROWS[ONE < TWO])
    assert found.delta == pytest.approx(ONE.mean() - TWO.mean())


def test_samples_without_a_number_in_both_are_left_out() -> None:
    one, two = ONE.copy(), TWO.copy()
    one[:3], two[5:9] = np.nan, np.nan
    known = ~np.isnan(one) & ~np.isnan(two)
    found = ScoreDelta(score(one), score(two), ROWS)
    assert found.samples == known.sum()
    assert found.p_value == pytest.approx(stats.ttest_rel(one[known], two[known]).pvalue)
    nothing = ScoreDelta(score(np.full(COUNT, np.nan)), score(TWO), ROWS)
    assert (nothing.samples, nothing.interval_95, nothing.p_value) == (0, None, None)
    assert nothing.to_dict()["delta"] is None


def test_two_measures_are_not_compared() -> None:
    other = Score("top-1 accuracy", "share", True, np.ones(COUNT))
    with pytest.raises(BadDataError, match="One was measured by SQNR of the outputs, the other by"):
        ScoreDelta(score(ONE), other, ROWS)


def test_no_difference_at_all_is_chance() -> None:
    assert paired_t_p(np.zeros(5)) == 1.0
    assert paired_t_p(np.full(5, 0.5)) == 0.0
    assert paired_t_p(np.ones(1)) is None


@pytest.mark.parametrize("a", [0.5, 2, 20, 5000])
@pytest.mark.parametrize("x", [1e-9, 0.02, 0.5, 0.97, 0.9999])
def test_the_incomplete_beta_function_is_scipys(x: float, a: float) -> None:
    assert incomplete_beta(x, a, 0.5) == pytest.approx(special.betainc(a, 0.5, x), rel=1e-8)
