"""Functions, products and joins of integers against onnxruntime: as floats, and as its kernels."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from single_op import MICROSOFT, integers, params, run_ort

from quantscope.arithmetic import (
    FUNCTIONS,
    QuantParams,
    function_table,
    look_up,
    qlinear_concat,
    qlinear_mul,
    qlinear_softmax,
)

TYPES = [np.uint8, np.int8]
ATTRIBUTES: dict[str, dict[str, Any]] = {
    "LeakyRelu": {"alpha": 0.1},
    "HardSigmoid": {"alpha": 1 / 6, "beta": 0.5},
    "Elu": {"alpha": 1.5},
}


def stated(op: str, x: np.ndarray, own: QuantParams, made: QuantParams, **facts: Any) -> np.ndarray:
    """Compute what the file states: DequantizeLinear, the float operator, QuantizeLinear."""
    real = run_ort("DequantizeLinear", [x, own.scale, zero(own, x)], np.float32)
    real = run_ort(op, [real], np.float32, **facts)
    return run_ort("QuantizeLinear", [real, made.scale, zero(made, x)], x.dtype)


def zero(own: QuantParams, x: np.ndarray) -> Any:
    return x.dtype.type(int(own.zero_point))


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("op", sorted(FUNCTIONS))
def test_a_table_is_the_float_function_rounded(op: str, kind: type) -> None:
    info = np.iinfo(kind)
    x = np.arange(info.min, info.max + 1).astype(kind)
    own, made = params(np.float32(0.037), kind(100)), params(np.float32(0.0079), kind(20))
    facts = ATTRIBUTES.get(op, {})
    table = function_table(op, own, made, **facts)
    assert table.shape == (256,)
    assert table.dtype == kind
    found = look_up(x, table, own)
    # A float function may be off in its last bit, which can matter on a tie.
    difference = np.abs(found.astype(int) - stated(op, x, own, made, **facts))
    assert difference.max() <= 1
    assert (difference == 0).mean() > 0.98


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("op", ["Sigmoid", "LeakyRelu"])
def test_onnxruntimes_own_tables_are_the_same_but_for_ties(op: str, kind: type) -> None:
    info = np.iinfo(kind)
    x = np.arange(info.min, info.max + 1).astype(kind)
    own, made = params(np.float32(0.041), kind(3)), params(np.float32(1 / 256), kind(info.min))
    facts = ATTRIBUTES.get(op, {})
    inputs = [x, own.scale, zero(own, x), made.scale, zero(made, x)]
    constant = (1, 2, 3, 4)
    kernel = run_ort(f"QLinear{op}", inputs, kind, domain=MICROSOFT, constant=constant, **facts)
    found = look_up(x, function_table(op, own, made, **facts), own)
    assert np.abs(found.astype(int) - kernel).max() <= 1
    assert (found == kernel).mean() > 0.98


@pytest.mark.parametrize("kind", TYPES)
def test_a_product_is_that_of_fractions_and_near_the_kernels(kind: type) -> None:
    rng = np.random.default_rng(5)
    a, b = integers(rng, (7, 33), kind), integers(rng, (7, 33), kind)
    scales = [np.float32(0.021), np.float32(0.013), np.float32(0.017)]
    sides = [params(scale, kind(z)) for scale, z in zip(scales, (3, 120, 7), strict=True)]
    found = qlinear_mul(a, sides[0], b, sides[1], sides[2], precision="exact")
    factor = Fraction(float(scales[0])) * Fraction(float(scales[1])) / Fraction(float(scales[2]))
    info = np.iinfo(kind)
    for p, q, made in zip(a.flat, b.flat, found.flat, strict=True):
        steps = round((int(p) - 3) * (int(q) - 120) * factor) + 7
        assert int(made) == min(max(steps, info.min), info.max)
    inputs = [a, scales[0], kind(3), b, scales[1], kind(120), scales[2], kind(7)]
    kernel = run_ort("QLinearMul", inputs, kind, domain=MICROSOFT)
    near = qlinear_mul(a, sides[0], b, sides[1], sides[2])
    assert np.abs(near.astype(int) - kernel).max() <= 1


@pytest.mark.parametrize("kind", TYPES)
def test_a_join_rounds_only_what_has_other_parameters(kind: type) -> None:
    rng = np.random.default_rng(6)
    parts = [integers(rng, (2, 3, 5), kind), integers(rng, (2, 4, 5), kind)]
    sides = [params(np.float32(0.02), kind(5)), params(np.float32(0.031), kind(11))]
    found = qlinear_concat(parts, sides, sides[0], axis=1)
    np.testing.assert_array_equal(found[:, :3], parts[0])
    inputs = [sides[0].scale, kind(5)]
    for part, side in zip(parts, sides, strict=True):
        inputs += [part, side.scale, zero(side, part)]
    constant = (0, 1, 3, 4, 6, 7)
    kernel = run_ort("QLinearConcat", inputs, kind, domain=MICROSOFT, constant=constant, axis=1)
    assert np.abs(found.astype(int) - kernel).max() <= 1
    assert (found == kernel).mean() > 0.98


@pytest.mark.parametrize("kind", TYPES)
def test_a_softmax_is_that_of_the_dequantized_numbers(kind: type) -> None:
    rng = np.random.default_rng(7)
    x = integers(rng, (4, 9, 6), kind)
    info = np.iinfo(kind)
    own, made = params(np.float32(0.05), kind(17)), params(np.float32(1 / 256), kind(info.min))
    for axis in (-1, 1):
        found = qlinear_softmax(x, own, made, axis=axis)
        difference = np.abs(found.astype(int) - stated("Softmax", x, own, made, axis=axis))
        assert difference.max() <= 1
        assert (difference == 0).mean() > 0.98


def test_large_numbers_do_not_overflow_a_softmax() -> None:
    own, made = params(np.float32(40), np.uint8(0)), params(np.float32(1 / 256), np.uint8(0))
    found = qlinear_softmax(np.array([[0, 255]], np.uint8), own, made)
    np.testing.assert_array_equal(found, [[0, 255]])
