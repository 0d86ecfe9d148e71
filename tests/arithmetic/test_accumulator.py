from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from quantscope.arithmetic import (
    accumulator_bits,
    accumulator_bits_bound,
    bias_headroom_bits,
    matmul_accumulator,
)
from quantscope.errors import BadConfigError

int64 = st.integers(-(2**63) + 1, 2**63 - 1)


@given(int64, int64)
def test_bits_hold_both_ends_and_one_less_does_not(one: int, other: int) -> None:
    low, high = sorted((one, other))
    bits = int(accumulator_bits(low, high))
    assert -(2 ** (bits - 1)) <= low <= high < 2 ** (bits - 1)
    if bits > 1:
        assert low < -(2 ** (bits - 2)) or high >= 2 ** (bits - 2)


@pytest.mark.parametrize(
    ("low", "high", "bits"),
    [(0, 0, 1), (-1, 0, 1), (0, 1, 2), (-128, 127, 8), (-129, 0, 9), (0, 128, 9), (5, 9, 5)],
)
def test_known_widths(low: int, high: int, bits: int) -> None:
    assert accumulator_bits(low, high) == bits


@given(
    weights=hnp.arrays(np.int8, st.tuples(st.integers(1, 3), st.integers(1, 4))),
    w_zero_point=st.integers(-128, 127),
    inputs=st.tuples(st.integers(-5, 0), st.integers(0, 5)),
    bias=st.integers(-(2**31), 2**31 - 1),
    data=st.data(),
)
def test_bound_is_reached_and_never_passed(
    weights: np.ndarray, w_zero_point: int, inputs: tuple[int, int], bias: int, data: Any
) -> None:
    qmin, qmax = inputs
    zero_point = data.draw(st.integers(qmin, qmax))
    bound = accumulator_bits_bound(
        weights,
        w_zero_point=w_zero_point,
        qmin=qmin,
        qmax=qmax,
        x_zero_point=zero_point,
        bias=np.full(len(weights), bias),
    )
    corners = np.array(list(product((qmin, qmax), repeat=weights.shape[1])))
    reached = bias + matmul_accumulator(
        corners, weights.T, a_zero_point=zero_point, b_zero_point=w_zero_point
    )
    np.testing.assert_array_equal(bound.lowest, reached.min(axis=0))
    np.testing.assert_array_equal(bound.highest, reached.max(axis=0))
    np.testing.assert_array_equal(bound.bits, accumulator_bits(bound.lowest, bound.highest))
    assert (bound.partial_bits >= bound.bits).all()
    np.testing.assert_array_equal(bound.int32_headroom_bits, 32 - bound.bits)


def test_a_first_resnet8_convolution_needs_21_bits_at_most() -> None:
    weights = np.full((16, 3, 3, 3), -128, np.int8)
    bound = accumulator_bits_bound(weights, qmin=0, qmax=255)
    assert bound.lowest[0] == -27 * 128 * 255
    assert bound.bits.tolist() == [21] * 16
    assert bound.int32_headroom_bits[0] == 11


def test_partial_sums_can_need_more_bits_than_the_result() -> None:
    bound = accumulator_bits_bound(np.array([[127]]), qmin=0, qmax=255, bias=[-16384])
    assert (bound.lowest.tolist(), bound.highest.tolist()) == ([-16384], [16001])
    assert (bound.bits.tolist(), bound.partial_bits.tolist()) == ([15], [16])


def test_a_bias_near_the_ends_of_int32_has_little_headroom() -> None:
    assert bias_headroom_bits([0, 2**20, 2**30, -(2**31), 2**31]).tolist() == [31, 10, 0, 0, -1]


def test_impossible_ranges_are_refused() -> None:
    with pytest.raises(BadConfigError, match=r"Zero-point 300 lies outside 0\.\.255"):
        accumulator_bits_bound(np.ones((1, 1)), qmin=0, qmax=255, x_zero_point=300)
    with pytest.raises(BadConfigError, match="3 weight zero-points for 2 channels"):
        accumulator_bits_bound(np.ones((2, 2)), w_zero_point=[1, 2, 3], qmin=0, qmax=255)
    with pytest.raises(BadConfigError, match="larger than the largest"):
        accumulator_bits(3, 2)
