from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from single_op import MICROSOFT, integers, params, run_ort

from quantscope.arithmetic import (
    ConvAttributes,
    pool_accumulator,
    qlinear_average_pool,
    qlinear_global_average_pool,
)


@st.composite
def pools(draw: st.DrawFn) -> tuple[Any, ...]:
    rank = draw(st.integers(1, 3))
    kernel = tuple(draw(st.integers(1, 3)) for _ in range(rank))
    spatial = tuple(k + draw(st.integers(0, 4)) for k in kernel)
    attributes = ConvAttributes(
        strides=tuple(draw(st.integers(1, 3)) for _ in range(rank)),
        pads=tuple(draw(st.integers(0, k - 1)) for k in (*kernel, *kernel)),
        ceil_mode=draw(st.booleans()),
    )
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    dtype = draw(st.sampled_from([np.uint8, np.int8]))
    x = integers(rng, (2, draw(st.integers(1, 5)), *spatial), dtype)
    scales = [np.float32(s) for s in rng.uniform(0.01, 1, 2)]
    zeros = [integers(rng, (), dtype) for _ in range(2)]
    return x, kernel, attributes, scales, zeros


@settings(max_examples=60)
@given(pool=pools(), count_include_pad=st.booleans())
def test_average_pool_agrees_with_onnxruntime(
    pool: tuple[Any, ...], count_include_pad: bool
) -> None:
    x, kernel, attributes, scales, zeros = pool
    result = qlinear_average_pool(
        x,
        params(scales[0], zeros[0]),
        params(scales[1], zeros[1]),
        kernel,
        count_include_pad=count_include_pad,
        attributes=attributes,
    )
    expected = run_ort(
        "QLinearAveragePool",
        [x, scales[0], zeros[0], scales[1], zeros[1]],
        x.dtype,
        domain=MICROSOFT,
        kernel_shape=kernel,
        strides=attributes.strides,
        pads=attributes.pads,
        ceil_mode=int(attributes.ceil_mode),
        count_include_pad=int(count_include_pad),
    )
    # The runtime sums float32 values one after the other and adds the zero-point before it rounds.
    assert result.shape == expected.shape
    assert np.abs(result.astype(int) - expected).max() <= 1
    assert np.count_nonzero(result != expected) <= 0.02 * result.size + 1


@settings(max_examples=40)
@given(pools())
def test_global_average_pool_agrees_with_onnxruntime(pool: tuple[Any, ...]) -> None:
    x, _, _, scales, zeros = pool
    result = qlinear_global_average_pool(
        x, params(scales[0], zeros[0]), params(scales[1], zeros[1])
    )
    inputs = [x, scales[0], zeros[0], scales[1], zeros[1]]
    expected = run_ort(
        "QLinearGlobalAveragePool", inputs, x.dtype, domain=MICROSOFT, channels_last=0
    )
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("precision", ["float32", "float64", "exact"])
def test_a_whole_window_averages_like_the_global_pool(precision: Any) -> None:
    rng = np.random.default_rng(0)
    x = integers(rng, (3, 4, 5, 7), np.uint8)
    sides = params(0.1, np.uint8(3)), params(0.05, np.uint8(8))
    np.testing.assert_array_equal(
        qlinear_average_pool(x, *sides, (5, 7), precision=precision),
        qlinear_global_average_pool(x, *sides, precision=precision),
    )


def test_padding_counts_as_real_zero_when_it_is_counted() -> None:
    x = np.full((1, 1, 2), 10, np.uint8)
    attributes = ConvAttributes(pads=(1, 1))
    sums, counts = pool_accumulator(x, (2,), x_zero_point=4, attributes=attributes)
    assert sums.tolist() == [[[6, 12, 6]]]
    assert counts.tolist() == [1, 2, 1]
    _, counts = pool_accumulator(x, (2,), count_include_pad=True, attributes=attributes)
    assert counts.tolist() == [2, 2, 2]


def test_exact_average_rounds_ties_to_even() -> None:
    x = np.array([[[1, 2], [2, 3], [3, 4]]], np.uint8)
    one = params(1.0, np.uint8(0))
    result = qlinear_global_average_pool(x, one, one, precision="exact")
    assert result.ravel().tolist() == [2, 2, 4]
