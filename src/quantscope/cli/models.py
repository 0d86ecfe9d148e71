"""Opening the model that a person named."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from quantscope.model import Network
    from quantscope.report import RawGraph


def open_network(model: str) -> "Network":
    """A bundled model's name, or a file."""
    from quantscope.model.reader import read_network
    from quantscope.zoo import find_model

    return read_network(find_model(model))


def open_raw_nodes(model: str) -> "RawGraph":
    """The nodes of an ONNX file; other formats have none to list."""
    from quantscope.errors import BadConfigError
    from quantscope.report import read_raw_nodes
    from quantscope.run.classifier import TORCH_SUFFIXES
    from quantscope.zoo import find_model

    path = find_model(model)
    if path.suffix in TORCH_SUFFIXES:
        raise BadConfigError(f"--raw lists the nodes of an ONNX file; {path.name} is not one")
    return read_raw_nodes(path)
