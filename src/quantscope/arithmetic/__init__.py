"""What the numbers do: quantizing, exact integer operators, accumulators. NumPy only."""

from quantscope.arithmetic.affine import (
    ClippedFraction,
    clipped_fraction,
    clipping_error,
    dequantize,
    params_from_range,
    quantize,
    range_from_params,
    rounding_error,
)
from quantscope.arithmetic.params import (
    DTYPE_NAMES,
    QuantParams,
    bits_of,
    dtype_name,
    is_integer_type,
    limits,
    storage_dtype,
)

__all__ = [
    "DTYPE_NAMES",
    "ClippedFraction",
    "QuantParams",
    "bits_of",
    "clipped_fraction",
    "clipping_error",
    "dequantize",
    "dtype_name",
    "is_integer_type",
    "limits",
    "params_from_range",
    "quantize",
    "range_from_params",
    "rounding_error",
    "storage_dtype",
]
