"""The bundled network quantized badly on purpose: the cause comes first, and its cure cures."""

from pathlib import Path

import numpy as np
import pytest

from quantscope.data import Samples, calibration_set, load_full, load_sample
from quantscope.diagnose import Diagnosis, diagnose
from quantscope.edit import Editor, SetScale
from quantscope.errors import BadDataError
from quantscope.quantize import PtqConfig, quantize_model


def best(result: Diagnosis) -> float:
    """Give the largest share of the loss that a remedy of the first finding brought back."""
    return max(attempt.recovered or 0.0 for attempt in result.findings[0].attempts)


@pytest.fixture(scope="module")
def test_images() -> Samples:
    try:
        return load_full("test")
    except BadDataError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundled int8 model with one range ten times too wide."""
    path = tmp_path_factory.mktemp("wide") / "wide.onnx"
    Editor("resnet8-int8").apply([SetScale("stack1.conv2.out", factor=10)]).save(path)
    return path


def test_a_range_that_is_too_wide_comes_first(wide: Path) -> None:
    result = diagnose(wide, load_sample().take(200), tries=True)
    assert [finding.kind for finding in result.findings] == ["wide-range"]
    (attempt,) = result.findings[0].attempts
    assert attempt.gain is not None and (attempt.gain.sqnr_change_db or 0) > 6


@pytest.mark.slow
def test_a_range_that_is_too_wide_is_cured(wide: Path, test_images: Samples) -> None:
    result = diagnose(wide, test_images, tries=True)
    assert result.findings[0].kind == "wide-range" and result.account.loss.value > 0.02
    assert best(result) > 0.8


@pytest.mark.slow
def test_entropy_with_many_bins_is_cured(tmp_path: Path, test_images: Samples) -> None:
    path = tmp_path / "entropy.onnx"
    config = PtqConfig(per_channel=False, calibration="entropy", histogram_bins=2048)
    quantize_model("resnet8", path, config)
    result = diagnose(path, test_images, float_model="resnet8", tries=True)
    assert result.findings[0].kind == "clipping" and result.account.loss.value > 0.03
    assert best(result) > 0.8


@pytest.mark.slow
def test_kernels_that_saturate_are_cured() -> None:
    # Kernels are predicted where this CPU has others, at some 20 images a second.
    result = diagnose("resnet8-uint8", load_sample().take(600), tries=True, cpu="no-vnni")
    assert result.findings[0].kind == "saturating-kernels"
    assert result.findings[0].cost is not None and result.findings[0].cost.value > 0.03
    assert best(result) > 0.8


@pytest.mark.slow
def test_a_class_that_calibration_lacks_comes_first(tmp_path: Path) -> None:
    path = tmp_path / "lacking.onnx"
    whole = calibration_set(256)
    lacking = whole.select(np.flatnonzero(whole.labels != 3))
    quantize_model("resnet8", path, PtqConfig(calibration_images=len(lacking)), calibration=lacking)
    result = diagnose(path, load_sample(), calibration=lacking, tries=True)
    # ResNet8 loses nothing that could be told from chance by it, so there is nothing to recover.
    assert result.findings[0].kind == "missing-class" and result.findings[0].labels == (3,)
    assert not result.account.loss.helps and len(result.findings[0].attempts) == 1
