"""The rounding that keeps a layer's outputs, held against every other rounding of tiny layers."""

import itertools
from typing import Any

import numpy as np
import pytest

from quantscope.cure.best_rounding import round_to_keep, row_errors

Array = np.ndarray[Any, Any]


def tiny(seed: int, *, inputs: int = 7) -> tuple[Array, Array]:
    """Weights in steps, [3, inputs], and the products of inputs that go together."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(0, 1, (40, inputs)) @ rng.normal(0, 1, (inputs, inputs)) + 0.5
    return rng.uniform(-7, 7, (3, inputs)), rows.T @ rows


def least_error(steps: Array, products: Array) -> Array:
    """The least error of each output over all ways to round its weights up or down."""
    ways = np.array(list(itertools.product([0, 1], repeat=steps.shape[1])), np.float64)
    return np.array([row_errors(np.floor(row) + ways - row, products).min() for row in steps])


def rounded(steps: Array, products: Array, low: float = -8, high: float = 7) -> Array:
    return round_to_keep(steps, products, np.full((1, 1), low), np.full((1, 1), high))


def test_it_comes_near_the_best_of_all_roundings_and_never_below() -> None:
    found, nearest, best = [], [], []
    for seed in range(40):
        steps, products = tiny(seed)
        found += row_errors(rounded(steps, products) - steps, products).tolist()
        nearest += row_errors(np.rint(steps) - steps, products).tolist()
        best += least_error(steps, products).tolist()
    ratio = np.array(found) / np.array(best)
    assert (ratio > 1 - 1e-9).all()
    assert np.median(ratio) < 1.1 and np.mean(ratio < 1 + 1e-9) > 0.4
    # On average far nearer to the best than what rounding to the nearest leaves.
    assert np.exp(np.log(ratio).mean()) < 1.1
    assert np.exp(np.log(np.array(nearest) / np.array(best)).mean()) > 1.8


@pytest.mark.parametrize("seed", range(8))
def test_no_single_weight_would_be_better_the_other_way(seed: int) -> None:
    steps, products = tiny(seed, inputs=12)
    found = rounded(steps, products)
    error = row_errors(found - steps, products)
    for column in range(steps.shape[1]):
        other = found.copy()
        other[:, column] = np.floor(steps[:, column]) + np.ceil(steps[:, column]) - found[:, column]
        assert (row_errors(other - steps, products) >= error * (1 - 1e-9)).all()


@pytest.mark.parametrize("seed", range(8))
def test_it_is_never_worse_than_the_nearest_and_each_weight_stays_beside_itself(seed: int) -> None:
    steps, products = tiny(seed, inputs=30)
    found = rounded(steps, products)
    assert (np.abs(found - steps) <= 1).all()
    nearest = row_errors(np.rint(steps) - steps, products)
    assert (row_errors(found - steps, products) <= nearest).all()


def test_inputs_that_do_not_go_together_leave_the_nearest() -> None:
    steps, _ = tiny(3)
    assert np.array_equal(rounded(steps, np.diag([5.0, 1, 2, 3, 4, 9, 7])), np.rint(steps))


def test_inputs_that_are_always_zero_leave_the_nearest() -> None:
    steps, products = tiny(4)
    products[2, :] = products[:, 2] = 0
    assert np.isfinite(rounded(steps, products)).all()
    assert np.array_equal(rounded(steps, np.zeros((7, 7))), np.rint(steps))


def test_integers_stay_within_the_ends() -> None:
    steps, products = tiny(5)
    found = rounded(steps * 2, products, low=-4, high=3)
    assert found.min() >= -4 and found.max() <= 3
