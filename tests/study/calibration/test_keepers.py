"""What is kept of a tensor does not depend on how its samples came in batches."""

import numpy as np
import pytest

from quantscope.study.calibration.keepers import OverflowKeeper, RangeKeeper

RNG = np.random.default_rng(8)
LOW = RNG.normal(-1, 1, (50, 3))
HIGH = LOW + RNG.uniform(0, 2, LOW.shape)
LOW[13, 1] = np.nan
HIGH[31, 2] = np.inf


@pytest.mark.parametrize("size", [1, 3, 16, 50])
def test_batches_of_any_size_keep_the_same(size: int) -> None:
    whole, parts = RangeKeeper(), RangeKeeper()
    over, over_parts = OverflowKeeper(-1.0, 1.0), OverflowKeeper(-1.0, 1.0)
    whole.add(LOW, HIGH, 0)
    over.add(LOW, HIGH, 0)
    for start in range(0, 50, size):
        rows = slice(start, start + size)
        parts.add(LOW[rows], HIGH[rows], start)
        over_parts.add(LOW[rows], HIGH[rows], start)
    assert parts.ends == whole.ends
    assert parts.points(50) == whole.points(50)
    assert [samples for samples, _, _ in whole.points(50)] == [1, 2, 4, 8, 16, 32, 50]
    indices = np.arange(100, 150)
    assert over_parts.finish(indices) == over.finish(indices)


def test_samples_that_are_not_finite_count_for_nothing() -> None:
    kept = OverflowKeeper(0.0, 1.0)
    kept.add(np.array([[np.nan], [0.5]]), np.array([[2.0], [0.5]]), 0)
    found = kept.finish(np.arange(2))
    assert found is not None and found.samples == 1 and found.beyond == 0 and found.farthest is None


def test_a_range_without_width_has_no_shares() -> None:
    kept = OverflowKeeper(1.0, 1.0)
    kept.add(np.array([[1.0]]), np.array([[3.0]]), 0)
    found = kept.finish(np.arange(1))
    assert found is not None and found.beyond == 1 and found.farthest_share == 0
