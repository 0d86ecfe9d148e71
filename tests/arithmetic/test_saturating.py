from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from single_op import MICROSOFT, integers, needs_avx2_without_vnni, run_ort

from quantscope.arithmetic import (
    ConvAttributes,
    conv_accumulator,
    conv_saturates,
    conv_saturation,
    count_saturations,
    matmul_accumulator,
    matmul_saturation,
    requantization_multiplier,
    requantize,
    saturating_conv_accumulator,
    saturating_matmul_accumulator,
    wrap_int32,
)
from quantscope.errors import BadConfigError, BadModelError

ONE = np.float32(1)
TYPES = [(np.uint8, np.int8), (np.int8, np.int8), (np.uint8, np.uint8)]


def _matmul_by_hand(a: np.ndarray, b: np.ndarray, za: int, zb: np.ndarray) -> np.ndarray:
    """Pair by pair on raw values, the zero-points corrected afterwards, as the kernel does."""
    left, right = a.astype(np.int64), b.astype(np.int64)
    out = np.zeros((len(left), right.shape[1]), np.int64)
    for k in range(0, left.shape[1], 2):
        out += np.clip(left[:, k : k + 2] @ right[k : k + 2], -(2**15), 2**15 - 1)
    out -= zb * left.sum(axis=1, keepdims=True) + za * right.sum(axis=0)
    return out + left.shape[1] * za * zb


@given(shape=st.tuples(*[st.integers(1, 9)] * 3), seed=st.integers(0, 2**32 - 1))
def test_pairs_saturate_in_the_kernels_order(shape: tuple[int, int, int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    m, k, n = shape
    a, b = integers(rng, (m, k), np.uint8), integers(rng, (k, n), np.int8)
    za, zb = int(integers(rng, (), np.uint8)), integers(rng, (n,), np.int8).astype(np.int64)
    result = saturating_matmul_accumulator(a, b, a_zero_point=za, b_zero_point=zb)
    np.testing.assert_array_equal(result, _matmul_by_hand(a, b, za, zb))


@pytest.mark.parametrize(
    ("values", "weights", "expected", "pairs"),
    [
        ([255, 255], [127, 127], 32767, 1),
        ([255, 255], [-128, -128], -32768, 1),
        ([255, 0, 255, 0], [127, 127, 127, 127], 2 * 255 * 127, 0),
        ([255, 255], [127, -128], -255, 0),
        ([255, 255, 255], [64, 64, 127], 255 * 128 + 255 * 127, 0),
        ([255, 255, 255, 255], [127, 2, 127, 2], 65534, 2),
    ],
)
def test_known_pairs(values: list[int], weights: list[int], expected: int, pairs: int) -> None:
    a, b = np.array(values, np.uint8), np.array(weights, np.int8)
    assert saturating_matmul_accumulator(a, b) == expected
    assert count_saturations(matmul_saturation(a, b)) == pairs


def test_seven_bit_weights_never_saturate() -> None:
    x = np.full((1, 6, 5, 5), 255, np.uint8)
    w = np.full((4, 6, 3, 3), 64, np.int8)
    assert count_saturations(conv_saturation(x, w)) == 0
    assert count_saturations(conv_saturation(x, w + np.int8(1))) == 4 * 9 * 27


@pytest.mark.parametrize(
    ("x_type", "w_type", "shape", "group", "expected"),
    [
        (np.uint8, np.int8, (8, 4, 3, 3), 1, True),
        (np.uint8, np.int8, (8, 1, 3, 3), 8, False),
        (np.uint8, np.int8, (1, 1, 3, 3), 1, False),
        (np.uint8, np.int8, (16, 1, 3, 3), 8, True),
        (np.int8, np.int8, (8, 4, 3, 3), 1, False),
        (np.uint8, np.uint8, (8, 4, 3, 3), 1, False),
    ],
)
def test_rule_of_what_saturates(
    x_type: Any, w_type: Any, shape: Any, group: int, expected: bool
) -> None:
    x, w = np.zeros((1, shape[1] * group, 5, 5), x_type), np.zeros(shape, w_type)
    assert conv_saturates(x, w, group) is expected


CONVOLUTIONS = [
    # channels, filters, kernel, spatial, attributes
    (3, 16, 3, (8, 9), {"pads": (1, 1, 1, 1)}),
    (5, 7, 3, (8, 9), {"pads": (1, 0, 0, 1), "strides": (2, 1)}),
    (16, 16, 3, (8, 9), {"pads": (1, 1, 1, 1)}),
    (16, 24, 1, (8, 9), {}),
    (7, 5, 1, (5, 5), {"strides": (2, 2)}),
    (8, 16, 3, (8, 9), {"dilations": (2, 2)}),
    (64, 64, 3, (4, 4), {"pads": (1, 1, 1, 1)}),
    (6, 9, 3, (7, 6), {"group": 3}),
    (8, 32, 3, (6, 7), {"group": 2}),
    (5, 5, 3, (8, 9), {"group": 5}),
    (16, 16, 5, (8, 9), {"group": 16, "pads": (2, 2, 2, 2)}),
    (4, 8, 3, (8, 9), {"group": 4}),
    (1, 1, 3, (6, 6), {}),
    (1, 16, 3, (6, 6), {}),
    (3, 8, 3, (30,), {}),
    (8, 16, 2, (5, 6, 4), {"pads": (1,) * 6}),
]


@needs_avx2_without_vnni
@pytest.mark.parametrize(("channels", "filters", "kernel", "spatial", "options"), CONVOLUTIONS)
@pytest.mark.parametrize("types", TYPES, ids=["u8s8", "s8s8", "u8u8"])
@pytest.mark.parametrize("optimized", [False, True], ids=["plain", "optimized"])
def test_qlinear_conv_has_the_kernels_integers(
    channels: int,
    filters: int,
    kernel: int,
    spatial: tuple[int, ...],
    options: dict[str, Any],
    types: Any,
    optimized: bool,
) -> None:
    rng = np.random.default_rng(filters * channels + kernel)
    attributes = ConvAttributes(**options)
    x = integers(rng, (2, channels, *spatial), types[0])
    w = integers(rng, (filters, channels // attributes.group, *(kernel,) * len(spatial)), types[1])
    zx, zy = integers(rng, (), types[0]), types[0](100)
    zw = types[1](5 if optimized else 0)
    bias = rng.integers(-50000, 50000, filters).astype(np.int32)
    given_zeros = {"x_zero_point": int(zx), "w_zero_point": int(zw)}
    exact = conv_accumulator(x, w, bias=bias, attributes=attributes, **given_zeros)
    # Steps fine enough to tell a saturated pair from an exact one, most values within the range.
    y_scale = np.float32(np.abs(exact).max() / 120)
    kernels = saturating_conv_accumulator(x, w, bias=bias, attributes=attributes, **given_zeros)
    multiplier = requantization_multiplier(ONE, ONE, y_scale)
    result = requantize(kernels, multiplier, int(zy), np.dtype(types[0]).name)
    inputs = [x, ONE, zx, w, ONE, zw, y_scale, zy, bias]
    node = {k: v for k, v in options.items() if v}
    expected = run_ort(
        "QLinearConv", inputs, types[0], constant=range(1, 9), optimized=optimized, **node
    )
    np.testing.assert_array_equal(result, expected)


@needs_avx2_without_vnni
@settings(max_examples=60)
@given(
    shape=st.tuples(st.integers(1, 9), st.integers(1, 300), st.integers(1, 40)),
    types=st.sampled_from([*TYPES, (np.int8, np.uint8)]),
    constant=st.sampled_from([(), (1, 2, 3)]),
    zero=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_matmul_integer_has_the_kernels_integers(
    shape: tuple[int, int, int], types: Any, constant: Any, zero: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    m, k, n = shape
    a, b = integers(rng, (m, k), types[0]), integers(rng, (k, n), types[1])
    za = types[0](0) if zero else integers(rng, (), types[0])
    zb = types[1](0) if zero else integers(rng, (), types[1])
    result = saturating_matmul_accumulator(a, b, a_zero_point=za, b_zero_point=zb)
    expected = run_ort("MatMulInteger", [a, b, za, zb], np.int32, constant=constant)
    np.testing.assert_array_equal(wrap_int32(result), expected)


@needs_avx2_without_vnni
@pytest.mark.parametrize("op", ["QLinearMatMul", "QGemm"])
def test_quantized_products_have_the_kernels_integers(op: str) -> None:
    rng = np.random.default_rng(9)
    a, b = integers(rng, (5, 67), np.uint8), integers(rng, (67, 10), np.int8)
    zeros = np.uint8(3), np.int8(0), np.uint8(90)
    accumulator = saturating_matmul_accumulator(a, b, a_zero_point=3)
    y_scale = np.float32(np.abs(accumulator).max() / 120)
    result = requantize(accumulator, requantization_multiplier(ONE, ONE, y_scale), 90, "uint8")
    between = [None] if op == "QGemm" else []
    inputs = [a, ONE, zeros[0], b, ONE, zeros[1], *between, y_scale, zeros[2]]
    domain = MICROSOFT if op == "QGemm" else ""
    expected = run_ort(op, inputs, np.uint8, constant=(3,), domain=domain)
    np.testing.assert_array_equal(result, expected)
    exact = matmul_accumulator(a, b, a_zero_point=3)
    assert (exact != accumulator).mean() > 0.5


@needs_avx2_without_vnni
def test_conv_integer_does_not_saturate() -> None:
    rng = np.random.default_rng(10)
    x, w = integers(rng, (2, 6, 7, 7), np.uint8), integers(rng, (16, 6, 3, 3), np.int8)
    expected = run_ort("ConvInteger", [x, w, np.uint8(7), np.int8(0)], np.int32, constant=(1, 2, 3))
    np.testing.assert_array_equal(conv_accumulator(x, w, x_zero_point=7), expected)
    assert count_saturations(conv_saturation(x, w, x_zero_point=7)) > 0


def test_stacked_matrices_saturate_like_single_ones() -> None:
    rng = np.random.default_rng(11)
    a, b = integers(rng, (3, 1, 4, 6), np.uint8), integers(rng, (2, 6, 5), np.int8)
    result = saturating_matmul_accumulator(a, b)
    assert result.shape == (3, 2, 4, 5)
    for i, j in np.ndindex(3, 2):
        np.testing.assert_array_equal(result[i, j], saturating_matmul_accumulator(a[i, 0], b[j]))


def test_batches_larger_than_a_chunk_give_the_same_as_single_images() -> None:
    rng = np.random.default_rng(12)
    x, w = integers(rng, (5, 40, 40, 40), np.uint8), integers(rng, (4, 40, 3, 3), np.int8)
    whole = saturating_conv_accumulator(x, w, x_zero_point=9)
    for i in range(5):
        one = saturating_conv_accumulator(x[i : i + 1], w, x_zero_point=9)
        np.testing.assert_array_equal(whole[i : i + 1], one)


def test_only_eight_bit_types_are_modelled() -> None:
    x, w = np.zeros((1, 2, 3), np.int64), np.zeros((1, 2, 3), np.int8)
    with pytest.raises(BadConfigError, match="take uint8 and int8, not int64"):
        conv_saturation(x, w)
    with pytest.raises(BadModelError, match="cannot be multiplied"):
        matmul_saturation(np.zeros((2, 3), np.uint8), np.zeros((2, 3), np.int8))
