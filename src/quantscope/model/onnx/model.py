"""The opened ONNX file."""

import tempfile
from collections.abc import Mapping
from dataclasses import replace
from functools import cache, cached_property
from hashlib import sha256
from pathlib import Path

import onnx

from quantscope.errors import BadModelError
from quantscope.model.input_uses import InputUse
from quantscope.model.network import Network, Port
from quantscope.model.onnx.file import OnnxFile, ends_in_softmax, load_onnx
from quantscope.model.onnx.graph import OnnxGraph, open_graph
from quantscope.model.onnx.input_uses import input_uses
from quantscope.model.onnx.known import OnnxConstants
from quantscope.model.onnx.lift import LIFTED_OPS, lift_to_qdq
from quantscope.model.onnx.quantizers_off import switch_quantizers_off, write_out_hard_swish
from quantscope.model.onnx.reader import read_onnx
from quantscope.model.opened import Model


class OnnxModel(Model):
    """An ONNX model: `file` is the checked file, without its weights, `proto` the whole model."""

    framework = "onnx"
    executions = ("reference", "runtime")
    bundled_float = "resnet8"
    has_stand_in = True

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

    @cached_property
    def stored_constants(self) -> OnnxConstants:
        return OnnxConstants(self.graph)

    def _read_network(self) -> Network:
        return read_onnx(self.graph)

    def _find_input_uses(self) -> Mapping[str, InputUse]:
        return input_uses(self.graph)

    @cached_property
    def proto(self) -> onnx.ModelProto:
        """The whole model with its weights, shared by all who read it: copy it to change it."""
        return self.file.load_proto()

    @property
    def is_float(self) -> bool:
        """Say whether no operator of the file quantizes or takes scales."""
        return self.file.is_float

    @property
    def quantize_command(self) -> str:
        return f"quantscope quantize {self.given} -o OUT.onnx"

    @property
    def is_lifted(self) -> bool:
        """Say whether QLinear operators hide the file's arithmetic, so that `stated` differs."""
        return self.file.format in ("qoperator", "mixed") or (
            self.file.format == "dynamic" and not LIFTED_OPS.isdisjoint(self.file.op_counts)
        )

    @cached_property
    def stated(self) -> onnx.ModelProto:
        """The arithmetic that the file states: QLinear operators taken apart, the rest as it is.

        It is shared like `proto`.
        """
        return lift_to_qdq(self.proto) if self.is_lifted else self.proto

    @cached_property
    def gives_probabilities(self) -> bool:
        """Say whether the first output is the result of a Softmax."""
        return ends_in_softmax(self.file)

    def switch_quantizers_off(self) -> "OnnxModel":
        """Give the same network with every quantizer switched off; its name says so."""
        proto = switch_quantizers_off(self.stated, self.network, name=self.name)
        found = _open_made(proto, f"{self.name[:_LONGEST_NAME]} with every quantizer off")
        found.is_stand_in = True
        return found

    def write_out_like(self, quantized: Model) -> "OnnxModel":
        """Give a float network as `quantized` has its operators: HardSwish as its definition.

        It is the model itself where the two agree. The other one keeps the path and the digest.
        """
        if "HardSwish" not in self.file.op_counts:
            return self
        # A quantizer that leaves HardSwish as it is has no gate to be paired.
        if "HardSwish" in quantized.as_onnx("pairing").file.op_counts:
            return self
        made = _open_made(write_out_hard_swish(self.proto), self.name)
        made.path, made.given = self.path, self.given
        made.file = replace(made.file, digest=self.digest)
        return made

    def check_original(self, other: Model) -> None:
        if other.framework != self.framework:
            raise BadModelError(
                f"{other.name} is a PyTorch model, but {self.name} is ONNX; "
                f"give its float model as .onnx (bundled: resnet8)"
            )

    def check_int8_kernels(self, int8_kernels: bool | None) -> None:
        del int8_kernels  # onnxruntime runs it, and takes any

    def own_int8_kernels(self, int8_kernels: bool | None) -> bool | None:
        return int8_kernels

    def as_onnx(self, reader: str) -> "OnnxModel":
        del reader
        return self


_LONGEST_NAME = 200  # characters; file systems take 255 bytes


def _open_made(proto: onnx.ModelProto, name: str) -> OnnxModel:
    """Open a model that no file has: it is written under that name, once, until this process ends.

    Its weights are then read like any other file's, when they are asked for.
    """
    content = proto.SerializeToString(deterministic=True)
    path = Path(_folder().name) / sha256(content).hexdigest()[:16] / name
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
    return OnnxModel(path, name)


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="quantscope-made-")
