"""What the tests share: the reference files where they are at hand, and a small ResNet8."""

import os
from collections.abc import Callable
from pathlib import Path

import hypothesis
import numpy as np
import onnxruntime as ort
import pytest

from quantscope.model import bundled_models
from quantscope.quantize import PtqConfig, quantize_onnx
from quantscope.zoo import Weights, build_onnx
from quantscope.zoo.architecture import expected_shapes

# PyTorch's threads would wait for work by asking for it without end, which the other processes of
# the tests pay for: a third of the time that those of PyTorch take.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


class _Patient(ort.SessionOptions):
    """Options of sessions whose threads sleep while they wait: a quarter less time of all cores.

    No number depends on it. Like PyTorch's, they would ask for work without end.
    """

    def __init__(self) -> None:
        super().__init__()
        self.add_session_config_entry("session.intra_op.allow_spinning", "0")


ort.SessionOptions = _Patient

# The same cases on every machine, and no clock: a loaded machine is not a failing test.
hypothesis.settings.register_profile("quantscope", deadline=None, derandomize=True)
hypothesis.settings.load_profile("quantscope")

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="session")
def shared_folder() -> Path:
    """Reference models that are not part of the project."""
    folder = ROOT.parent / "shared"
    if not (folder / "mlperf-tiny").is_dir():
        pytest.skip("the folder ../shared with the MLPerf Tiny reference model is not here")
    return folder


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache that nothing was fetched into, whatever this machine has."""
    cache = tmp_path / "cache"
    monkeypatch.setenv("QUANTSCOPE_CACHE", str(cache))
    return cache


@pytest.fixture(scope="session")
def random_weights() -> Weights:
    """Seeded weights of about a trained network's size: logits differ between images."""
    rng = np.random.default_rng(8)
    weights = {}
    for name, shape in expected_shapes().items():
        fan_in = int(np.prod(shape[1:])) if len(shape) > 1 else 1
        spread = np.sqrt(2 / fan_in) if len(shape) > 1 else 0.1
        weights[name] = rng.normal(0, spread, shape).astype(np.float32)
    weights["stem.weight"] /= 64
    return weights


@pytest.fixture(scope="session")
def random_resnet8(random_weights: Weights, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An untrained ResNet8 as a float ONNX file."""
    path = tmp_path_factory.mktemp("models") / "random_resnet8.onnx"
    path.write_bytes(build_onnx(random_weights).SerializeToString(deterministic=True))
    return path


@pytest.fixture(scope="session")
def quantized(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """`quantized(activations="uint8", format="qdq", ...)`: the bundled ResNet8, quantized so."""
    folder = tmp_path_factory.mktemp("quantized")
    made: dict[PtqConfig, Path] = {}

    def make(**choices: object) -> Path:
        config = PtqConfig(**{"calibration_images": 32, **choices})
        if config not in made:
            made[config] = folder / f"model{len(made)}.onnx"
            quantize_onnx(bundled_models()["resnet8"], made[config], config)
        return made[config]

    return make


@pytest.fixture(scope="session")
def resnet8_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundled ResNet8 as a PT2E program, its logits quantized too."""
    pytest.importorskip("torch")
    from quantscope.quantize.pt2e import quantize_torch

    path = tmp_path_factory.mktemp("program") / "resnet8.pt2"
    config = PtqConfig(
        framework="torch",
        calibration_images=16,
        activations="int8",
        observer="minmax",
        torch_quantizer="quantscope",
    )
    quantize_torch(bundled_models()["resnet8-torch"], path, config)
    return path
