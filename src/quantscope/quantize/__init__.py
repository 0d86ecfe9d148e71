"""Post-training quantization: one config, two backends (onnxruntime and PyTorch's PT2E).

PyTorch is needed only for `quantize_torch`.
"""

from pathlib import Path

from quantscope.data import Samples, SamplesSource, samples_for
from quantscope.model import find_model, open_model
from quantscope.progress import Progress, silent
from quantscope.quantize.agreement import Agreement, program_agreement
from quantscope.quantize.config import (
    ActivationType,
    Backend,
    Calibration,
    LayerOverride,
    Observer,
    PtqConfig,
    TorchQuantizer,
    WeightObserver,
    WeightType,
    closest,
)
from quantscope.quantize.images import choose_images
from quantscope.quantize.onnx_backend import quantize_onnx
from quantscope.quantize.pt2e import quantize_torch
from quantscope.quantize.result import Quantized

__all__ = [
    "ActivationType",
    "Agreement",
    "Backend",
    "Calibration",
    "LayerOverride",
    "Observer",
    "PtqConfig",
    "Quantized",
    "TorchQuantizer",
    "WeightObserver",
    "WeightType",
    "choose_images",
    "closest",
    "program_agreement",
    "quantize_model",
    "quantize_onnx",
    "quantize_torch",
]


def quantize_model(
    model: str | Path,
    output: str | Path,
    config: PtqConfig,
    *,
    calibration: SamplesSource | None = None,
    progress: Progress = silent,
) -> Quantized:
    """Quantize a file or a bundled model by its name, with the config's framework.

    onnxruntime takes ONNX files, torch takes float programs (.pt2) and ResNet8's weights
    (.safetensors). `calibration` may be an array for each input by its name, batches of those, or
    what --calibration-data names; without it, CIFAR-10's training images are taken.
    """
    backend = quantize_onnx if config.framework == "onnxruntime" else quantize_torch
    path = find_model(model)
    if calibration is not None and not isinstance(calibration, Samples):
        calibration = samples_for(open_model(path), calibration)
    return backend(path, Path(output), config, calibration=calibration, progress=progress)
