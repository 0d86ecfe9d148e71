"""Parameters with fewer or more bits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quantscope.arithmetic import BIT_WIDTHS, QuantParams, dequantize, params_from_range, quantize
from quantscope.arithmetic.bits import with_bits
from quantscope.errors import BadConfigError

X = np.linspace(-3, 5, 1001).astype(np.float32)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("bits", BIT_WIDTHS)
def test_the_integers_in_use_are_as_many_as_the_bits_tell_apart(dtype: str, bits: int) -> None:
    params = with_bits(params_from_range(-3, 5, dtype), bits)
    integers = quantize(X, params).astype(np.int64)
    # The ends of the range were rounded to steps of 8 bits; in those of 16 that may be 128.
    unused = 1 if bits <= 8 else 129
    assert params.qmin <= integers.min() <= params.qmin + unused
    assert params.qmax - unused <= integers.max() <= params.qmax
    assert params.bits == bits and params.qmax - params.qmin == 2**bits - 1


@given(
    low=st.floats(-100, 0),
    high=st.floats(0.01, 100),
    dtype=st.sampled_from(["int8", "uint8", "int16", "uint16"]),
    bits=st.sampled_from(BIT_WIDTHS),
)
def test_the_range_stays_but_for_half_a_new_step(
    low: float, high: float, dtype: str, bits: int
) -> None:
    before = params_from_range(low, high, dtype)
    after = with_bits(before, bits)
    for old, new in zip(before.representable_range, after.representable_range, strict=True):
        slack = 0.5 * float(after.step) + 1e-6 * (high - low)
        # Signed with zero-point 0 is taken for symmetric: its smallest integer goes unused.
        assert abs(old - new) <= slack + float(before.step) * (not before.zero_point.any())


@given(top=st.floats(0.01, 100), bits=st.sampled_from(BIT_WIDTHS))
def test_symmetric_parameters_stay_symmetric(top: float, bits: int) -> None:
    before = params_from_range(-top, top, "int8", symmetric=True)
    after = with_bits(before, bits)
    assert not after.zero_point.any()
    largest = (2 ** (bits - 1) - 1) * float(after.scale)
    assert largest == pytest.approx(127 * float(before.scale), rel=1e-6)
    assert np.abs(dequantize(quantize([-top, top], after), after)).max() <= largest * (1 + 1e-6)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int4", "int16"])
def test_the_bits_that_it_has_change_nothing(dtype: str) -> None:
    params = QuantParams([0.1, 0.3], [1, 0], dtype, axis=0)
    assert with_bits(params, params.bits, dtype=dtype) is params


def test_a_zero_point_at_an_end_stays_there() -> None:
    # It stands for a ReLU, which must go on clipping what is negative.
    for dtype, low in (("uint8", 0), ("int8", -128)):
        for bits in BIT_WIDTHS:
            after = with_bits(QuantParams(0.02, low, dtype), bits)
            assert int(after.zero_point) == after.qmin
            assert float(after.representable_range[0]) == 0


def test_ends_are_part_of_the_parameters() -> None:
    narrow = QuantParams(0.5, 3, "int8", ends=(-32, 31))
    assert (narrow.qmin, narrow.qmax, narrow.bits, narrow.type_bits) == (-32, 31, 6, 8)
    assert narrow.type_text == "int8, 6 of 8 bits"
    assert narrow != QuantParams(0.5, 3, "int8") and narrow.has_grid_of(QuantParams(0.5, 3, "int8"))
    assert QuantParams(0.5, 3, "int8", ends=(-128, 127)) == QuantParams(0.5, 3, "int8")
    assert quantize([-1000.0, 1000.0], narrow).tolist() == [-32, 31]
    assert float(narrow.representable_range[1]) == 14.0
    assert narrow.changed(scale=1.0).ends == (-32, 31)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: with_bits(QuantParams(1.0), 1), "1 bits are none of the widths 2 to 8 and 16"),
        (lambda: with_bits(QuantParams(1.0), 12), "12 bits are none of the widths"),
        (lambda: with_bits(QuantParams(1.0, None, "int32"), 8), "int32 has no bits to change"),
        (
            lambda: with_bits(QuantParams(1.0, None, "float8e4m3fn"), 8),
            "float8e4m3fn has no bits to change",
        ),
        (
            lambda: QuantParams(1.0, None, "int8", ends=(-200, 3)),
            "The ends -200 and 3 are none of int8; give two from -128 to 127",
        ),
        (lambda: QuantParams(1.0, None, "int8", ends=(3, 3)), "The ends 3 and 3 are none of int8"),
        (
            lambda: QuantParams(1.0, 40, "int8", ends=(-32, 31)),
            "Zero-point 40 does not fit int8 from -32 to 31",
        ),
    ],
)
def test_what_cannot_be_is_said(make: object, text: str) -> None:
    with pytest.raises(BadConfigError, match=text):
        make()  # type: ignore[operator]
