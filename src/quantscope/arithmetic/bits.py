"""Fewer or more bits for a tensor: the same range of real values in other steps."""

import numpy as np

from quantscope.arithmetic.params import QuantParams, bits_of, limits
from quantscope.errors import BadConfigError

BIT_WIDTHS = (2, 3, 4, 5, 6, 7, 8, 16)
"""The widths that a tensor can be given: all up to 8, and 16, whose types ONNX has."""


def with_bits(params: QuantParams, bits: int, *, dtype: str | None = None) -> QuantParams:
    """Give parameters that span the same range of real values with `bits` bits.

    `dtype` is the type that holds them; None is the smallest of 8 bits or more. The bits that the
    parameters have already change nothing. Signed with zero-point 0 is symmetric, and stays so:
    its largest integer stands for the same value as before, and the smallest one is left unused, as
    in `params_from_range`. Else both ends of the range stay where they are, but for the rounding of
    the zero-point; one at an end stays there.
    """
    check_bits(params, bits)
    held = dtype or type_for(params, bits)
    if bits == params.bits and held == params.dtype:
        return params
    is_signed = limits(params.dtype)[0] < 0
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if is_signed else (0, 2**bits - 1)
    scale = params.scale.astype(np.float64)
    if is_signed and not params.zero_point.any():
        # The smallest integer of a symmetric tensor has no counterpart above.
        ratio, low = params.qmax / high, -high
        zero_point = params.zero_point
    else:
        ratio = (params.qmax - params.qmin) / (high - low)
        zero_point = low + np.rint((params.zero_point - params.qmin) / ratio).astype(np.int64)
    kind = params.scale.dtype
    return QuantParams(
        (scale * ratio).astype(np.float32).astype(kind),
        zero_point,
        held,
        axis=params.axis,
        block_size=params.block_size,
        # A type that is used up has no ends of its own, as onnxruntime's quantizer leaves it.
        ends=None if bits == bits_of(held) else (low, high),
    )


def type_for(params: QuantParams, bits: int) -> str:
    """Give the integer type of 8 bits or more that holds so many bits, signed or not as before."""
    sign = "int" if limits(params.dtype)[0] < 0 else "uint"
    return f"{sign}{16 if bits > 8 else 8}"


def check_bits(params: QuantParams, bits: int) -> None:
    """Refuse a width that no tensor has here, and parameters that have no width to change."""
    if bits not in BIT_WIDTHS:
        raise BadConfigError(f"{bits} bits are none of the widths 2 to 8 and 16.")
    if not params.is_integer or bits_of(params.dtype) > max(BIT_WIDTHS):
        raise BadConfigError(f"{params.dtype} has no bits to change; integers up to 16 bits have.")
    if params.block_size:
        raise BadConfigError("Scales by block have no bits to change here.")
