from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from single_op import (
    EXACT_TYPES,
    case_arrays,
    integers,
    params,
    run_ort,
    run_reference,
    wheel_cases,
)

from quantscope.arithmetic import (
    ConvAttributes,
    QuantParams,
    conv_accumulator,
    conv_integer,
    int32_overflow_count,
    matmul_accumulator,
    qgemm,
    qlinear_conv,
    qlinear_matmul,
    wrap_int32,
)
from quantscope.errors import BadConfigError, BadModelError


def _attributes(node: dict[str, Any]) -> ConvAttributes:
    return ConvAttributes(
        strides=tuple(node.get("strides", ())),
        pads=tuple(node.get("pads", ())),
        dilations=tuple(node.get("dilations", ())),
        group=node.get("group", 1),
        auto_pad=node.get("auto_pad", "NOTSET"),
    )


@pytest.mark.parametrize("case", wheel_cases("qlinearconv"))
def test_qlinear_conv_agrees_with_the_onnx_wheel(case: Any) -> None:
    given_arrays, expected, attributes = case_arrays(case)
    g = given_arrays
    result = qlinear_conv(
        g["x"],
        params(g["x_scale"], g["x_zero_point"]),
        g["w"],
        params(g["w_scale"], g["w_zero_point"], axis=0),
        params(g["y_scale"], g["y_zero_point"]),
        bias=g.get("B"),
        attributes=_attributes(attributes),
    )
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("case", wheel_cases("convinteger"))
def test_conv_integer_agrees_with_the_onnx_wheel(case: Any) -> None:
    g, expected, attributes = case_arrays(case)
    result = conv_integer(
        g["x"],
        g["w"],
        x_zero_point=int(g.get("x_zero_point", 0)),
        w_zero_point=g.get("w_zero_point", 0),
        attributes=_attributes(attributes),
    )
    assert result.dtype == expected.dtype
    np.testing.assert_array_equal(result, expected)


def _conv_by_hand(
    x: np.ndarray, w: np.ndarray, zx: int, zw: np.ndarray, attributes: ConvAttributes
) -> np.ndarray:
    """2-d, straight from the definition."""
    (sy, sx), (dy, dx) = attributes.strides, attributes.dilations
    top, left, bottom, right = attributes.pads
    m, channels, kh, kw = w.shape
    height = (x.shape[2] + top + bottom - (kh - 1) * dy - 1) // sy + 1
    width = (x.shape[3] + left + right - (kw - 1) * dx - 1) // sx + 1
    per_group = m // attributes.group
    out = np.zeros((x.shape[0], m, height, width), np.int64)
    for n, o, y, z in np.ndindex(*out.shape):
        for c, i, j in product(range(channels), range(kh), range(kw)):
            row, column = y * sy + i * dy - top, z * sx + j * dx - left
            if 0 <= row < x.shape[2] and 0 <= column < x.shape[3]:
                value = int(x[n, (o // per_group) * channels + c, row, column]) - zx
                out[n, o, y, z] += value * (int(w[o, c, i, j]) - int(zw[o]))
    return out


@st.composite
def convolutions(draw: st.DrawFn, rank: int | None = None) -> tuple[Any, ...]:
    rank = draw(st.integers(1, 3)) if rank is None else rank
    kernel = [draw(st.integers(1, 3)) for _ in range(rank)]
    dilations = [draw(st.integers(1, 2)) for _ in range(rank)]
    spatial = [
        (k - 1) * d + draw(st.integers(1, 4)) for k, d in zip(kernel, dilations, strict=True)
    ]
    group = draw(st.integers(1, 3))
    per_group_in, per_group_out = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    attributes = ConvAttributes(
        strides=tuple(draw(st.integers(1, 3)) for _ in range(rank)),
        pads=tuple(draw(st.integers(0, k)) for k in (*kernel, *kernel)),
        dilations=tuple(dilations),
        group=group,
    )
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    x_type, w_type = draw(st.sampled_from(EXACT_TYPES))
    x = integers(rng, (draw(st.integers(1, 2)), group * per_group_in, *spatial), x_type)
    w = integers(rng, (group * per_group_out, per_group_in, *kernel), w_type)
    zero_points = [integers(rng, (), t) for t in (x_type, w_type, x_type)]
    return x, w, zero_points, attributes, rng


def _node_attributes(attributes: ConvAttributes) -> dict[str, Any]:
    return {
        "strides": attributes.strides,
        "pads": attributes.pads,
        "dilations": attributes.dilations,
        "group": attributes.group,
    }


@settings(max_examples=40)
@given(convolutions(rank=2))
def test_conv_accumulator_is_the_definition(conv: tuple[Any, ...]) -> None:
    x, w, (zx, _, _), attributes, rng = conv
    zw = integers(rng, (len(w),), w.dtype)
    bias = rng.integers(-(2**20), 2**20, len(w))
    result = conv_accumulator(
        x, w, x_zero_point=int(zx), w_zero_point=zw, bias=bias, attributes=attributes
    )
    expected = _conv_by_hand(x, w, int(zx), zw, attributes) + bias[:, None, None]
    np.testing.assert_array_equal(result, expected)


@settings(max_examples=60)
@given(convolutions())
def test_qlinear_conv_agrees_with_onnxruntime(conv: tuple[Any, ...]) -> None:
    x, w, (zx, zw, zy), attributes, rng = conv
    bias = rng.integers(-(2**16), 2**16, len(w)).astype(np.int32)
    x_scale, y_scale = np.float32(rng.uniform(0.01, 1)), np.float32(rng.uniform(1, 60))
    w_scale = rng.uniform(0.01, 1, len(w)).astype(np.float32)
    zws = np.full(len(w), zw)
    result = qlinear_conv(
        x,
        params(x_scale, zx),
        w,
        params(w_scale, zws, axis=0),
        params(y_scale, zy),
        bias=bias,
        attributes=attributes,
    )
    inputs = [x, x_scale, zx, w, w_scale, zws, y_scale, zy, bias]
    options = _node_attributes(attributes)
    expected = run_ort("QLinearConv", inputs, x.dtype, constant=range(1, 9), **options)
    np.testing.assert_array_equal(result, expected)


@settings(max_examples=25)
@given(convolutions(rank=2))
def test_qlinear_conv_differs_from_onnx_reference_at_ties_only(conv: tuple[Any, ...]) -> None:
    x, w, (zx, zw, zy), attributes, rng = conv
    scales = [np.float32(2.0 ** rng.integers(-4, 5)) for _ in range(3)]
    sides = [params(s, z) for s, z in zip(scales, (zx, zw, zy), strict=True)]
    result = qlinear_conv(x, sides[0], w, sides[1], sides[2], attributes=attributes)
    inputs = [x, scales[0], zx, w, scales[1], zw, scales[2], zy]
    expected = run_reference(
        "QLinearConv", inputs, x.dtype, opset=10, **_node_attributes(attributes)
    )
    accumulator = conv_accumulator(
        x, w, x_zero_point=int(zx), w_zero_point=zw, attributes=attributes
    )
    twice = 2 * accumulator * float(scales[0] * scales[1] / scales[2])
    is_tie = (twice == np.rint(twice)) & (twice % 2 == 1)
    # The reference adds the zero-point before it rounds, so an odd one turns ties round.
    np.testing.assert_array_equal(result[~is_tie], expected[~is_tie])
    assert np.abs(result.astype(int) - expected).max(initial=0) <= int(zy) % 2


@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER", "VALID"])
def test_auto_pad_agrees_with_onnxruntime(auto_pad: Any) -> None:
    rng = np.random.default_rng(0)
    x, w = integers(rng, (1, 3, 7, 8), np.uint8), integers(rng, (2, 3, 2, 3), np.uint8)
    attributes = ConvAttributes(auto_pad=auto_pad, strides=(2, 3))
    expected = run_ort(
        "ConvInteger", [x, w, np.uint8(9)], np.int32, auto_pad=auto_pad, strides=(2, 3)
    )
    np.testing.assert_array_equal(
        conv_integer(x, w, x_zero_point=9, attributes=attributes), expected
    )


def test_seven_bit_weights_agree_with_onnxruntime_on_every_cpu() -> None:
    rng = np.random.default_rng(1)
    x = integers(rng, (2, 5, 9, 7), np.uint8)
    w = rng.integers(-64, 65, (8, 5, 3, 3)).astype(np.int8)
    zeros = [np.uint8(128), np.int8(0), np.uint8(77)]
    scales = [np.float32(s) for s in (0.02, 0.01, 1.1)]
    result = qlinear_conv(x, *_between(scales, zeros, w))
    inputs = [x, scales[0], zeros[0], w, scales[1], zeros[1], scales[2], zeros[2]]
    np.testing.assert_array_equal(result, run_ort("QLinearConv", inputs, np.uint8))


def _between(scales: list[Any], zeros: list[Any], w: np.ndarray) -> tuple[Any, ...]:
    sides = [params(s, z) for s, z in zip(scales, zeros, strict=True)]
    return sides[0], w, sides[1], sides[2]


def test_overflow_of_int32_is_reported_and_can_be_wrapped() -> None:
    x = np.full((1, 1, 1), 255, np.uint8)
    w = np.full((1, 1, 1), 127, np.int8)
    bias = np.array([2**31 - 5], np.int64)
    accumulator = conv_accumulator(x, w, bias=bias)
    assert int32_overflow_count(accumulator) == 1
    assert wrap_int32(accumulator).item() == 255 * 127 - 5 - 2**31
    one = params(1.0, np.uint8(0))
    with pytest.raises(BadModelError) as error:
        qlinear_conv(x, one, w, params(1.0, np.int8(0)), one, bias=bias)
    assert str(error.value) == (
        "1 of 1 accumulators leave int32 (as far as 2147516028); "
        "use smaller weights or a smaller bias."
    )


def test_an_empty_batch_gives_an_empty_result() -> None:
    x, w = np.zeros((0, 2, 4, 4), np.uint8), np.zeros((3, 2, 3, 3), np.int8)
    assert conv_accumulator(x, w).shape == (0, 3, 2, 2)


def test_inputs_are_not_changed() -> None:
    rng = np.random.default_rng(4)
    x, w = integers(rng, (1, 2, 5, 5), np.uint8), integers(rng, (2, 2, 3, 3), np.int8)
    copies = x.copy(), w.copy()
    conv_accumulator(x, w, x_zero_point=7, w_zero_point=[1, 2], bias=[5, 6])
    np.testing.assert_array_equal(x, copies[0])
    np.testing.assert_array_equal(w, copies[1])


@pytest.mark.parametrize(
    ("x_shape", "w_shape", "attributes", "text"),
    [
        ((1, 4, 5), (2, 3, 3), ConvAttributes(), "4 input channels .* do not fit 1 groups"),
        ((1, 4, 5), (3, 2, 3), ConvAttributes(group=2), "do not fit 2 groups"),
        ((1, 4), (2, 4), ConvAttributes(), "both need the same rank, 3 or more"),
        ((1, 1, 2), (1, 1, 3), ConvAttributes(), "spans 3 does not fit an axis of 2"),
        ((1, 1, 5), (1, 1, 3), ConvAttributes(strides=(1, 1)), "2 strides, 1 dilations"),
        ((1, 1, 5), (1, 1, 3), ConvAttributes(strides=(0,)), "start at 1, pads at 0"),
        ((1, 1, 5), (1, 1, 3), ConvAttributes(pads=(-1, 0)), "start at 1, pads at 0"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(
    x_shape: Any, w_shape: Any, attributes: ConvAttributes, text: str
) -> None:
    with pytest.raises(BadModelError, match=text):
        conv_accumulator(
            np.zeros(x_shape, np.uint8), np.zeros(w_shape, np.int8), attributes=attributes
        )


def test_parameters_that_do_not_fit_the_operator_are_refused() -> None:
    x, w = np.zeros((1, 2, 3), np.uint8), np.zeros((2, 2, 1), np.int8)
    one, two = params(1.0, np.uint8(0)), QuantParams([1.0, 2.0], 0, "uint8", axis=1)
    with pytest.raises(BadConfigError, match="The input has 2 scales; it can have only one"):
        qlinear_conv(x, two, w, params(1.0, np.int8(0)), one)
    along_input = QuantParams([1.0, 2.0], 0, "int8", axis=1)
    with pytest.raises(BadConfigError, match="one scale, or one per output channel"):
        qlinear_conv(x, one, w, along_input, one)
    with pytest.raises(BadConfigError, match="may not change along the summed axis"):
        qlinear_matmul(x[0, :, :2], two, x[0, :, :2], one, one)
    with pytest.raises(BadModelError, match="3 bias values for 2 output channels"):
        conv_accumulator(x, w, bias=[1, 2, 3])
    with pytest.raises(BadModelError, match="3 weight zero-point values for 2 output channels"):
        conv_accumulator(x, w, w_zero_point=[1, 2, 3])
    rows = QuantParams(np.ones(3), 0, "uint8", axis=0)
    with pytest.raises(BadConfigError, match="3 scales for 2 columns"):
        qgemm(x[0], one, x[0].T, rows, one)
    with pytest.raises(BadModelError, match=r"shapes \[2, 3\] and \[2, 3\] cannot be multiplied"):
        matmul_accumulator(x[0], x[0])
    with pytest.raises(BadModelError, match=r"Zero-points of shape \[3, 1\] do not fit"):
        matmul_accumulator(x[0], x[0].T, a_zero_point=[1, 2, 3])
