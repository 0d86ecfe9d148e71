"""The result of a quantization, and the provenance that its model carries."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from quantscope import __version__
from quantscope.data import Samples
from quantscope.model import PROVENANCE_KEY
from quantscope.quantize.config import PtqConfig

__all__ = [
    "PROVENANCE_KEY",
    "Quantized",
    "make_provenance",
    "no_data_warning",
    "one_value_warning",
    "provenance_text",
    "random_warnings",
]


@dataclass(frozen=True)
class Quantized:
    """A quantized model on disk. `warnings` name quantizers that calibration says little about."""

    path: Path
    digest: str
    size_bytes: int
    config: PtqConfig
    provenance: Mapping[str, Any] = field(repr=False)
    warnings: tuple[str, ...] = ()
    onnx_path: Path | None = None
    onnx_digest: str | None = None
    bits: str = ""
    """The widths other than 8 that weights and activations were given, as in W4A6."""

    @classmethod
    def of(
        cls,
        content: bytes,
        path: Path,
        config: PtqConfig,
        provenance: Mapping[str, Any],
        warnings: Iterable[str],
    ) -> "Quantized":
        """Describe a model that has this content and was written to `path`."""
        digest = hashlib.sha256(content).hexdigest()
        return cls(path, digest, len(content), config, provenance, tuple(warnings))

    @property
    def label(self) -> str:
        """A short name: the config's, and the bits where they are not those of the types."""
        return f"{self.config.label()} · {self.bits}" if self.bits else self.config.label()

    def to_dict(self) -> dict[str, Any]:
        result = {
            "path": str(self.path),
            "digest": self.digest,
            "size_bytes": self.size_bytes,
            "label": self.label,
            "warnings": list(self.warnings),
            "provenance": dict(self.provenance),
        }
        if self.onnx_path:
            result |= {"onnx": str(self.onnx_path), "onnx_digest": self.onnx_digest}
        return result


def make_provenance(
    config: PtqConfig, images: Samples, *, float_digest: str, packages: tuple[str, ...]
) -> dict[str, Any]:
    """Collect all that the model follows from. No time, no path: the same inputs say the same."""
    indices = np.ascontiguousarray(images.indices, dtype="<i8")
    return {
        "config": config.to_dict(),
        "label": config.label(),
        "calibration": {
            "set": images.name,
            "images": len(images),
            "digest": images.digest,
            "indices_digest": hashlib.sha256(indices.tobytes()).hexdigest(),
            **({"random": True} if images.is_random else {}),
        },
        "float_model_digest": float_digest,
        "versions": {"quantscope": __version__} | {name: version(name) for name in packages},
    }


def provenance_text(provenance: Mapping[str, Any]) -> str:
    return json.dumps(provenance, sort_keys=True, ensure_ascii=False, allow_nan=False)


def one_value_warning(tensor: str, value: float, *, images: int) -> str:
    return (
        f"The quantizer of '{tensor}' saw only the value {value:g} in {images:,} calibration "
        "rows; its scale says nothing about other rows"
    )


def no_data_warning(tensor: str) -> str:
    return f"The quantizer of '{tensor}' saw no data in calibration; its scale means nothing"


def random_warnings(images: Samples) -> tuple[str, ...]:
    """Say of rows that were made, not found, how little their ranges mean."""
    if not images.is_random:
        return ()
    return (
        "It was calibrated with random rows: its ranges are those of noise and mean little for "
        "real data; calibrate with real rows before you judge or use it",
    )
