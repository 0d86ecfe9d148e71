"""The opened TorchScript archive. Its network needs the `torch` extra."""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from quantscope.errors import BadModelError
from quantscope.model.network import Network, Port
from quantscope.model.opened import Execution
from quantscope.model.torch import TorchModel
from quantscope.model.torchscript.file import TorchScriptFile, open_torchscript

if TYPE_CHECKING:
    from torch.jit import ScriptModule


class ArchiveModel(TorchModel):
    """An archive made by FX quantization, whose operators are kernels that ship."""

    executions = ("runtime",)

    def __init__(self, path: Path, given: str) -> None:
        super().__init__(path, given)
        self.file: TorchScriptFile = open_torchscript(path)

    @property
    def digest(self) -> str:
        return self.file.digest

    @property
    def metadata(self) -> Mapping[str, str]:
        return self.file.metadata

    @cached_property
    def module(self) -> "ScriptModule":
        """The archive as torch loads it, which is also where its graph is read from."""
        from quantscope.model.torchscript.loading import load_torchscript

        return load_torchscript(self.file)

    @property
    def inputs(self) -> tuple[Port, ...]:
        return tuple(Port(o.name, o.dtype, o.shape) for o in self.network.inputs)

    @property
    def outputs(self) -> tuple[Port, ...]:
        return tuple(Port(o.name, o.dtype, o.shape) for o in self.network.outputs)

    def _read_network(self) -> Network:
        from quantscope.model.torchscript.reader import network_of

        return network_of(self.file, self.module)

    def check_comparable(self) -> None:
        raise BadModelError(
            f"{self.name} is a TorchScript archive, not a program of torch.export; its "
            f"integers can be captured, but it is not compared or edited"
        )

    @property
    def why_not_traced(self) -> str:
        return (
            f"{self.name} is a TorchScript archive; values are traced in ONNX models. "
            f"Quantize its float model to ONNX, and open that."
        )

    @property
    def why_not_edited(self) -> str:
        return (
            f"{self.name} is a TorchScript archive, whose parameters are sealed in its "
            f"operators, so they cannot be changed here. Quantize the float model to ONNX or to a "
            f"PT2E program to try edits on it."
        )

    def _no_execution(self, asked: Execution) -> str:
        return (
            f"{self.name} is a TorchScript archive, whose operators are integer kernels: it has no "
            f"{asked} execution; use --execution runtime"
        )
