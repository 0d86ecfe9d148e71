"""How far outputs lie from the float model's: against plain NumPy and SciPy."""

import numpy as np
import pytest
from scipy.special import log_softmax, rel_entr, softmax

from quantscope.errors import BadModelError
from quantscope.run import deviations as module
from quantscope.run.deviations import deviations, divergences, match_floats, sqnr_of_outputs

RNG = np.random.default_rng(8)
ROWS = np.arange(50, 57)
FLOATS = {"a": RNG.normal(size=(7, 3, 2)), "b": RNG.normal(size=(7, 4))}
OUTPUTS = {name: values + RNG.normal(0, 0.1, values.shape) for name, values in FLOATS.items()}


def test_each_output_has_its_sqnr_cosine_and_largest_difference() -> None:
    for found in deviations(OUTPUTS, FLOATS, ROWS):
        f, q = FLOATS[found.name], OUTPUTS[found.name]
        sqnr = 20 * np.log10(np.linalg.norm(f) / np.linalg.norm(f - q))
        assert found.sqnr_db == pytest.approx(sqnr)
        cosine = (f * q).sum() / np.linalg.norm(f) / np.linalg.norm(q)
        assert found.cosine == pytest.approx(cosine)
        assert found.largest_difference == np.abs(f - q).max()
        norms = [np.linalg.norm(each.reshape(7, -1), axis=1) for each in (f, f - q)]
        by_row = 20 * np.log10(norms[0] / norms[1])
        assert [row.index for row in found.worst] == list(ROWS[np.argsort(by_row)[:5]])
        assert found.worst[0].sqnr_db == pytest.approx(min(by_row))


def test_chunks_of_rows_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = deviations(OUTPUTS, FLOATS, ROWS)
    monkeypatch.setattr(module, "row_chunks", lambda _: (slice(n, n + 2) for n in range(0, 7, 2)))
    assert deviations(OUTPUTS, FLOATS, ROWS) == whole


def test_the_same_is_exact_and_rows_that_are_not_finite_are_counted() -> None:
    (same,) = deviations({"b": FLOATS["b"]}, {"b": FLOATS["b"]}, ROWS)
    assert same.exact and same.sqnr_db is None and same.worst == ()
    broken = OUTPUTS["b"].copy()
    broken[2, 1] = np.inf
    (found,) = deviations({"b": broken}, {"b": FLOATS["b"]}, ROWS)
    kept = np.arange(7) != 2
    f, q = FLOATS["b"][kept], broken[kept]
    assert (found.not_finite, found.exact) == (1, False)
    assert found.sqnr_db == pytest.approx(20 * np.log10(np.linalg.norm(f) / np.linalg.norm(f - q)))


def test_outputs_go_by_name_or_else_by_place() -> None:
    turned = {"b": FLOATS["b"], "a": FLOATS["a"]}
    assert match_floats(OUTPUTS, turned, model="q", float_model="f")["a"] is FLOATS["a"]
    renamed = {"one": FLOATS["a"], "two": FLOATS["b"]}
    assert match_floats(OUTPUTS, renamed, model="q", float_model="f")["b"] is FLOATS["b"]
    with pytest.raises(
        BadModelError, match=r"'a' of q has the shape \[7, 3, 2\], that of f \[7, 4\]"
    ):
        match_floats(OUTPUTS, {"a": FLOATS["b"]}, model="q", float_model="f")


def test_the_divergence_is_scipys() -> None:
    f, q = FLOATS["b"], OUTPUTS["b"]
    expected = rel_entr(softmax(f, axis=1), softmax(q, axis=1)).sum(axis=1)
    np.testing.assert_allclose(divergences(f, q, probabilities=False), expected, rtol=1e-10)
    shares = np.exp(log_softmax(f, axis=1)), np.exp(log_softmax(q, axis=1))
    np.testing.assert_allclose(divergences(*shares, probabilities=True), expected, rtol=1e-10)


def test_the_sqnr_of_several_outputs_is_that_of_all_their_values() -> None:
    rows = np.arange(7) != 3
    f, q = (
        np.concatenate([each[rows].ravel() for each in arrays.values()])
        for arrays in (FLOATS, OUTPUTS)
    )
    expected = 20 * np.log10(np.linalg.norm(f) / np.linalg.norm(f - q))
    assert sqnr_of_outputs(FLOATS, OUTPUTS, rows) == pytest.approx(expected)
