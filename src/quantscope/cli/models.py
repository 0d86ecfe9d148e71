"""Opening the model that a person named."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from quantscope.model import Network
    from quantscope.report.raw_nodes import RawGraph


def open_network(model: str) -> "Network":
    """A bundled model's name, or a file."""
    from quantscope.model.reader import read_network

    return read_network(_existing(model))


def open_raw_nodes(model: str) -> "RawGraph":
    """The nodes of an ONNX file; other formats have none to list."""
    from quantscope.errors import BadConfigError
    from quantscope.report.raw_nodes import read_raw_nodes
    from quantscope.run.classifier import TORCH_SUFFIXES

    path = _existing(model)
    if path.suffix in TORCH_SUFFIXES:
        raise BadConfigError(f"--raw lists the nodes of an ONNX file; {path.name} is not one")
    return read_raw_nodes(path)


def _existing(model: str) -> Path:
    from quantscope.errors import BadModelError
    from quantscope.zoo import bundled_models, find_model

    path = find_model(model)
    if not path.exists():
        names = ", ".join(bundled_models())
        raise BadModelError(f"No file {path}; give a model's path, or a bundled one: {names}")
    return path
