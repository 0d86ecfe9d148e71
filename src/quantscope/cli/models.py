"""Open the model that a person named."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from quantscope.model import Network
    from quantscope.report import RawGraph


def open_network(model: str) -> "Network":
    """Read the network of a bundled model, by its name, or of a file."""
    from quantscope.model import read_network

    return read_network(model)


def open_raw_nodes(model: str) -> "RawGraph":
    """Read the nodes of an ONNX file; other formats have none to list."""
    from quantscope.errors import BadConfigError
    from quantscope.model import open_model
    from quantscope.report import read_raw_nodes

    opened = open_model(model)
    if opened.framework != "onnx":
        raise BadConfigError(f"--raw lists the nodes of an ONNX file; {opened.name} is not one")
    return read_raw_nodes(opened.as_onnx("--raw"))
