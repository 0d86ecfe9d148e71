"""The opened model, which every other room is given and asks.

`open_model` is the one door, and the only place that asks what kind of file somebody gave. What it
returns reads its file once and remembers what it found: the checked file, its graph, its `Network`.
Functions take a name, a path or a `Model`, call `open_model` once, and pass the `Model` on.

A new kind of file is a new subclass of `Model` in a folder of its own, and a line in `open_model`.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from quantscope.errors import BadConfigError, BadModelError
from quantscope.files import check_file
from quantscope.model.bundled import find_model
from quantscope.model.input_uses import InputUse
from quantscope.model.network import Network, Port

if TYPE_CHECKING:
    from quantscope.model.onnx import OnnxModel
    from quantscope.model.stored import StoredConstants
    from quantscope.model.torch import ProgramModel

Execution = Literal["reference", "runtime"]
"""Reference is the arithmetic that a file states, runtime the kernels that ship."""

Framework = Literal["onnx", "torch"]
"""The framework that executes a model; it names the folders that hold what differs."""

_TORCH_SUFFIXES = (".pt2", ".pt", ".pth")
_WEIGHTS_SUFFIX = ".safetensors"


class Model(ABC):
    """A model file that was opened and checked. Nothing of it may be changed.

    `given` is how the person named it, a bundled model's short name or a path, for lines that say
    what to type next.
    """

    framework: ClassVar[Framework]
    executions: ClassVar[tuple[Execution, ...]]
    """The ways in which it can be run, the usual one last."""
    bundled_float: ClassVar[str]
    """The short name of the bundled float model that runs in the same framework."""
    has_network: ClassVar[bool] = True
    """It says whether the file tells what its layers are; weights alone do not."""
    has_stand_in: ClassVar[bool] = False
    """It says whether its quantizers can be switched off here, for want of a float original."""
    is_stand_in: bool = False
    """It says whether it is a network with its quantizers off, in the original's place."""

    def __init__(self, path: Path, given: str) -> None:
        self.path, self.given = path, given

    @property
    @abstractmethod
    def digest(self) -> str:
        """The SHA-256 of the file, with the files beside it that it names."""

    @property
    @abstractmethod
    def metadata(self) -> Mapping[str, str]:
        """The texts, by name, that were written into the file about itself; never trusted."""

    @cached_property
    def network(self) -> Network:
        """The layers and quantized tensors, read when they are first asked for."""
        return self._read_network()

    @abstractmethod
    def _read_network(self) -> Network: ...

    @property
    @abstractmethod
    def inputs(self) -> tuple[Port, ...]:
        """The ports that it must be fed."""

    @property
    @abstractmethod
    def outputs(self) -> tuple[Port, ...]:
        """The ports that it gives, in the file's order."""

    @property
    def size_limits(self) -> Mapping[str, tuple[int | None, int | None]]:
        """The least and the most that open dimensions may be, by their names, where it says so."""
        return {}

    @cached_property
    def input_uses(self) -> Mapping[str, InputUse]:
        """The uses that its graph has for each input, by name; empty where they are not known."""
        return self._find_input_uses()

    def _find_input_uses(self) -> Mapping[str, InputUse]:
        return {}

    @cached_property
    def known_original(self) -> "Model | None":
        """The bundled float model that it was made from, opened; None where it names none."""
        from quantscope.model.float_original import open_known_original

        return open_known_original(self)

    @property
    def name(self) -> str:
        """The file's name, as results and messages have it."""
        return self.path.name

    @property
    def files(self) -> tuple[Path, ...]:
        """All files that it was read from."""
        return (self.path,)

    def check_comparable(self) -> None:
        """Refuse what cannot be compared with a float original: it must be quantized."""
        if not self.network.is_quantized:
            raise BadModelError(
                f"{self.name} is a float model: there is nothing to compare it with; "
                f"quantize it first: {self.quantize_command}"
            )

    @property
    @abstractmethod
    def quantize_command(self) -> str:
        """The command that makes a quantized model of a float one."""

    @property
    def is_float(self) -> bool:
        """Say whether nothing in it is quantized."""
        return not self.network.is_quantized

    def pick_execution(self, asked: Execution | None, *, usual: Execution) -> Execution:
        """Give the asked execution, or the usual one, or else the only one that there is."""
        if asked is None:
            return usual if usual in self.executions else self.executions[0]
        if asked not in self.executions:
            raise BadConfigError(self._no_execution(asked))
        return asked

    def _no_execution(self, asked: Execution) -> str:
        other = self.executions[0]
        return (
            f"{self.name} is a PyTorch model, which has no {asked} execution here; "
            f"use --execution {other}"
        )

    @abstractmethod
    def check_int8_kernels(self, int8_kernels: bool | None) -> None:
        """Refuse a setting of onnxruntime for models that it does not run."""

    @abstractmethod
    def own_int8_kernels(self, int8_kernels: bool | None) -> bool | None:
        """Give the part of a setting for several models that is this one's: all of it, or None."""

    @property
    def why_not_traced(self) -> str:
        """Why its values cannot be taken apart, as sentences; empty where they can."""
        return ""

    @property
    def why_not_edited(self) -> str:
        """Why its parameters cannot be changed, as sentences; empty where they can."""
        return ""

    def switch_quantizers_off(self) -> "Model":
        """Give the same network with every quantizer switched off, which its name says."""
        raise BadModelError(
            f"The quantizers of {self.name} cannot be switched off here; give the float model that "
            f"it was made from with --float FILE"
        )

    @cached_property
    def stand_in(self) -> "Model":
        """The float network to compare with where no original is known; opened once."""
        return self.switch_quantizers_off()

    def write_out_like(self, quantized: "Model") -> "Model":
        """Give a float network with its operators written as the quantized one has them."""
        del quantized
        return self

    @abstractmethod
    def check_original(self, other: "Model") -> None:
        """Refuse a float model of another framework: the two could not be run side by side."""

    @abstractmethod
    def as_onnx(self, reader: str) -> "OnnxModel":
        """Give it as an ONNX model, for what reads no other; `reader` is who asks."""

    @property
    def stored_constants(self) -> "StoredConstants | None":
        """The constants that its file keeps by name; None where it keeps none so."""
        return None

    @property
    def as_program(self) -> "ProgramModel | None":
        """The model itself where it is a program of torch.export, which has a graph; else None."""
        return None


ModelSource = str | Path | Model
"""The ways to name a model: a bundled one's name, a file, or a model that is open already."""


def open_model(source: ModelSource) -> Model:
    """Open a model file, told apart by its content; one that is open already is given back."""
    if isinstance(source, Model):
        return source
    path, given = find_model(source), str(source)
    # Each kind is imported where it is needed: readers take long to load, and some need extras.
    if holds_weights_alone(path):
        from quantscope.model.torch import WeightsModel

        return WeightsModel(path, given)
    check_file(path, "a model's file", BadModelError)
    from quantscope.model.torch import is_zip

    if path.suffix not in _TORCH_SUFFIXES and not is_zip(path):
        from quantscope.model.onnx import OnnxModel

        return OnnxModel(path, given)
    from quantscope.model.torch import torch_kind

    if torch_kind(path) == "pt2":
        from quantscope.model.torch import ProgramModel

        return ProgramModel(path, given)
    from quantscope.model.torchscript import ArchiveModel

    return ArchiveModel(path, given)


def holds_weights_alone(path: Path) -> bool:
    """Tell a file of weights, which says nothing of layers, by its name; it is not opened."""
    return path.suffix == _WEIGHTS_SUFFIX


def read_network(source: ModelSource) -> Network:
    """Read the layers and quantized tensors of a model, whatever kind of file it is."""
    return open_model(source).network
