"""ResNet8, the MLPerf Tiny image classifier: its definition, its weights and its three forms.

PyTorch is needed only for `build_torch`.
"""

from quantscope.zoo.architecture import CONVOLUTIONS, ConvSpec, Weights, check_weights
from quantscope.zoo.keras import read_keras
from quantscope.zoo.onnx_resnet8 import build_onnx
from quantscope.zoo.weights import build_torch, read_safetensors, write_onnx, write_safetensors

__all__ = [
    "CONVOLUTIONS",
    "ConvSpec",
    "Weights",
    "build_onnx",
    "build_torch",
    "check_weights",
    "read_keras",
    "read_safetensors",
    "write_onnx",
    "write_safetensors",
]
