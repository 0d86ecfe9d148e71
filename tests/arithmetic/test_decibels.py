"""Signal to noise in decibels, from energies and from the values themselves."""

import math

import numpy as np
import pytest

from quantscope.arithmetic import DECIBELS_A_BIT, sqnr_db_of_energies, sqnr_db_of_values


def test_both_formulas_give_one_quantity() -> None:
    rng = np.random.default_rng(0)
    f = rng.normal(size=(3, 5))
    q = f + rng.normal(scale=0.01, size=f.shape)
    energies = sqnr_db_of_energies(float((f * f).sum()), float(((f - q) ** 2).sum()))
    assert sqnr_db_of_values(f, q) == pytest.approx(energies, rel=1e-12)


def test_half_the_error_is_one_bit_more() -> None:
    f = np.array([3.0, -4.0])
    once, half = (sqnr_db_of_values(f, f + error) for error in (0.2, 0.1))
    assert once is not None and half is not None
    assert half - once == pytest.approx(DECIBELS_A_BIT)


@pytest.mark.parametrize(
    ("signal", "error"), [(1, 0), (0, 1), (math.nan, 1), (1, math.nan), (math.inf, 1), (-1, 1)]
)
def test_energies_that_give_no_number(signal: float, error: float) -> None:
    assert sqnr_db_of_energies(signal, error) is None


@pytest.mark.parametrize(
    ("f", "q"), [([1, 2], [1, 2]), ([0, 0], [1, 2]), ([1, math.nan], [1, 2]), ([1, 2], [math.inf])]
)
def test_values_that_give_no_number(f: list[float], q: list[float]) -> None:
    assert sqnr_db_of_values(np.array(f), np.array(q)) is None
