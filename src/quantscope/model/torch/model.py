"""The opened program of torch.export, and opened weights of ResNet8 alone. It needs no torch."""

import hashlib
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import NoReturn

from quantscope.errors import BadConfigError, BadModelError
from quantscope.model.input_uses import InputUse
from quantscope.model.network import Network, Port
from quantscope.model.opened import Model
from quantscope.model.torch.file import Pt2File, open_pt2
from quantscope.model.torch.pt2_graph import ProgramGraph, program_graph
from quantscope.model.torch.reader import read_pt2


class TorchModel(Model):
    """A model that PyTorch executes: what the kinds of its files have in common."""

    framework = "torch"
    bundled_float = "resnet8-torch"

    @property
    def quantize_command(self) -> str:
        return f"quantscope quantize {self.given} --framework torch -o OUT.pt2"

    def check_int8_kernels(self, int8_kernels: bool | None) -> None:
        if int8_kernels is not None:
            raise BadConfigError(
                f"{self.name} is a PyTorch model, but int8 kernels are a setting of onnxruntime; "
                f"leave --int8-kernels and --no-int8-kernels out"
            )

    def own_int8_kernels(self, int8_kernels: bool | None) -> None:
        del int8_kernels

    def as_onnx(self, reader: str) -> NoReturn:
        raise BadModelError(
            f"{self.name} is a PyTorch model; {reader} reads ONNX files: write a quantized one "
            f"with quantscope quantize {self._float_argument} -o OUT.pt2 --framework torch "
            f"--onnx OUT.onnx"
        )

    @property
    def _float_argument(self) -> str:
        """The float model to quantize, as a person types it."""
        return "FLOAT.safetensors"

    def check_original(self, other: Model) -> None:
        if other.framework != self.framework:
            raise BadModelError(
                f"{other.name} is no program or weights of PyTorch, but {self.name} is; "
                f"give its float model as .pt2 or .safetensors (bundled: resnet8-torch)"
            )

    @property
    def why_not_traced(self) -> str:
        return (
            f"{self.name} is a PyTorch program; values are traced in ONNX models. Open its "
            f"ONNX form: quantscope quantize writes it with --onnx FILE."
        )


class ProgramModel(TorchModel):
    """A checked program (.pt2): `file` as it was rebuilt, `graph` as nodes and types."""

    executions = ("reference",)

    def __init__(self, path: Path, given: str) -> None:
        super().__init__(path, given)
        self.file: Pt2File = open_pt2(path)

    @property
    def digest(self) -> str:
        return self.file.digest

    @property
    def metadata(self) -> Mapping[str, str]:
        return self.file.metadata

    @property
    def as_program(self) -> "ProgramModel":
        return self

    @cached_property
    def graph(self) -> ProgramGraph:
        return program_graph(self.file)

    @property
    def inputs(self) -> tuple[Port, ...]:
        return tuple(self._port(name) for name in self.graph.inputs)

    @property
    def outputs(self) -> tuple[Port, ...]:
        return tuple(self._port(name) for name in self.graph.outputs)

    @property
    def size_limits(self) -> Mapping[str, tuple[int | None, int | None]]:
        return self.graph.limits

    def _port(self, name: str) -> Port:
        kind = self.graph.types[name]
        return Port(name, kind.dtype, kind.shape)

    def _read_network(self) -> Network:
        return read_pt2(self.file)

    def _find_input_uses(self) -> Mapping[str, InputUse]:
        """Find the inputs that are looked up in a table: `aten.embedding` of a constant."""
        found: dict[str, InputUse] = {}
        for node in self.graph.nodes:
            table, ids = node.arguments.get("weight"), node.arguments.get("indices")
            if node.op == "aten.embedding.default" and ids in self.graph.inputs:
                rows = self.graph.types[str(table)].shape[0]
                if isinstance(rows, int):
                    found[str(ids)] = InputUse(ids_below=rows)
        return found

    def check_comparable(self) -> None:
        if not self.network.is_quantized:
            raise BadModelError(
                f"{self.name} is a float program: there is nothing to compare it with; give a "
                f"quantized one"
            )


class WeightsModel(TorchModel):
    """The weights of ResNet8 (.safetensors); the network that they belong to is the zoo's."""

    executions = ("reference",)
    has_network = False

    @cached_property
    def digest(self) -> str:
        return hashlib.sha256(self.path.read_bytes()).hexdigest()

    @property
    def metadata(self) -> Mapping[str, str]:
        return {}

    @property
    def inputs(self) -> tuple[Port, ...]:
        return (Port("images", "float32", ("N", 3, 32, 32)),)

    @property
    def outputs(self) -> tuple[Port, ...]:
        return (Port("scores", "float32", ("N", 10)),)

    def _read_network(self) -> Network:
        raise BadModelError(
            f"{self.name} holds weights alone, no layers; give the ONNX file of the network, or "
            f"quantize it to a .pt2 program"
        )

    def check_comparable(self) -> None:
        raise BadModelError(
            f"{self.name} is a float program: there is nothing to compare it with; give a "
            f"quantized one"
        )

    @property
    def _float_argument(self) -> str:
        return self.given
