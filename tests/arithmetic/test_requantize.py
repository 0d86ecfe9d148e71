from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quantscope.arithmetic import (
    fixed_point_multiplier,
    multiply_by_quantized_multiplier,
    requantization_multiplier,
    requantize,
)
from quantscope.errors import BadConfigError

multipliers = st.floats(2.0**-30, 2.0**6, allow_subnormal=False)


@given(
    accumulator=st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=20),
    exponents=st.tuples(*[st.integers(-12, 4)] * 3),
    zero_point=st.integers(0, 255),
)
def test_exact_requantization_is_that_of_fractions(
    accumulator: list[int], exponents: tuple[int, int, int], zero_point: int
) -> None:
    scales = [np.float32(1.7 * 2.0**e) for e in exponents]
    multiplier = requantization_multiplier(*scales, precision="exact")
    values = np.array([[v] for v in [*accumulator, *(v >> 12 for v in accumulator)]])
    result = requantize(values, multiplier, zero_point, "uint8")
    exact = Fraction(float(scales[0])) * Fraction(float(scales[1])) / Fraction(float(scales[2]))
    expected = [min(max(round(int(v) * exact) + zero_point, 0), 255) for v in values[:, 0]]
    assert result[:, 0].tolist() == expected


def test_float32_and_exact_requantization_part_by_one_step_near_a_tie() -> None:
    scales = (np.float32(0.1), np.float32(1), np.float32(1))
    accumulator = np.arange(-1200, 1200)[None]
    by_float = requantize(
        accumulator, requantization_multiplier(*scales), 0, "int8", channel_axis=0
    )
    by_fraction = requantize(
        accumulator, requantization_multiplier(*scales, precision="exact"), 0, "int8"
    )
    difference = by_float.astype(int) - by_fraction
    assert set(np.unique(difference)) == {-1, 0, 1}
    assert (np.abs(accumulator[difference != 0]) % 10 == 5).all()


def test_ties_go_to_even_before_the_zero_point_is_added() -> None:
    accumulator = np.array([[1, 3, 5, -1, -3]])
    assert requantize(accumulator, np.float32(0.5), 3, "int8").tolist() == [[3, 5, 5, 3, 1]]


@given(multipliers)
def test_mantissa_has_31_bits_and_stands_for_the_multiplier(real: float) -> None:
    mantissa, shift = fixed_point_multiplier(real)
    assert 2**30 <= mantissa < 2**31
    assert abs(Fraction(mantissa) * Fraction(2) ** (shift - 31) / Fraction(real) - 1) <= 2.0**-31


@pytest.mark.parametrize(
    ("real", "expected"),
    [(0.5, (2**30, 0)), (1.0, (2**30, 1)), (0.25, (2**30, -1)), (0.0, (0, 0))],
)
def test_known_multipliers(real: float, expected: tuple[int, int]) -> None:
    assert fixed_point_multiplier(real) == expected


def test_a_mantissa_that_rounds_up_to_the_next_power_is_halved() -> None:
    assert fixed_point_multiplier(float(np.nextafter(1.0, 0.0))) == (2**30, 1)


@given(st.lists(st.integers(-(2**24), 2**24), min_size=1), multipliers)
def test_fixed_point_product_is_within_one_of_the_exact_one(values: list[int], real: float) -> None:
    mantissa, shift = fixed_point_multiplier(real)
    result = multiply_by_quantized_multiplier(values, mantissa, shift)
    exact = [value * Fraction(mantissa) * Fraction(2) ** (shift - 31) for value in values]
    assert all(abs(int(r) - e) <= 1 for r, e in zip(result, exact, strict=True))


def test_roundings_are_those_of_gemmlowp() -> None:
    half, quarter = fixed_point_multiplier(0.5), fixed_point_multiplier(0.25)
    # Ties of the product go up; ties of the shift that follows go away from zero.
    assert multiply_by_quantized_multiplier([1, 3, -1, -3], *half).tolist() == [1, 2, 0, -1]
    assert multiply_by_quantized_multiplier([2, 6, -2, -6], *quarter).tolist() == [1, 2, -1, -2]
    assert multiply_by_quantized_multiplier([5, -5], *fixed_point_multiplier(4.0)).tolist() == [
        20,
        -20,
    ]


@pytest.mark.parametrize("real", [-1.0, np.nan, np.inf])
def test_a_multiplier_that_is_none_is_refused(real: float) -> None:
    with pytest.raises(BadConfigError, match="is not a positive number"):
        fixed_point_multiplier(real)


def test_a_left_shift_out_of_int32_is_refused() -> None:
    with pytest.raises(BadConfigError, match="shifted left by 3 leave int32"):
        multiply_by_quantized_multiplier([2**30], *fixed_point_multiplier(4.0))
