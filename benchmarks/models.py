"""Provide the models to measure: MLPerf Tiny's reference where it is at hand, else bundled ones.

The reference's Keras file is not part of the project; benchmarks look for it in ../shared and where
QUANTSCOPE_REFERENCE says.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quantscope.model import bundled_models
from quantscope.quantize import PtqConfig, quantize_onnx
from quantscope.zoo import read_keras, write_onnx

ROOT = Path(__file__).parent.parent
KERAS = Path("mlperf-tiny") / "pretrainedResnet.h5"


@dataclass(frozen=True)
class Pair:
    """A float model, its quantized version, and what to call the two."""

    name: str
    float_model: Path
    quantized: Path


def keras_file() -> Path | None:
    """Find the reference's Keras file; None where it is not at hand."""
    named = os.environ.get("QUANTSCOPE_REFERENCE")
    path = Path(named) if named else ROOT.parent / "shared" / KERAS
    return path if path.is_file() else None


def reference_pair(folder: Path, **choices: Any) -> Pair:
    """Write the float reference and its quantized version to `folder`; per channel, MinMax."""
    config = PtqConfig(**{"activations": "int8", "per_channel": True, **choices})
    float_model, keras = folder / "reference.onnx", keras_file()
    if keras is not None:
        write_onnx(read_keras(keras), float_model)
    name = "the MLPerf Tiny reference" if keras else "the bundled ResNet8 (no reference here)"
    source = float_model if keras else bundled_models()["resnet8"]
    quantized = folder / f"reference-{config.activations}.onnx"
    quantize_onnx(source, quantized, config)
    return Pair(f"{name}, {config.label()}", source, quantized)
