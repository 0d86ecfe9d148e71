"""Calibration in bounded memory finds what onnxruntime finds when it is given everything."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnxruntime.quantization import CalibrationDataReader, QuantType, quantize_static

from quantscope.data import calibration_set
from quantscope.model.onnx import load_onnx
from quantscope.quantize import PtqConfig, quantize_onnx
from quantscope.quantize.calibration import METHODS
from quantscope.quantize.onnx_prepare import pre_process, quiet

IMAGES = 96


class Reader(CalibrationDataReader):  # type: ignore[misc]
    """Batches of 32, as ours are: a convolution's last bits may depend on the batch."""

    def __init__(self, images: np.ndarray):
        self.batches = iter(np.split(images.astype(np.float32), len(images) // 32))

    def get_next(self) -> dict[str, Any] | None:
        batch = next(self.batches, None)
        return None if batch is None else {"input": batch}


@pytest.fixture(scope="module")
def prepared(random_resnet8: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("prepared") / "prepared.onnx"
    pre_process(load_onnx(random_resnet8), path)
    return path


@pytest.mark.parametrize("method", ["minmax", "entropy", "percentile"])
def test_model_is_the_one_that_quantize_static_makes_from_all_images_at_once(
    method: str, random_resnet8: Path, prepared: Path, tmp_path: Path
) -> None:
    config = PtqConfig(calibration=method, calibration_images=IMAGES)
    quantize_onnx(random_resnet8, tmp_path / "ours.onnx", config)
    with quiet():
        quantize_static(
            prepared,
            tmp_path / "plain.onnx",
            Reader(calibration_set(IMAGES).images),
            per_channel=True,
            activation_type=QuantType.QInt8,
            weight_type=QuantType.QInt8,
            calibrate_method=METHODS[method],
            extra_options={"CalibPercentile": 99.99} if method == "percentile" else None,
        )
    ours, plain = (onnx.load(tmp_path / f"{name}.onnx").graph for name in ("ours", "plain"))
    assert ours.SerializeToString(deterministic=True) == plain.SerializeToString(deterministic=True)
