"""The quick entropy search gives what onnxruntime's own gives."""

import numpy as np
import pytest
from onnxruntime.quantization.calibrate import HistogramCollector

from quantscope.quantize.calibration import QuickHistogramCollector

OPTIONS = {
    "method": "entropy",
    "symmetric": False,
    "num_bins": 0,
    "num_quantized_bins": 128,
    "percentile": 99.9,
    "scenario": "same",
}


def tensor(kind: str) -> np.ndarray:
    rng = np.random.default_rng(5)
    values = {
        "bell": rng.normal(0, 1, 40_000),
        "relu with outliers": np.maximum(rng.standard_t(2, 40_000), 0),
        "lopsided": rng.gamma(1.5, 1, 7_001) - 0.3,
        "few": rng.normal(2, 1, 9),
        "zero": np.zeros(50),
    }
    return values[kind].astype(np.float32)


@pytest.mark.parametrize("bins", [128, 200, 514])
@pytest.mark.parametrize("kind", ["bell", "relu with outliers", "lopsided", "few", "zero"])
def test_quick_search_finds_onnxruntimes_threshold(kind: str, bins: int) -> None:
    values = tensor(kind)
    largest = np.abs(values).max()
    counts, edges = np.histogram(values, bins, range=(-largest, largest))
    histogram = counts, edges, values.min(), values.max(), largest
    expected = HistogramCollector(**OPTIONS).get_entropy_threshold(histogram, 128)
    found = QuickHistogramCollector(**OPTIONS).get_entropy_threshold(histogram, 128)
    assert found == expected
    assert [v.dtype for v in found] == [v.dtype for v in expected]


def test_onnxruntimes_own_bins_leave_the_search_one_candidate() -> None:
    values = tensor("relu with outliers")
    largest = np.abs(values).max()
    counts, edges = np.histogram(values, 128, range=(-largest, largest))
    histogram = counts, edges, values.min(), values.max(), largest
    found = QuickHistogramCollector(**OPTIONS).get_entropy_threshold(histogram, 128)
    assert found == (values.min(), values.max())
