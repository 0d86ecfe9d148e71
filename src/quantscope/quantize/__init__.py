"""Post-training quantization: one config, two backends (onnxruntime and PyTorch's PT2E).

PyTorch is needed only for `quantize_torch`.
"""

from pathlib import Path

from quantscope.data import ImageSet
from quantscope.progress import Progress, silent
from quantscope.quantize.agreement import Agreement, program_agreement
from quantscope.quantize.config import LayerOverride, PtqConfig
from quantscope.quantize.onnx_backend import quantize_onnx
from quantscope.quantize.pt2e import quantize_torch
from quantscope.quantize.result import PROVENANCE_KEY, Quantized

__all__ = [
    "PROVENANCE_KEY",
    "Agreement",
    "LayerOverride",
    "PtqConfig",
    "Quantized",
    "program_agreement",
    "quantize",
    "quantize_onnx",
    "quantize_torch",
]


def quantize(
    float_path: Path,
    output: Path,
    config: PtqConfig,
    *,
    calibration: ImageSet | None = None,
    progress: Progress = silent,
) -> Quantized:
    """Quantize with the config's framework: an ONNX file, or ResNet8's weights with torch."""
    backend = quantize_onnx if config.framework == "onnxruntime" else quantize_torch
    return backend(float_path, output, config, calibration=calibration, progress=progress)
