"""ResNet8, the MLPerf Tiny image classifier: its definition, its weights and its three forms.

PyTorch is needed only for `build_torch`.
"""

from quantscope.zoo.architecture import CONVOLUTIONS, ConvSpec, Weights, check_weights
from quantscope.zoo.bundled import (
    build_torch,
    bundled_models,
    find_model,
    float_model_of,
    read_safetensors,
    write_onnx,
    write_safetensors,
)
from quantscope.zoo.float_original import (
    known_float_model,
    recorded_float_digest,
    unknown_float_model,
)
from quantscope.zoo.keras import read_keras
from quantscope.zoo.onnx_resnet8 import build_onnx

__all__ = [
    "CONVOLUTIONS",
    "ConvSpec",
    "Weights",
    "build_onnx",
    "build_torch",
    "bundled_models",
    "check_weights",
    "find_model",
    "float_model_of",
    "known_float_model",
    "read_keras",
    "read_safetensors",
    "recorded_float_digest",
    "unknown_float_model",
    "write_onnx",
    "write_safetensors",
]
