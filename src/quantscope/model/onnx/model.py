"""The opened ONNX file."""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

import onnx

from quantscope.errors import BadModelError
from quantscope.model.network import Network, Port
from quantscope.model.onnx.file import OnnxFile, ends_in_softmax, load_onnx
from quantscope.model.onnx.graph import OnnxGraph, open_graph
from quantscope.model.onnx.lift import lift_to_qdq
from quantscope.model.onnx.reader import read_onnx
from quantscope.model.opened import Model


class OnnxModel(Model):
    """An ONNX model: `file` is the checked file, without its weights, `proto` the whole model."""

    framework = "onnx"
    executions = ("reference", "runtime")

    def __init__(self, path: Path, given: str) -> None:
        super().__init__(path, given)
        self.file: OnnxFile = load_onnx(path)

    @property
    def digest(self) -> str:
        return self.file.digest

    @property
    def metadata(self) -> Mapping[str, str]:
        return self.file.metadata

    @property
    def inputs(self) -> tuple[Port, ...]:
        return self.file.inputs

    @property
    def outputs(self) -> tuple[Port, ...]:
        return self.file.outputs

    @property
    def files(self) -> tuple[Path, ...]:
        return (self.path, *self.file.external_files)

    @cached_property
    def graph(self) -> OnnxGraph:
        """The nodes, constants, and the shapes that inference finds."""
        return open_graph(self.file)

    def _read_network(self) -> Network:
        return read_onnx(self.graph)

    @cached_property
    def proto(self) -> onnx.ModelProto:
        """The whole model with its weights, shared by all who read it: copy it to change it."""
        return self.file.load_proto()

    @property
    def is_float(self) -> bool:
        """Whether no operator of the file quantizes or takes scales."""
        return self.file.format == "float"

    @property
    def is_lifted(self) -> bool:
        """Whether the file hides its arithmetic in QLinear operators, so that `stated` differs."""
        return self.file.format in ("qoperator", "mixed")

    @cached_property
    def stated(self) -> onnx.ModelProto:
        """The arithmetic that the file states: QLinear operators taken apart, the rest as it is.

        It is shared like `proto`.
        """
        return lift_to_qdq(self.proto) if self.is_lifted else self.proto

    @cached_property
    def gives_probabilities(self) -> bool:
        """Whether the first output is the result of a Softmax."""
        return ends_in_softmax(self.file)

    def check_original(self, other: Model) -> None:
        if other.framework != self.framework:
            raise BadModelError(
                f"{other.name} is a PyTorch model, but {self.name} is ONNX; "
                f"give its float model as .onnx (bundled: resnet8)"
            )

    def as_onnx(self, reader: str) -> "OnnxModel":
        del reader
        return self
