"""Post-training quantization: one config, two backends (onnxruntime and PyTorch's PT2E).

PyTorch is needed only for `quantize_torch`.
"""

from quantscope.quantize.config import LayerOverride, PtqConfig
from quantscope.quantize.onnx_backend import quantize_onnx
from quantscope.quantize.result import PROVENANCE_KEY, Quantized

__all__ = [
    "PROVENANCE_KEY",
    "LayerOverride",
    "PtqConfig",
    "Quantized",
    "quantize_onnx",
]
