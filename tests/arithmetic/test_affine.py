import platform
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from onnx import TensorProto
from onnxruntime.quantization.quant_utils import compute_scale_zp, get_qmin_qmax_for_qType
from single_op import case_arrays, run_ort, run_reference, wheel_cases

from quantscope.arithmetic import (
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
from quantscope.errors import BadConfigError

INTEGERS = ("uint8", "int8", "uint16", "int16", "uint4", "int4")
FLOAT8 = ("float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz")
ON_X86 = platform.machine() in ("x86_64", "AMD64")
ODD_VALUES = np.array(
    [np.nan, np.inf, -np.inf, 1e30, -1e30, 3e9, -3e9, 0.0, -0.0, 2.5, 3.5, -2.5, 0.5, 1e-40],
    np.float32,
)

finite = st.floats(-1e6, 1e6, width=32)
arrays = hnp.arrays(np.float32, hnp.array_shapes(max_dims=3, max_side=5), elements=finite)


@st.composite
def any_params(draw: st.DrawFn, dtypes: tuple[str, ...] = INTEGERS) -> QuantParams:
    dtype = draw(st.sampled_from(dtypes))
    qmin, qmax = limits(dtype)
    return QuantParams(
        np.float32(draw(st.floats(2.0**-40, 2.0**40, width=32))),
        draw(st.integers(qmin, qmax)),
        dtype,
    )


def _case_params(given: dict[str, np.ndarray], attributes: dict[str, Any], dtype: str) -> Any:
    scale = given.get("y_scale", given.get("x_scale"))
    zero_point = given.get("y_zero_point", given.get("x_zero_point"))
    per_axis = scale.size > 1
    return QuantParams(
        scale,
        zero_point,
        dtype,
        axis=attributes.get("axis", 1) if per_axis else None,
        block_size=attributes.get("block_size", 0),
    )


@pytest.mark.parametrize("case", wheel_cases("quantizelinear"))
def test_quantize_agrees_with_every_case_of_the_onnx_wheel(case: Any) -> None:
    given_arrays, expected, attributes = case_arrays(case)
    params = _case_params(given_arrays, attributes, dtype_name(expected.dtype))
    result = quantize(given_arrays["x"], params, saturate=bool(attributes.get("saturate", 1)))
    assert result.dtype == expected.dtype
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("case", wheel_cases("dequantizelinear"))
def test_dequantize_agrees_with_every_case_of_the_onnx_wheel(case: Any) -> None:
    given_arrays, expected, attributes = case_arrays(case)
    q = given_arrays["x"]
    result = dequantize(q, _case_params(given_arrays, attributes, dtype_name(q.dtype)))
    assert result.dtype == expected.dtype
    np.testing.assert_array_equal(result, expected)


def test_the_wheel_has_the_cases_that_these_tests_stand_on() -> None:
    names = {p.values[0].name for p in wheel_cases("quantizelinear", "dequantizelinear")}
    for part in ("int4", "uint4", "e4m3fn", "e5m2", "int16", "blocked_symmetric", "axis"):
        assert f"test_quantizelinear_{part}" in names
    assert len(names) >= 20


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOAT8])
def test_odd_values_come_out_as_in_onnxruntime(dtype: str) -> None:
    qmin, qmax = limits(dtype)
    zero_point = 0 if dtype in FLOAT8 else (qmin + qmax) // 2 + 1
    params = QuantParams(0.5, zero_point, dtype)
    stored = np.array(zero_point).astype(np.float32).astype(storage_dtype(dtype))
    # Repeated, so that the runtime's vector code and its scalar tail both see every value.
    # What NaN becomes as an integer is the processor's choice; x86's is ours.
    compared = ODD_VALUES if ON_X86 or dtype in FLOAT8 else ODD_VALUES[~np.isnan(ODD_VALUES)]
    x = np.tile(compared, 5)
    model_input = [x, np.float32(0.5), stored]
    for saturate in (True, False) if dtype in FLOAT8 else (True,):
        options = {} if saturate else {"saturate": 0}
        expected = _quantize_in_ort(model_input, stored.dtype, **options)
        result = quantize(x, params, saturate=saturate).astype(np.float32)
        np.testing.assert_array_equal(result, expected)


def test_nan_becomes_the_smallest_integer_and_infinity_saturates() -> None:
    params = QuantParams(1.0, 3, "int8")
    assert quantize([np.nan, np.inf, -np.inf], params).tolist() == [-128, 127, -128]
    nan, inf = quantize([np.nan, np.inf], QuantParams(1.0, 0, "float8e5m2"), saturate=False)
    assert np.isnan(np.float32(nan))
    assert np.isinf(np.float32(inf))


@given(x=arrays, params=any_params())
def test_quantize_agrees_with_onnx_reference(x: np.ndarray, params: QuantParams) -> None:
    # Beyond int32 the reference evaluator's cast is undefined.
    x = np.clip(x, -1e9 * params.scale, 1e9 * params.scale).astype(np.float32)
    zero_point = params.zero_point.astype(np.int32).astype(storage_dtype(params.dtype))
    inputs = [x, params.scale, zero_point]
    expected = run_reference("QuantizeLinear", inputs, zero_point.dtype)
    np.testing.assert_array_equal(quantize(x, params), expected)


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize(("axis", "block_size"), [(None, 0), (0, 0), (2, 0), (-2, 0), (1, 2)])
def test_both_directions_agree_with_onnxruntime(
    dtype: str, axis: int | None, block_size: int
) -> None:
    rng = np.random.default_rng(5)
    shape = (3, 5, 4)
    x = rng.normal(0, 40, shape).astype(np.float32)
    qmin, qmax = limits(dtype)
    size: tuple[int, ...] = () if axis is None else (shape[axis],)
    if block_size:
        size = (3, 3, 4)
    scale = rng.uniform(0.2, 3, size).astype(np.float32)
    zero_point = rng.integers(qmin, qmax, size, endpoint=True)
    params = QuantParams(scale, zero_point, dtype, axis=axis, block_size=block_size)
    stored = zero_point.astype(np.int32).astype(storage_dtype(dtype))
    options = {} if axis is None else {"axis": axis}
    if block_size:
        options["block_size"] = block_size
    expected = _quantize_in_ort([x, scale, stored], stored.dtype, **options)
    q = quantize(x, params)
    np.testing.assert_array_equal(q.astype(np.float32), expected)
    back = run_ort(
        "DequantizeLinear", [q, scale, stored], np.float32, constant=(0, 1, 2), **options
    )
    np.testing.assert_array_equal(dequantize(q, params), back)


def test_float16_divides_in_float16_and_onnxruntime_in_float32() -> None:
    rng = np.random.default_rng(6)
    x, scale = rng.normal(0, 20, 5000).astype(np.float16), np.float16(0.1234)
    params = QuantParams(scale, 0, "int16")
    expected = _quantize_in_ort([x, scale, np.int16(0)], np.int16)
    np.testing.assert_array_equal(quantize(x, params, precision="float32"), expected)
    reference = run_reference("QuantizeLinear", [x, scale, np.int16(0)], np.int16)
    np.testing.assert_array_equal(quantize(x, params), reference)
    assert (reference != expected).any()


def test_dequantize_keeps_the_scales_type_or_takes_another() -> None:
    q = np.array([-3, 5], np.int8)
    assert dequantize(q, QuantParams(np.float16(0.1), 0, "int8")).dtype == np.float16
    half = ml_dtypes.bfloat16(0.5)
    assert dequantize(q, QuantParams(half, 0, "int8")).dtype == ml_dtypes.bfloat16
    wide = dequantize(q, QuantParams(np.float16(0.1), 0, "int8"), output_dtype="float32")
    assert wide.dtype == np.float32
    exponent_only = QuantParams(np.array(0.25).astype(ml_dtypes.float8_e8m0fnu), 0, "int8")
    assert dequantize(q, exponent_only).tolist() == [-0.75, 1.25]
    assert quantize([0.5], exponent_only).tolist() == [2]


def test_large_int32_is_rounded_as_in_onnxruntime() -> None:
    q = np.array([2**24 + 1, 2**31 - 1, -(2**31), 77], np.int32)
    params = QuantParams(0.37, 0, "int32")
    expected = run_ort("DequantizeLinear", [q, params.scale], np.float32)
    np.testing.assert_array_equal(dequantize(q, params), expected)


def test_values_outside_the_type_are_not_dequantized() -> None:
    with pytest.raises(BadConfigError, match=r"Values -5\.\.9 do not fit int4 \(-8\.\.7\)"):
        dequantize(np.array([-5, 9], np.int8), QuantParams(1.0, 0, "int4"))
    assert dequantize(np.array([-5, 7], np.int8), QuantParams(2.0, 0, "int4")).tolist() == [-10, 14]
    with pytest.raises(BadConfigError, match="float32 cannot be dequantized as int8"):
        dequantize(np.zeros(2, np.float32), QuantParams(1.0, 0, "int8"))
    with pytest.raises(BadConfigError, match="Unknown float type 'float64'"):
        dequantize(np.zeros(2, np.int8), QuantParams(1.0, 0, "int8"), output_dtype="float64")  # type: ignore[arg-type]


@given(params=any_params(("uint8", "int8", "uint4", "int4", "uint2", "int2", "int16")))
def test_every_integer_survives_the_way_to_real_and_back(params: QuantParams) -> None:
    values = np.arange(params.qmin, params.qmax + 1, max((params.qmax - params.qmin) // 999, 1))
    q = values.astype(np.int32).astype(storage_dtype(params.dtype))
    np.testing.assert_array_equal(quantize(dequantize(q, params), params), q)


@given(x=arrays, params=any_params())
def test_rounding_and_clipping_error_add_up(x: np.ndarray, params: QuantParams) -> None:
    q = quantize(x, params).astype(np.int64)
    real = (q - params.zero_point) * params.scale.astype(np.float64)
    total = rounding_error(x, params) + clipping_error(x, params)
    np.testing.assert_allclose(total, real - x, rtol=1e-12, atol=1e-12 * np.abs(x).max())


@given(x=arrays, params=any_params())
def test_rounding_error_is_at_most_half_a_step(x: np.ndarray, params: QuantParams) -> None:
    # The division is rounded to float32, which matters when x is many steps.
    slack = np.abs(x.astype(np.float64)) * 2.0**-23
    assert (np.abs(rounding_error(x, params)) <= params.step / 2 + slack).all()


@given(x=arrays, params=any_params())
def test_clipping_error_is_zero_exactly_where_nothing_is_clipped(
    x: np.ndarray, params: QuantParams
) -> None:
    share = clipped_fraction(x, params)
    error = clipping_error(x, params)
    assert share.low == np.count_nonzero(error > 0) / x.size
    assert share.high == np.count_nonzero(error < 0) / x.size


@given(x=arrays, params=any_params(), factor=st.floats(1, 100))
def test_wider_range_never_clips_more(x: np.ndarray, params: QuantParams, factor: float) -> None:
    wider = QuantParams(params.scale * np.float32(factor), params.zero_point, params.dtype)
    narrow, wide = clipped_fraction(x, params), clipped_fraction(x, wider)
    assert wide.low <= narrow.low
    assert wide.high <= narrow.high


def test_clipped_fraction_tells_the_ends_apart_and_leaves_nan_out() -> None:
    params = QuantParams(1.0, 0, "int8")
    x = np.array([-1000.0, 0, 127.4, 128, np.inf, -np.inf, np.nan, 5], np.float32)
    assert clipped_fraction(x, params) == (2 / 8, 2 / 8)
    assert clipped_fraction(np.zeros(0, np.float32), params) == (0, 0)


def test_float8_errors_add_up_and_clip_at_the_largest_value() -> None:
    params = QuantParams(0.5, 0, "float8e4m3fn")
    x = np.array([-1000.0, -224, 0.1, 3.3, 224, 225], np.float32)
    total = rounding_error(x, params) + clipping_error(x, params)
    np.testing.assert_allclose(total, dequantize(quantize(x, params), params) - x, rtol=1e-6)
    assert clipping_error(x, params).tolist() == [776, 0, 0, 0, 0, -1]
    assert clipped_fraction(x, params) == (1 / 6, 1 / 6)


_ONNX_TYPES = {
    "uint8": TensorProto.UINT8,
    "int8": TensorProto.INT8,
    "uint16": TensorProto.UINT16,
    "int16": TensorProto.INT16,
    "uint4": TensorProto.UINT4,
    "int4": TensorProto.INT4,
}


@given(
    ends=st.tuples(finite, finite),
    dtype=st.sampled_from(INTEGERS),
    symmetric=st.booleans(),
    reduce_range=st.booleans(),
)
def test_params_from_range_agree_with_onnxruntime(
    ends: tuple[float, float], dtype: str, symmetric: bool, reduce_range: bool
) -> None:
    low, high = (np.array(v, np.float32) for v in sorted(ends))
    qmin, qmax = get_qmin_qmax_for_qType(_ONNX_TYPES[dtype], reduce_range, symmetric)
    # int4's limits as ml_dtypes overflow inside compute_scale_zp.
    qmin, qmax = (np.array(v, np.int32) for v in (qmin, qmax))
    zero_point, scale = compute_scale_zp(low, high, qmin, qmax, symmetric=symmetric)
    params = params_from_range(low, high, dtype, symmetric=symmetric, reduce_range=reduce_range)
    assert params.scale == np.float32(scale)
    assert params.zero_point == int(zero_point)


def test_params_from_range_of_channels() -> None:
    params = params_from_range([-1.0, 0.0, 0.0], [1.0, 2.55, 0.0], "uint8", axis=1)
    np.testing.assert_allclose(params.scale, [2 / 255, 0.01, 1], rtol=1e-6)
    assert params.zero_point.tolist() == [128, 0, 0]
    assert params.axis == 1


def test_range_goes_to_parameters_and_back() -> None:
    low, high = range_from_params(params_from_range(-3.0, 5.0, "int16"))
    np.testing.assert_allclose([low, high], [-3, 5], atol=8 / 65535)


def test_float8_range_puts_the_largest_magnitude_at_the_largest_value() -> None:
    params = params_from_range(-3.0, 44.8, "float8e4m3fn")
    assert params.scale == np.float32(0.1)
    assert params.zero_point == 0


def test_a_range_without_zero_is_taken_as_it_is_only_when_asked() -> None:
    assert range_from_params(params_from_range(2.0, 4.0, "uint8"))[0] == 0
    with pytest.raises(BadConfigError, match="Zero-point -255 does not fit uint8"):
        params_from_range(2.0, 4.0, "uint8", include_zero=False)
    kept = params_from_range(-1.0, 4.0, "uint8", include_zero=False)
    assert kept == params_from_range(-1.0, 4.0, "uint8")


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (np.nan, 1.0, "A range with NaN or infinity has no scale; give finite ends."),
        (0.0, np.inf, "A range with NaN or infinity has no scale; give finite ends."),
        (2.0, 1.0, "Range [2, 1] is reversed; give the low end first."),
    ],
)
def test_a_range_that_is_none_is_refused(low: float, high: float, text: str) -> None:
    with pytest.raises(BadConfigError) as error:
        params_from_range(low, high, "int8")
    assert str(error.value) == text


def test_inputs_are_not_changed() -> None:
    x = np.array([np.nan, 1.0, 300.0], np.float32)
    before = x.copy()
    quantize(x, QuantParams(1.0, 0, "uint8"))
    clipping_error(x, QuantParams(1.0, 0, "uint8"))
    np.testing.assert_array_equal(x, before)


def _quantize_in_ort(inputs: list[Any], dtype: Any, **attributes: Any) -> np.ndarray:
    """As float32, since onnxruntime hands out neither 4-bit nor float8 arrays."""
    kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    if kind in (TensorProto.UINT8, TensorProto.INT8, TensorProto.UINT16, TensorProto.INT16):
        return run_ort("QuantizeLinear", inputs, dtype, constant=(1, 2), **attributes)
    return run_ort(
        "QuantizeLinear", inputs, np.float32, constant=(1, 2), then_cast=True, **attributes
    )
