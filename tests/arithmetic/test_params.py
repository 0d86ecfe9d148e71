import ml_dtypes
import numpy as np
import pytest

from quantscope.arithmetic import DTYPE_NAMES, QuantParams, dtype_name, limits, storage_dtype
from quantscope.errors import BadConfigError


def test_range_and_step_of_int8() -> None:
    params = QuantParams(0.5, 28, "int8")
    low, high = params.representable_range
    assert (float(low), float(high), float(params.step)) == (-78.0, 49.5, 0.5)
    assert (params.qmin, params.qmax, params.bits) == (-128, 127, 8)


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
def test_limits_are_those_of_the_stored_type(dtype: str) -> None:
    stored = storage_dtype(dtype)
    ends = np.array(limits(dtype)).astype(np.int32).astype(stored)
    assert tuple(ends.astype(np.int64)) == limits(dtype)
    if dtype.startswith("float"):
        assert float(ml_dtypes.finfo(stored).max) == limits(dtype)[1]
    assert dtype_name(stored) == dtype


def test_arrays_are_read_only_copies() -> None:
    scale = np.array([0.1, 0.2], np.float32)
    params = QuantParams(scale, 0, "int8", axis=0)
    scale[0] = 7
    assert params.scale[0] == np.float32(0.1)
    with pytest.raises(ValueError, match="read-only"):
        params.scale[0] = 1
    with pytest.raises(ValueError, match="read-only"):
        params.zero_point[0] = 1


def test_equal_parameters_are_equal_and_hash_alike() -> None:
    one, same = QuantParams([0.1, 0.2], 3, "uint8", axis=1), QuantParams([0.1, 0.2], [3, 3], axis=1)
    assert one == same
    assert len({one, same, QuantParams([0.1, 0.2], 3, "uint8", axis=0)}) == 2
    assert one != "something else"


def test_a_single_scale_in_a_vector_is_per_tensor_unless_an_axis_is_named() -> None:
    assert QuantParams([0.1], [3], "uint8").is_per_tensor
    assert not QuantParams([0.1], [3], "uint8", axis=0).is_per_tensor


def test_scale_keeps_half_precision_and_narrows_double() -> None:
    assert QuantParams(np.float16(0.1)).scale.dtype == np.float16
    assert QuantParams(np.float64(0.1)).scale.dtype == np.float32
    assert QuantParams(1).scale == 1


@pytest.mark.parametrize(
    ("scale", "found"),
    [
        (0.0, "Scale 0 is not positive"),
        (-1.0, "Scale -1 is not positive"),
        (np.nan, "Scale nan is not finite"),
        (np.inf, "Scale inf is not finite"),
        (1e300, "Scale inf is not finite"),
        (1e-40, r"Scale 9.99995e-41 is too small \(denormal\)"),
    ],
)
def test_bad_scale_is_refused_in_one_line(scale: float, found: str) -> None:
    with pytest.raises(BadConfigError, match=f"^{found}; give a positive number") as error:
        QuantParams(scale, 0, "int8")
    assert "\n" not in str(error.value)


def test_bad_scale_of_one_channel_is_named() -> None:
    with pytest.raises(BadConfigError, match=r"Scale 0 \(channel 2\) is not positive"):
        QuantParams([1.0, 1.0, 0.0], 0, "int8", axis=0)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((1.0, 200, "int8"), "Zero-point 200 does not fit int8; give one from -128 to 127."),
        ((1.0, -1, "uint8"), "Zero-point -1 does not fit uint8; give one from 0 to 255."),
        ((1.0, 1, "int32"), "Zero-point 1 does not fit int32; give 0, its only one."),
        ((1.0, 1, "float8e5m2"), "Zero-point 1 does not fit float8e5m2; give 0, its only one."),
        ((1.0, 0.5, "int8"), "Zero-point 0.5 is not a whole number."),
        ((1.0, np.nan, "int8"), "Zero-point nan is not a whole number."),
        ((1.0, [1, 2], "int8"), "2 zero-points for 1 scales; give as many, or a single one."),
        (([1.0, 2.0], 0, "int8"), "2 scales and no axis; say which axis they belong to."),
        (([], 0, "int8"), "No scale at all; give a number or one per channel."),
        (("a", 0, "int8"), "A scale of type <U1 is not a number; give a float32."),
    ],
)
def test_bad_parameters_are_refused_in_one_line(arguments: tuple, text: str) -> None:
    with pytest.raises(BadConfigError) as error:
        QuantParams(*arguments)
    assert str(error.value) == text


def test_unknown_type_names_the_known_ones() -> None:
    with pytest.raises(
        BadConfigError, match="Unknown quantized type 'int7'; known are uint8, int8"
    ):
        QuantParams(1.0, 0, "int7")
    with pytest.raises(BadConfigError, match="complex64 is not one of uint8"):
        dtype_name(np.complex64)


def test_scales_of_the_wrong_length_or_place_are_refused() -> None:
    params = QuantParams([1.0, 2.0], 0, "int8", axis=1)
    with pytest.raises(BadConfigError, match=r"2 scales for axis 1 .* give 3, one per channel"):
        params.expand_to((4, 3))
    with pytest.raises(BadConfigError, match=r"Axis 1 does not exist in a tensor of shape \[2\]"):
        params.expand_to((2,))


def test_blocks_of_the_wrong_shape_are_refused() -> None:
    with pytest.raises(BadConfigError, match="needs a block size"):
        QuantParams(np.ones((2, 2)), 0, "int8", axis=1)
    with pytest.raises(BadConfigError, match="Block size -1 is negative"):
        QuantParams(np.ones((2, 2)), 0, "int8", axis=1, block_size=-1)
    blocked = QuantParams(np.ones((2, 2)), 0, "int8", axis=1, block_size=3)
    assert blocked.expand_to((2, 5))[0].shape == (2, 5)
    with pytest.raises(BadConfigError, match=r"give them shape \[2, 3\]"):
        blocked.expand_to((2, 7))


def test_a_negative_scale_is_for_blocks_only() -> None:
    blocks = QuantParams([[0.5, -0.25]], [[0, 0]], "int4", axis=1, block_size=4)
    low, high = blocks.representable_range
    assert low.tolist() == [[-4.0, -1.75]]
    assert high.tolist() == [[3.5, 2.0]]
    assert blocks.step.tolist() == [[0.5, 0.25]]
    with pytest.raises(BadConfigError, match=r"-0\.25"):
        QuantParams([0.5, -0.25], [0, 0], "int8", axis=0)
