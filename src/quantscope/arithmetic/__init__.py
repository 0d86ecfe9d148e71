"""What the numbers do: quantizing, exact integer operators, accumulators. NumPy only."""

from quantscope.arithmetic.affine import (
    ClippedFraction,
    QuantParams,
    clipped_fraction,
    clipping_error,
    dequantize,
    dtype_name,
    limits,
    params_from_range,
    quantize,
    range_from_params,
    rounding_error,
    storage_dtype,
)

__all__ = [
    "ClippedFraction",
    "QuantParams",
    "clipped_fraction",
    "clipping_error",
    "dequantize",
    "dtype_name",
    "limits",
    "params_from_range",
    "quantize",
    "range_from_params",
    "rounding_error",
    "storage_dtype",
]
