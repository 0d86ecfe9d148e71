"""The eight small networks run in onnxruntime, float and in every quantized form."""

from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest

from small_networks import FORMS, NAMES, feeds, float_path, quantized

EVERY = (*NAMES, "encoder-written-out")


def _run(path: Path, given: dict[str, np.ndarray]) -> list[np.ndarray]:
    return ort.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, given)


@pytest.mark.parametrize("name", EVERY)
def test_every_form_runs_and_stays_near_the_float_network(name: str, tmp_path: Path) -> None:
    given = feeds(name)
    expected = _run(float_path(name, tmp_path), given)
    for form in FORMS:
        outputs = _run(quantized(name, form, tmp_path), given)
        for here, there in zip(outputs, expected, strict=True):
            assert here.shape == there.shape
            error = np.linalg.norm(here - there) / np.linalg.norm(there)
            assert 0 <= error < 0.35, f"{name} as {form}: off by {error:.0%}"


@pytest.mark.parametrize("name", EVERY)
def test_an_open_batch_takes_any_number_of_rows(name: str, tmp_path: Path) -> None:
    for path in (
        float_path(name, tmp_path, batch="N"),
        quantized(name, "qdq-uint8", tmp_path, batch="N"),
    ):
        three = _run(path, feeds(name, 3))
        assert all(3 in output.shape[:2] for output in three)


def test_two_encoders_compute_the_same(tmp_path: Path) -> None:
    fused, plain = (
        _run(float_path(name, tmp_path), feeds(name)) for name in ("encoder", "encoder-written-out")
    )
    for one, two in zip(fused, plain, strict=True):
        np.testing.assert_allclose(one, two, atol=1e-4)
