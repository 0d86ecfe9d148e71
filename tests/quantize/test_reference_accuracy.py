"""What quantizing costs the MLPerf Tiny reference, on all 10,000 test images.

Needs `quantscope data fetch` and the reference; run with `make test-slow`.
"""

from pathlib import Path

import numpy as np
import pytest

from quantscope.data import ImageSet, load_full
from quantscope.errors import BadDataError
from quantscope.quantize import PtqConfig, program_agreement, quantize_onnx, quantize_torch
from quantscope.run import evaluate, kernel_gap
from quantscope.run.cpu import saturates_8bit_products
from quantscope.zoo import Weights, read_keras, write_onnx, write_safetensors

pytestmark = pytest.mark.slow

REFERENCE = 0.8719


@pytest.fixture(scope="module")
def test_images() -> ImageSet:
    try:
        return load_full("test")
    except BadDataError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def reference(shared_folder: Path) -> Weights:
    return read_keras(shared_folder / "mlperf-tiny" / "pretrainedResnet.h5")


def test_int8_per_channel_costs_at_most_two_tenths_of_a_point(
    reference: Weights, test_images: ImageSet, tmp_path: Path
) -> None:
    write_onnx(reference, tmp_path / "float.onnx")
    quantize_onnx(tmp_path / "float.onnx", tmp_path / "int8.onnx", PtqConfig())
    result = evaluate(tmp_path / "int8.onnx", test_images, execution="reference")
    assert abs(result.accuracy - REFERENCE) <= 0.002


def test_pt2e_default_costs_at_most_eight_tenths_and_agrees_with_its_onnx(
    reference: Weights, test_images: ImageSet, tmp_path: Path
) -> None:
    weights, program, onnx_file = (tmp_path / n for n in ("f.safetensors", "q.pt2", "q.onnx"))
    write_safetensors(reference, weights)
    quantize_torch(weights, program, PtqConfig(framework="torch"), onnx_output=onnx_file)
    for file in (program, onnx_file):
        result = evaluate(file, test_images, execution="reference")
        assert abs(result.accuracy - REFERENCE) <= 0.008
    agreement = program_agreement(program, onnx_file, test_images.take(1000))
    assert agreement.class_agreement >= 0.99
    assert agreement.mean_difference < 0.05


@pytest.mark.skipif(
    saturates_8bit_products() is not True, reason="needs an x86 CPU with AVX2 and without VNNI"
)
def test_what_kernels_cost_the_uint8_model_is_found_and_explained(
    reference: Weights, test_images: ImageSet, tmp_path: Path
) -> None:
    write_onnx(reference, tmp_path / "float.onnx")
    quantize_onnx(tmp_path / "float.onnx", tmp_path / "u8.onnx", PtqConfig(activations="uint8"))
    gap = kernel_gap(tmp_path / "u8.onnx", test_images)
    assert abs(gap.reference.accuracy - REFERENCE) <= 0.008
    assert gap.is_real
    assert gap.evaluation_delta.delta < -0.005
    explanation = gap.explanation()
    assert explanation is not None
    assert "16-bit saturation" in explanation
    assert "--reduce-range" in explanation


def test_both_formats_predict_the_same_in_reference_execution(
    reference: Weights, test_images: ImageSet, tmp_path: Path
) -> None:
    write_onnx(reference, tmp_path / "float.onnx")
    found = []
    for form in ("qdq", "qoperator"):
        path = tmp_path / f"{form}.onnx"
        quantize_onnx(tmp_path / "float.onnx", path, PtqConfig(format=form))
        found.append(evaluate(path, test_images, execution="reference"))
    np.testing.assert_array_equal(found[0].predictions, found[1].predictions)
