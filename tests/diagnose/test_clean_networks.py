"""Networks of other kinds, quantized well, give no finding."""

from pathlib import Path

import pytest

from quantscope.data import Samples, load_sample
from quantscope.diagnose import diagnose
from quantscope.quantize import PtqConfig, quantize_model
from small_networks import feeds, float_path


def rows(name: str, *, seed: int) -> Samples:
    return Samples.from_arrays(f"rows {seed}", feeds(name, 64, seed=seed))


@pytest.mark.parametrize(
    "name",
    [
        "encoder",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("autoencoder", "bytes", "detector", "mobile", "shuffle", "unet")
        ),
    ],
)
def test_a_network_that_was_quantized_well_has_no_finding(name: str, tmp_path: Path) -> None:
    floats = float_path(name, tmp_path, batch="N")
    for activations in ("uint8", "int8"):
        path = tmp_path / f"{activations}.onnx"
        config = PtqConfig(activations=activations, calibration_images=64)
        quantize_model(floats, path, config, calibration=rows(name, seed=5))
        result = diagnose(
            path, rows(name, seed=6), float_model=floats, calibration=rows(name, seed=5)
        )
        assert [finding.title for finding in result.findings] == []


@pytest.mark.parametrize("name", ["resnet8-int8", "resnet8-uint8"])
def test_a_bundled_model_has_no_finding(name: str) -> None:
    result = diagnose(name, load_sample().take(200))
    assert [finding.title for finding in result.findings] == []
