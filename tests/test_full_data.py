"""What takes all 10,000 test images. Needs `quantscope data fetch`; run with `make test-slow`."""

from pathlib import Path

import numpy as np
import pytest

from quantscope.data import ImageSet, load_full
from quantscope.errors import BadDataError
from quantscope.run import evaluate
from quantscope.zoo import read_keras, write_onnx, write_safetensors

pytestmark = pytest.mark.slow

REFERENCE_CORRECT = 8_719


@pytest.fixture(scope="module")
def test_images() -> ImageSet:
    try:
        return load_full("test")
    except BadDataError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def reference(shared_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The MLPerf Tiny model as ONNX and as safetensors."""
    folder = tmp_path_factory.mktemp("reference")
    weights = read_keras(shared_folder / "mlperf-tiny" / "pretrainedResnet.h5")
    write_onnx(weights, folder / "reference.onnx")
    write_safetensors(weights, folder / "reference.safetensors")
    return folder / "reference.onnx", folder / "reference.safetensors"


def test_the_reference_gets_8719_right_in_both_frameworks(
    reference: tuple[Path, Path], test_images: ImageSet
) -> None:
    by_onnx, by_torch = (evaluate(path, test_images) for path in reference)
    assert by_onnx.correct == by_torch.correct == REFERENCE_CORRECT
    assert np.array_equal(by_onnx.predictions, by_torch.predictions)


def test_the_bundled_network_beats_the_reference(test_images: ImageSet) -> None:
    assert evaluate("resnet8", test_images).correct > REFERENCE_CORRECT


def test_onnx_and_torch_give_every_test_image_the_same_class(test_images: ImageSet) -> None:
    by_onnx, by_torch = (evaluate(name, test_images) for name in ("resnet8", "resnet8-torch"))
    assert np.array_equal(by_onnx.predictions, by_torch.predictions)
