"""Run PyTorch's files: programs, archives and weights. Needs the `torch` extra.

Each has one execution: programs and weights compute what they state, an archive's operators are the
kernels that ship.
"""

import copy
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cached_property, partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from quantscope.data import Feeds, Intake, Samples, fill_up, rows_of, take_rows
from quantscope.edit import Editor
from quantscope.errors import BadModelError
from quantscope.model import Model, Network, Pairing, Port, QuantTensor, TensorPair, show_shape
from quantscope.model.torch import (
    ONE_AT_A_TIME,
    ProgramGraph,
    ProgramModel,
    WeightsModel,
    first_line,
    load_program,
    nest_inputs,
)
from quantscope.model.torchscript import ArchiveModel
from quantscope.progress import Progress
from quantscope.run.batches import cores, run_side_by_side
from quantscope.run.capture import Seen, Wanted
from quantscope.run.compare import Detail
from quantscope.run.cpu import cpu_name
from quantscope.run.histograms import ValueReader
from quantscope.run.runnable import Runnable, Scores
from quantscope.run.torch.nodes import Values, as_array, export_resnet8
from quantscope.run.torch.seeing import ProgramReader, read_values, see_archive, see_program
from quantscope.run.torch.threads import one_thread_each
from quantscope.run.torch.writes import Writes, why_unseen, writes_of
from quantscope.zoo import build_torch, read_safetensors

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram
    from torch.fx import Node

    from quantscope.run.torch.joint_run import ProgramJointRun
    from quantscope.run.torch.whatif import ProgramEditedRunner

Array = NDArray[Any]
Outputs = list["torch.Tensor"]

_PIECE = 64
_SEE_THROUGH = ("quantize_per_tensor", "dequantize_per_tensor", "view", "flatten", "_to_copy")


def open_torch(model: Model, *, threads: int = 0) -> "TorchRunnable":
    """Open any of PyTorch's files; `threads` are those that compare it."""
    match model:
        case WeightsModel():
            return WeightsRunnable(model)
        case ProgramModel():
            return ProgramRunnable(model, threads=threads)
        case ArchiveModel():
            return ArchiveRunnable(model)
        case _:
            raise BadModelError(f"{model.name} is not a file that PyTorch runs")


class TorchRunnable(Runnable):
    """A PyTorch file in its one execution: a callable that takes and gives tensors."""

    @property
    @abstractmethod
    def _module(self) -> Callable[..., Any]: ...

    @property
    def _output_names(self) -> tuple[str, ...]:
        return tuple(port.name for port in self.model.outputs)

    def run(self, feeds: Feeds) -> dict[str, Array]:
        return self.outputs(feeds)

    def outputs(self, feeds: Feeds) -> dict[str, Array]:
        """Give all outputs of one batch by their names, however the program nests them."""
        found = self._outputs(feeds)
        names = [*self._output_names, *(f"output{at}" for at in range(len(found)))]
        return {name: as_array(each) for name, each in zip(names, found, strict=False)}

    def scores(self, feeds: Feeds) -> Scores:
        first = self._outputs(feeds)[0]
        found: Scores = (first if first.is_floating_point() else first.float()).numpy()
        return found

    def _outputs(self, feeds: Feeds) -> Outputs:
        """Give all tensors that a batch gives, however they are nested."""
        import torch

        try:
            with torch.inference_mode():
                found = self._call([torch.from_numpy(array) for array in feeds.values()])
        except Exception as error:  # of any kind: the operators are the file's
            raise BadModelError(f"{self.name} failed while running: {first_line(error)}") from None
        flat = _flat(found)
        if not flat or not isinstance(flat[0], torch.Tensor):
            raise BadModelError(f"{self.name} gives no tensor of scores")
        return [each for each in flat if isinstance(each, torch.Tensor)]

    def _call(self, inputs: "Sequence[torch.Tensor]") -> Any:
        """Run the module on its inputs in order."""
        return self._module(*inputs)

    def spread(self, threads: int) -> AbstractContextManager[None]:
        return one_thread_each(threads)


class WeightsRunnable(TorchRunnable):
    """ResNet8 from its weights, executed eagerly: the arithmetic that the module states.

    What looks inside it runs the program that exporting the module gives.
    """

    def __init__(self, model: WeightsModel) -> None:
        self.model, self.execution = model, "reference"
        self._built = build_torch(read_safetensors(model.path))
        self.intake = Intake(model.name, model.inputs)
        self.gives_probabilities = False
        self.provenance = _here()

    @property
    def _module(self) -> Callable[..., Any]:
        return self._built

    def _outputs(self, feeds: Feeds) -> Outputs:
        return _in_pieces(super()._outputs, feeds)

    @property
    def network(self) -> Network:
        return self.as_program.network

    @cached_property
    def as_program(self) -> "ProgramRunnable":
        with export_resnet8(self.model) as program:
            return ProgramRunnable(program, stands_for=self.model).load()

    def is_value(self, name: str) -> bool:
        return self.as_program.is_value(name)

    def see(
        self, wanted: Sequence[Wanted], samples: Samples, *, batch: int | None, progress: Progress
    ) -> Seen:
        return self.as_program.see(wanted, samples, batch=batch, progress=progress)

    def reader(self, tensors: Sequence[QuantTensor]) -> ValueReader:
        return self.as_program.reader(tensors)

    def values(self, names: Sequence[str], feeds: Feeds) -> Mapping[str, Array]:
        return self.as_program.values(names, feeds)

    def readable(self, pair: TensorPair) -> tuple[TensorPair | None, str | None]:
        return self.as_program.readable(pair)

    def against(
        self, floats: Runnable, pairing: Pairing | None = None, *, detail: Detail = "full"
    ) -> "ProgramJointRun":
        return self.as_program.against(floats, pairing, detail=detail)

    def under_edits(
        self, editor: Editor, samples: Samples, *, batch: int | None, kept_bytes_limit: int
    ) -> "ProgramEditedRunner":
        del editor, samples, batch, kept_bytes_limit
        raise BadModelError(f"{self.name} is not quantized: it has no parameters to edit")


class ProgramRunnable(TorchRunnable):
    """A program as it states itself: quantizers and float operators in turn, nothing fused.

    `nodes` are those that compute, in order; `constants` the weights by their names there. With
    `stands_for` it goes by the name and digest of the model that it was exported from.
    """

    def __init__(
        self, program: ProgramModel, *, stands_for: Model | None = None, threads: int = 0
    ) -> None:
        self.threads = threads
        # First, for it says how to install PyTorch where that is missing.
        self._loaded: ExportedProgram = load_program(program.file)
        self.program, self.model, self.execution = program, stands_for or program, "reference"
        graph = program.graph
        least, most = batch_limits(graph)
        self.inputs = tuple(port.name for port in program.inputs)
        # The file's name goes before that of what was exported from it.
        self.intake = replace(Intake.of(program, least=least, most=most), model=self.name)
        self.gives_probabilities = _ends_in_softmax(graph)
        self.provenance = {
            **_here(),
            "saved with torch": str(program.file.program["torch_version"]),
        }
        self.nodes: tuple[Node, ...] = tuple(
            node for node in self._loaded.graph.nodes if node.op == "call_function"
        )
        self.constants: Mapping[str, Any] = _constants(self._loaded)

    @cached_property
    def network(self) -> Network:
        network = self.program.network
        if self.model is self.program:
            return network
        return replace(network, path=self.model.path, digest=self.model.digest)

    def load(self) -> "ProgramRunnable":
        """Read all that is read from the file when it is first asked for: the file may go."""
        _ = self.network
        return self

    def with_tensors(self, tensors: tuple[QuantTensor, ...]) -> "ProgramRunnable":
        """Give the same program whose network has other tensors."""
        other = copy.copy(self)
        other.__dict__["network"] = replace(self.network, tensors=tensors)
        return other

    @cached_property
    def _module(self) -> Callable[..., Any]:
        with ONE_AT_A_TIME:
            return self._loaded.module()

    @property
    def _output_names(self) -> tuple[str, ...]:
        return self.program.graph.outputs

    def _call(self, inputs: "Sequence[torch.Tensor]") -> Any:
        args, kwargs = nest_inputs(self._loaded, inputs)
        return self._module(*args, **kwargs)

    def _outputs(self, feeds: Feeds) -> Outputs:
        if self.intake.fixed_batch:
            return super()._outputs(feeds)
        return _in_pieces(self._within_limits, feeds)

    def _within_limits(self, feeds: Feeds) -> Outputs:
        """Run batches no larger and no smaller than the program takes."""
        size, least = self.intake.most or 1 << 30, self.intake.least
        run = super()._outputs

        def piece(start: int) -> Outputs:
            part = take_rows(feeds, start, start + size)
            return [found[: rows_of(part)] for found in run(fill_up(part, least))]

        return _joined([piece(start) for start in range(0, rows_of(feeds), size)])

    @cached_property
    def writes(self) -> Writes:
        """The values that are written into after they were made."""
        return writes_of(self.nodes)

    def start(self, feeds: Feeds) -> Values:
        """Give the values that a run begins with; what it may write into is its own.

        `feeds` may be another program's, whose inputs in the same order go by other names.
        """
        import torch

        given = zip(self.inputs, feeds.values(), strict=True)
        values = {**self.constants, **{name: torch.from_numpy(rows) for name, rows in given}}
        for name in values.keys() & self.writes.touched:
            values[name] = values[name].clone()
        return values

    def is_value(self, name: str) -> bool:
        return name in self.inputs or any(node.name == name for node in self.nodes)

    def see(
        self, wanted: Sequence[Wanted], samples: Samples, *, batch: int | None, progress: Progress
    ) -> Seen:
        return see_program(self, wanted, samples, batch=batch, progress=progress)

    def reader(self, tensors: Sequence[QuantTensor]) -> ValueReader:
        return ProgramReader(self, tensors)

    def values(self, names: Sequence[str], feeds: Feeds) -> Mapping[str, Array]:
        found = read_values(self, names, feeds)
        return {name: as_array(value) for name, value in found.items()}

    def readable(self, pair: TensorPair) -> tuple[TensorPair | None, str | None]:
        """Give a pair that reads float weights from the program; refuse values that change."""
        from quantscope.run.torch.weights import float_values

        if pair.float_name in self.writes.changing:
            return None, why_unseen(self.name)
        return replace(pair, read_float=partial(float_values, self, pair)), None

    def against(
        self, floats: Runnable, pairing: Pairing | None = None, *, detail: Detail = "full"
    ) -> "ProgramJointRun":
        from quantscope.run.torch.joint_run import ProgramJointRun, pair_programs

        program = program_of(floats)
        return ProgramJointRun(
            program, self, pairing or pair_programs(program, self), detail=detail
        )

    def under_edits(
        self, editor: Editor, samples: Samples, *, batch: int | None, kept_bytes_limit: int
    ) -> "ProgramEditedRunner":
        from quantscope.run.torch.whatif import ProgramEditedRunner

        return ProgramEditedRunner(
            self, editor, samples, batch=batch, kept_bytes_limit=kept_bytes_limit
        )


class ArchiveRunnable(TorchRunnable):
    """A TorchScript archive as it ships, on torch's quantized kernels."""

    model: ArchiveModel

    def __init__(self, model: ArchiveModel) -> None:
        import torch

        network = model.network
        self.model, self.execution = model, "runtime"
        last = network.outputs[0].source if network.outputs else None
        self.intake = Intake(model.name, (_archive_port(network),))
        self.gives_probabilities = last is not None and network.layer(last).op_type == "Softmax"
        self.provenance = {
            **_here(),
            "quantized engine": str(torch.backends.quantized.engine),
        }

    @property
    def _module(self) -> Callable[..., Any]:
        return self.model.module

    def is_value(self, name: str) -> bool:
        return any(o.name == name for layer in self.network.layers for o in layer.outputs)

    def see(
        self, wanted: Sequence[Wanted], samples: Samples, *, batch: int | None, progress: Progress
    ) -> Seen:
        return see_archive(self, wanted, samples, batch=batch, progress=progress)

    def reader(self, tensors: Sequence[QuantTensor]) -> ValueReader:
        del tensors
        raise self._refusal()

    def values(self, names: Sequence[str], feeds: Feeds) -> Mapping[str, Array]:
        del names, feeds
        raise self._refusal()

    def against(
        self, floats: Runnable, pairing: Pairing | None = None, *, detail: Detail = "full"
    ) -> "ProgramJointRun":
        del floats, pairing, detail
        raise self._refusal()

    def under_edits(
        self, editor: Editor, samples: Samples, *, batch: int | None, kept_bytes_limit: int
    ) -> "ProgramEditedRunner":
        del editor, samples, batch, kept_bytes_limit
        raise self._refusal()

    def _refusal(self) -> BadModelError:
        return BadModelError(
            f"{self.name} is a TorchScript archive, not a program of torch.export; its "
            f"integers can be captured, but it is not compared or edited"
        )


def program_of(runnable: Runnable) -> ProgramRunnable:
    """Give what can be run node by node: a program, or the one that weights are exported as."""
    match runnable:
        case ProgramRunnable():
            return runnable
        case WeightsRunnable():
            return runnable.as_program
        case ArchiveRunnable():
            raise runnable._refusal()
        case _:
            raise BadModelError(f"{runnable.name} is not a program of PyTorch")


def batch_limits(graph: ProgramGraph) -> tuple[int, int | None]:
    """Give how many images a program takes at once, at least and at most.

    PyTorch has other kernels for a single image, with other last bits in their sums: alone it would
    have a few other integers than among others. So two are the least, where the program takes them.
    """
    batch = graph.types[graph.inputs[0]].shape[0] if graph.inputs else None
    least, most = graph.limits.get(str(batch), (None, None))
    takes_two = not isinstance(batch, int) and (most is None or most > 1)
    return max(least or 1, 2 if takes_two else 1), most


def _in_pieces(run: Callable[[Feeds], Outputs], feeds: Feeds) -> Outputs:
    """Run a batch in pieces, one a core: threads that share each short operator mostly wait."""
    rows = rows_of(feeds)
    if rows <= _PIECE:
        return run(feeds)
    pieces = [take_rows(feeds, start, start + _PIECE) for start in range(0, rows, _PIECE)]
    with one_thread_each(cores()):
        return _joined([found for _, found in run_side_by_side(run, pieces, threads=cores())])


def _joined(parts: Sequence[Outputs]) -> Outputs:
    import torch

    return parts[0] if len(parts) == 1 else [torch.cat(each) for each in zip(*parts, strict=True)]


def _flat(found: Any) -> list[Any]:
    """List what a module gives, however tuples, lists and dictionaries nest it."""
    if isinstance(found, dict):
        found = list(found.values())
    if not isinstance(found, tuple | list):
        return [found]
    return [each for part in found for each in _flat(part)]


def _constants(program: "ExportedProgram") -> dict[str, Any]:
    held = {**program.constants, **program.state_dict}
    return {
        spec.arg.name: held[spec.target].detach()
        for spec in program.graph_signature.input_specs
        if spec.target is not None
    }


def _here() -> dict[str, str]:
    import torch

    versions = {"torch": torch.__version__, "quantscope": version("quantscope")}
    return {**versions, "cpu": cpu_name()}


def _archive_port(network: Network) -> Port:
    """Describe the input as it was traced, or else by what the first layers do with it."""
    name, count = network.path.name, len(network.inputs)
    if count != 1:
        raise BadModelError(f"{name} has {count} inputs; a classifier of images has one")
    operand = network.inputs[0]
    shape = operand.shape
    if shape is None:
        channels = _channels(network)
        turns = bool(network.layers) and network.layers[0].op_type == "Transpose"
        shape = ("N", None, None, channels) if turns else ("N", channels, None, None)
    elif len(shape) != 4:
        raise BadModelError(
            f"The input of {name} was traced with the shape {show_shape(shape)}; images need four "
            "dimensions, such as [N, 3, 32, 32]"
        )
    # A traced batch is an example's, not a limit.
    return Port(operand.name, "float32", ("N", *shape[1:]))


def _channels(network: Network) -> int | None:
    """Give the number of channels that the first convolution takes; None where not known."""
    first = next((layer for layer in network.layers if layer.op_type == "Conv"), None)
    if first is None or first.weight is None or first.weight.shape is None:
        return None
    a_group, groups = first.weight.shape[1], first.attributes.get("group", 1)
    return a_group * groups if isinstance(a_group, int) and isinstance(groups, int) else None


def _ends_in_softmax(graph: ProgramGraph) -> bool:
    """Say whether a softmax makes the first output, perhaps quantized or reshaped after it."""
    makers = {name: node for node in graph.nodes for name in node.outputs}
    node = makers.get(graph.outputs[0]) if graph.outputs else None
    while node is not None and node.op.split(".")[1] in _SEE_THROUGH:
        node = makers.get(node.reads[0])
    return node is not None and node.op.split(".")[1] in ("softmax", "_softmax")
