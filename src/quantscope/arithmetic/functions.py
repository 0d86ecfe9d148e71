"""This module computes products, joins and functions of integers, each rounded once.

A function of one integer is a table: for 8 bits it has 256 entries, which is how onnxruntime's
kernels have it.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import erf
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quantscope.arithmetic.affine import dequantize, quantize
from quantscope.arithmetic.params import Array, QuantParams
from quantscope.arithmetic.requantize import (
    Precision,
    requantization_multiplier,
    requantize,
    saturate,
)

RealArray = NDArray[np.float64]


def _sigmoid(x: RealArray) -> RealArray:
    return np.asarray(1 / (1 + np.exp(-x)))


def _leaky_relu(x: RealArray, *, alpha: float = 0.01) -> RealArray:
    return np.where(x < 0, alpha * x, x)


def _elu(x: RealArray, *, alpha: float = 1.0) -> RealArray:
    return np.where(x < 0, alpha * np.expm1(np.minimum(x, 0)), x)


def _hard_sigmoid(x: RealArray, *, alpha: float = 0.2, beta: float = 0.5) -> RealArray:
    return np.clip(alpha * x + beta, 0, 1)


def _hard_swish(x: RealArray) -> RealArray:
    return np.asarray(x * _hard_sigmoid(x, alpha=1 / 6))


def _erf(x: RealArray) -> RealArray:
    return np.vectorize(erf, otypes=[np.float64])(x)  # type: ignore[no-any-return]


def _gelu(x: RealArray, *, approximate: str = "none") -> RealArray:
    if approximate == "tanh":
        return np.asarray(x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))))
    return np.asarray(x / 2 * (1 + _erf(x / np.sqrt(2))))


FUNCTIONS: Mapping[str, Callable[..., RealArray]] = {
    "Elu": _elu,
    "Erf": _erf,
    "Gelu": _gelu,
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": _hard_swish,
    "LeakyRelu": _leaky_relu,
    "Sigmoid": _sigmoid,
    "Tanh": np.tanh,
}
"""Functions of one number, by the operators' names; their keyword arguments are the attributes."""


def function_table(
    op_type: str, x_params: QuantParams, y_params: QuantParams, **attributes: Any
) -> Array:
    """Compute the integer that each integer of the input's type becomes, from the least one on."""
    integers = np.arange(x_params.qmin, x_params.qmax + 1)
    real = (integers - int(x_params.zero_point)) * float(x_params.scale)
    with np.errstate(over="ignore"):
        made = partial(FUNCTIONS[op_type], **attributes)(real.astype(np.float64))
    return _rounded(made, y_params)


def look_up(x: ArrayLike, table: Array, x_params: QuantParams) -> Array:
    """Give the table's entry for each integer."""
    return np.asarray(table[np.asarray(x).astype(np.int64) - x_params.qmin])


def qlinear_mul(
    a: ArrayLike,
    a_params: QuantParams,
    b: ArrayLike,
    b_params: QuantParams,
    y_params: QuantParams,
    *,
    precision: Precision = "float32",
) -> Array:
    """Round (a - za) * (b - zb) * sa * sb / sy once, with NumPy's broadcasting."""
    left = np.asarray(a).astype(np.int64) - int(a_params.zero_point)
    right = np.asarray(b).astype(np.int64) - int(b_params.zero_point)
    multiplier = requantization_multiplier(
        a_params.scale, b_params.scale, y_params.scale, precision=precision
    )
    return requantize(
        np.asarray(left * right), multiplier, int(y_params.zero_point), y_params.dtype
    )


def qlinear_concat(
    parts: Sequence[Array], params: Sequence[QuantParams], y_params: QuantParams, *, axis: int
) -> Array:
    """Join integers; those with parameters of their own are rounded again to the output's."""
    moved = [
        part if own == y_params else quantize(dequantize(part, own), y_params)
        for part, own in zip(parts, params, strict=True)
    ]
    return np.concatenate(moved, axis=axis)


def qlinear_softmax(
    x: ArrayLike, x_params: QuantParams, y_params: QuantParams, *, axis: int = -1
) -> Array:
    """Round the softmax along one axis once; the zero-point cancels out."""
    steps = np.asarray(x).astype(np.int64)
    below = (steps - steps.max(axis=axis, keepdims=True)) * float(x_params.scale)
    powers = np.exp(below)
    return _rounded(powers / powers.sum(axis=axis, keepdims=True), y_params)


def _rounded(real: RealArray, params: QuantParams) -> Array:
    return saturate(np.rint(real / float(params.scale)), int(params.zero_point), params.dtype)
