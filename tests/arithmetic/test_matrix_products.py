from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from single_op import (
    EXACT_TYPES,
    MICROSOFT,
    case_arrays,
    integers,
    params,
    run_ort,
    wheel_cases,
)

from quantscope.arithmetic import (
    QuantParams,
    matmul_accumulator,
    matmul_integer,
    qgemm,
    qlinear_matmul,
)
from quantscope.errors import BadConfigError, BadModelError


@pytest.mark.parametrize("case", wheel_cases("qlinearmatmul"))
@pytest.mark.parametrize("precision", ["float32", "float64", "exact"])
def test_qlinear_matmul_agrees_with_the_onnx_wheel(case: Any, precision: Any) -> None:
    g, expected, _ = case_arrays(case)
    sides = [params(g[f"{n}_scale"], g[f"{n}_zero_point"]) for n in "aby"]
    result = qlinear_matmul(g["a"], sides[0], g["b"], sides[1], sides[2], precision=precision)
    assert result.dtype == expected.dtype
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("case", wheel_cases("matmulinteger"))
def test_matmul_integer_agrees_with_the_onnx_wheel(case: Any) -> None:
    g, expected, _ = case_arrays(case)
    result = matmul_integer(
        g["A"], g["B"], a_zero_point=g["a_zero_point"], b_zero_point=g["b_zero_point"]
    )
    np.testing.assert_array_equal(result, expected)


@settings(max_examples=40)
@given(
    shape=st.tuples(*[st.integers(1, 6)] * 3),
    stack=st.sampled_from([((), ()), ((2,), (2,)), ((3, 2), (2,)), ((2,), ()), ((3, 1), (1, 2))]),
    types=st.sampled_from(EXACT_TYPES),
    seed=st.integers(0, 2**32 - 1),
    per_column=st.booleans(),
)
def test_qlinear_matmul_agrees_with_onnxruntime(
    shape: tuple[int, int, int], stack: Any, types: Any, seed: int, per_column: bool
) -> None:
    rng = np.random.default_rng(seed)
    m, k, n = shape
    a, b = integers(rng, (*stack[0], m, k), types[0]), integers(rng, (*stack[1], k, n), types[1])
    za, zy = integers(rng, (), types[0]), integers(rng, (), types[0])
    # For a stack of matrices onnxruntime takes scales per column only as [..., 1, N].
    columns = ((*stack[1], 1, n) if stack[1] else (n,)) if per_column else ()
    zb = np.full(columns, integers(rng, (), types[1]))
    sa, sy = np.float32(rng.uniform(0.01, 1)), np.float32(rng.uniform(1, 60))
    sb = rng.uniform(0.01, 1, columns).astype(np.float32)
    blocked = {"axis": -2, "block_size": k} if len(columns) > 1 else {"axis": -1}
    b_params = QuantParams(sb, zb, np.dtype(types[1]).name, **(blocked if per_column else {}))
    result = qlinear_matmul(a, params(sa, za), b, b_params, params(sy, zy))
    expected = run_ort("QLinearMatMul", [a, sa, za, b, sb, zb, sy, zy], a.dtype)
    np.testing.assert_array_equal(result, expected)


def test_scales_per_row_and_per_matrix_multiply_row_by_row() -> None:
    rng = np.random.default_rng(2)
    a, b = integers(rng, (2, 3, 4), np.int8), integers(rng, (2, 4, 5), np.int8)
    a_scale = rng.uniform(0.1, 1, (2, 3, 1)).astype(np.float32)
    b_scale = rng.uniform(0.1, 1, (2, 1, 5)).astype(np.float32)
    a_zero = rng.integers(-9, 9, (2, 3, 1))
    y_params = QuantParams(60.0, 3, "int8")
    result = qlinear_matmul(
        a,
        QuantParams(a_scale, a_zero, "int8", axis=-1, block_size=4),
        b,
        QuantParams(b_scale, 0, "int8", axis=-2, block_size=4),
        y_params,
    )
    rows = QuantParams(a_scale[1, :, 0], a_zero[1, :, 0], "int8", axis=0)
    columns = QuantParams(b_scale[1, 0], 0, "int8", axis=1)
    np.testing.assert_array_equal(result[1], qlinear_matmul(a[1], rows, b[1], columns, y_params))
    for i, j in np.ndindex(3, 5):
        accumulator = (a[1, i].astype(int) - a_zero[1, i, 0]) @ b[1, :, j].astype(int)
        multiplier = a_scale[1, i, 0] * b_scale[1, 0, j] / np.float32(60)
        assert result[1, i, j] == np.clip(
            np.rint(np.float32(accumulator) * multiplier) + 3, -128, 127
        )


def test_vectors_multiply_as_in_numpy() -> None:
    rng = np.random.default_rng(3)
    a, b = integers(rng, (3, 4), np.int8), integers(rng, (4,), np.int8)
    rows = QuantParams([0.5, 0.25, 0.125], 0, "int8", axis=0)
    result = qlinear_matmul(a, rows, b, params(1.0, np.int8(0)), params(100.0, np.int8(0)))
    exact = (a.astype(int) @ b.astype(int)) * np.array([0.5, 0.25, 0.125]) / 100
    np.testing.assert_array_equal(result, np.clip(np.rint(exact), -128, 127))
    columns = QuantParams(np.ones(4), 0, "int8", axis=0)
    with pytest.raises(BadConfigError, match="A vector has one scale, not 4"):
        qlinear_matmul(a, rows, b, columns, params(1.0, np.int8(0)))


@settings(max_examples=40)
@given(
    shape=st.tuples(*[st.integers(1, 9)] * 3),
    transposed=st.tuples(st.booleans(), st.booleans()),
    bias_shape=st.sampled_from(["none", "columns", "full", "one"]),
    types=st.sampled_from(EXACT_TYPES),
    quantized_output=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_qgemm_agrees_with_onnxruntime(
    shape: tuple[int, int, int],
    transposed: tuple[bool, bool],
    bias_shape: str,
    types: Any,
    quantized_output: bool,
    seed: int,
) -> None:
    rng = np.random.default_rng(seed)
    m, k, n = shape
    a = integers(rng, (k, m) if transposed[0] else (m, k), types[0])
    b = integers(rng, (n, k) if transposed[1] else (k, n), types[1])
    shapes = {"none": None, "columns": (n,), "full": (m, n), "one": (1,)}
    size = shapes[bias_shape]
    bias = None if size is None else rng.integers(-9999, 9999, size).astype(np.int32)
    za, zy = integers(rng, (), types[0]), integers(rng, (), types[0])
    zb = np.full(n, integers(rng, (), types[1]))
    sa, sy = np.float32(rng.uniform(0.01, 1)), np.float32(rng.uniform(1, 60))
    sb = rng.uniform(0.01, 1, n).astype(np.float32)
    output = [sy, zy] if quantized_output else [None, None]
    expected = run_ort(
        "QGemm",
        [a, sa, za, b, sb, zb, bias, *output],
        types[0] if quantized_output else np.float32,
        domain=MICROSOFT,
        alpha=1.5,
        transA=int(transposed[0]),
        transB=int(transposed[1]),
    )
    result = qgemm(
        a,
        params(sa, za),
        b,
        params(sb, zb, axis=0 if transposed[1] else 1),
        params(sy, zy) if quantized_output else None,
        bias=bias,
        alpha=1.5,
        trans_a=transposed[0],
        trans_b=transposed[1],
    )
    np.testing.assert_array_equal(result, expected)


def test_huge_products_stay_exact_without_floating_point() -> None:
    a = np.full((1, 3), 2**30 + 1, np.int64)
    assert matmul_accumulator(a, a.T).item() == 3 * (2**30 + 1) ** 2
    with pytest.raises(BadModelError, match=r"Accumulators could reach 2\*\*63"):
        matmul_accumulator(2 * a, 4 * a.T)
