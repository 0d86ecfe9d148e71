"""The arithmetic of quantized numbers: quantizing, exact integer operators, accumulators.

It needs NumPy only. Accumulators come apart from their requantization, so that every integer can
be shown.
"""

from quantscope.arithmetic.accumulator import (
    AccumulatorBound,
    accumulator_bits,
    accumulator_bits_bound,
    bias_headroom_bits,
)
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
from quantscope.arithmetic.best_range import (
    RangeError,
    RangeErrors,
    Spread,
    best_params,
    is_symmetric,
    range_error,
    range_errors,
)
from quantscope.arithmetic.bits import BIT_WIDTHS, type_for, with_bits
from quantscope.arithmetic.decibels import (
    DECIBELS_A_BIT,
    sqnr_db_of_energies,
    sqnr_db_of_values,
)
from quantscope.arithmetic.functions import (
    FUNCTIONS,
    function_table,
    look_up,
    qlinear_concat,
    qlinear_mul,
    qlinear_softmax,
)
from quantscope.arithmetic.integer import (
    conv_accumulator,
    conv_integer,
    matmul_accumulator,
    matmul_integer,
    qgemm,
    qlinear_add,
    qlinear_conv,
    qlinear_matmul,
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
from quantscope.arithmetic.pooling import (
    pool_accumulator,
    qlinear_average_pool,
    qlinear_global_average_pool,
)
from quantscope.arithmetic.requantize import (
    fixed_point_multiplier,
    int32_overflow_count,
    multiply_by_quantized_multiplier,
    requantization_multiplier,
    requantize,
    wrap_int32,
)
from quantscope.arithmetic.saturating import (
    Saturation,
    avx2_qlinear_add,
    conv_saturates,
    conv_saturation,
    count_saturations,
    matmul_saturation,
    saturating_conv_accumulator,
    saturating_matmul_accumulator,
)
from quantscope.arithmetic.window import ConvAttributes, Window, resolve_window, windows

__all__ = [
    "BIT_WIDTHS",
    "DECIBELS_A_BIT",
    "DTYPE_NAMES",
    "FUNCTIONS",
    "AccumulatorBound",
    "ClippedFraction",
    "ConvAttributes",
    "QuantParams",
    "RangeError",
    "RangeErrors",
    "Saturation",
    "Spread",
    "Window",
    "accumulator_bits",
    "accumulator_bits_bound",
    "avx2_qlinear_add",
    "best_params",
    "bias_headroom_bits",
    "bits_of",
    "clipped_fraction",
    "clipping_error",
    "conv_accumulator",
    "conv_integer",
    "conv_saturates",
    "conv_saturation",
    "count_saturations",
    "dequantize",
    "dtype_name",
    "fixed_point_multiplier",
    "function_table",
    "int32_overflow_count",
    "is_integer_type",
    "is_symmetric",
    "limits",
    "look_up",
    "matmul_accumulator",
    "matmul_integer",
    "matmul_saturation",
    "multiply_by_quantized_multiplier",
    "params_from_range",
    "pool_accumulator",
    "qgemm",
    "qlinear_add",
    "qlinear_average_pool",
    "qlinear_concat",
    "qlinear_conv",
    "qlinear_global_average_pool",
    "qlinear_matmul",
    "qlinear_mul",
    "qlinear_softmax",
    "quantize",
    "range_error",
    "range_errors",
    "range_from_params",
    "requantization_multiplier",
    "requantize",
    "resolve_window",
    "rounding_error",
    "saturating_conv_accumulator",
    "saturating_matmul_accumulator",
    "sqnr_db_of_energies",
    "sqnr_db_of_values",
    "storage_dtype",
    "type_for",
    "windows",
    "with_bits",
    "wrap_int32",
]
