"""This module spells paths as a person types them after a command."""

import shlex
from pathlib import Path

BUNDLED = Path(__file__).parents[1] / "zoo" / "bundled"
"""The folder of the models that come with the package."""


def as_argument(path: Path) -> str:
    """Give the path as a person can paste it after a command; a bundled ONNX model by its name."""
    is_bundled = path.parent == BUNDLED and path.suffix == ".onnx"
    return path.stem if is_bundled else shlex.quote(str(path))
