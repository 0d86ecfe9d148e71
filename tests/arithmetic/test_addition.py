from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from single_op import MICROSOFT, integers, needs_avx2_without_vnni, params, run_ort

from quantscope.arithmetic import avx2_qlinear_add, qlinear_add


@st.composite
def additions(draw: st.DrawFn) -> tuple[Any, ...]:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    dtype = draw(st.sampled_from([np.uint8, np.int8]))
    a, b = (integers(rng, (draw(st.integers(2, 99)),), dtype) for _ in range(2))
    length = min(len(a), len(b))
    powers_of_two = draw(st.booleans())
    scales = 2.0 ** rng.integers(-6, 2, 3) if powers_of_two else rng.uniform(1e-3, 1, 3)
    zeros = [integers(rng, (), dtype) for _ in range(3)]
    return a[:length], b[:length], [np.float32(s) for s in scales], zeros


@settings(max_examples=50)
@given(additions())
def test_exact_addition_is_that_of_fractions(addition: tuple[Any, ...]) -> None:
    a, b, scales, zeros = addition
    sides = [params(s, z) for s, z in zip(scales, zeros, strict=True)]
    result = qlinear_add(a, sides[0], b, sides[1], sides[2], precision="exact")
    ra, rb = (Fraction(float(s)) / Fraction(float(scales[2])) for s in scales[:2])
    za, zb, zy = (int(z) for z in zeros)
    steps = [(int(p) - za) * ra + (int(q) - zb) * rb for p, q in zip(a, b, strict=True)]
    info = np.iinfo(a.dtype)
    assert result.tolist() == [min(max(round(s) + zy, info.min), info.max) for s in steps]


@settings(max_examples=50)
@given(additions())
def test_addition_is_dequantize_add_quantize_and_near_the_runtime(
    addition: tuple[Any, ...],
) -> None:
    a, b, scales, zeros = addition
    sides = [params(s, z) for s, z in zip(scales, zeros, strict=True)]
    result = qlinear_add(a, sides[0], b, sides[1], sides[2])
    reals = [
        run_ort("DequantizeLinear", [q, s, z], np.float32)
        for q, s, z in zip((a, b), scales, zeros, strict=False)
    ]
    reference = run_ort("QuantizeLinear", [reals[0] + reals[1], scales[2], zeros[2]], a.dtype)
    np.testing.assert_array_equal(result, reference)
    inputs = [a, scales[0], zeros[0], b, scales[1], zeros[1], scales[2], zeros[2]]
    runtime = run_ort("QLinearAdd", inputs, a.dtype, domain=MICROSOFT)
    assert np.abs(result.astype(int) - runtime).max() <= 1


@needs_avx2_without_vnni
@settings(max_examples=80)
@given(additions())
def test_avx2_addition_is_the_runtimes(addition: tuple[Any, ...]) -> None:
    a, b, scales, zeros = addition
    sides = [params(s, z) for s, z in zip(scales, zeros, strict=True)]
    inputs = [a, scales[0], zeros[0], b, scales[1], zeros[1], scales[2], zeros[2]]
    runtime = run_ort("QLinearAdd", inputs, a.dtype, domain=MICROSOFT)
    np.testing.assert_array_equal(avx2_qlinear_add(a, sides[0], b, sides[1], sides[2]), runtime)


def test_addition_broadcasts() -> None:
    one = params(1.0, np.int8(0))
    result = qlinear_add(np.int8([[1], [2]]), one, np.int8([10, 20, 30]), one, one)
    assert result.tolist() == [[11, 21, 31], [12, 22, 32]]
