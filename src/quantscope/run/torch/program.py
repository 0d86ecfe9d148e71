"""Programs and weights as PyTorch runs them: the arithmetic that they state. Needs `torch`."""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from quantscope.data import Feeds, Intake, Samples, fill_up, rows_of, take_rows
from quantscope.edit import Editor
from quantscope.errors import BadModelError
from quantscope.model import Model, Network, Pairing, QuantTensor, TensorPair
from quantscope.model.torch import (
    ONE_AT_A_TIME,
    ProgramGraph,
    ProgramModel,
    WeightsModel,
    load_program,
    nest_inputs,
)
from quantscope.progress import Progress
from quantscope.run.capture import Seen, Wanted
from quantscope.run.compare import Detail
from quantscope.run.histograms import ValueReader
from quantscope.run.runnable import Runnable
from quantscope.run.torch.nodes import Values, as_array, export_resnet8
from quantscope.run.torch.runnable import (
    Array,
    Outputs,
    TorchRunnable,
    in_pieces,
    joined,
    program_of,
    versions,
)
from quantscope.run.torch.seeing import ProgramReader, read_values, see_program
from quantscope.run.torch.writes import Writes, why_unseen, writes_of
from quantscope.zoo import build_torch, read_safetensors

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram
    from torch.fx import Node

    from quantscope.run.torch.joint_run import ProgramJointRun
    from quantscope.run.torch.whatif import ProgramEditedRunner

_SEE_THROUGH = ("quantize_per_tensor", "dequantize_per_tensor", "view", "flatten", "_to_copy")


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
            **versions(),
            "saved with torch": str(program.file.program["torch_version"]),
        }
        self.nodes: tuple[Node, ...] = tuple(
            node for node in self._loaded.graph.nodes if node.op == "call_function"
        )
        self.constants: Mapping[str, Any] = _constants(self._loaded)

    @property
    def as_program(self) -> "ProgramRunnable":
        return self

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
        return in_pieces(self._within_limits, feeds)

    def _within_limits(self, feeds: Feeds) -> Outputs:
        """Run batches no larger and no smaller than the program takes."""
        size, least = self.intake.most or 1 << 30, self.intake.least
        run = super()._outputs

        def piece(start: int) -> Outputs:
            part = take_rows(feeds, start, start + size)
            return [found[: rows_of(part)] for found in run(fill_up(part, least))]

        return joined([piece(start) for start in range(0, rows_of(feeds), size)])

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


class WeightsRunnable(TorchRunnable):
    """ResNet8 from its weights, executed eagerly: the arithmetic that the module states.

    What looks inside it runs the program that exporting the module gives.
    """

    def __init__(self, model: WeightsModel) -> None:
        self.model, self.execution = model, "reference"
        self._built = build_torch(read_safetensors(model.path))
        self.intake = Intake(model.name, model.inputs)
        self.gives_probabilities = False
        self.provenance = versions()

    @property
    def _module(self) -> Callable[..., Any]:
        return self._built

    def _outputs(self, feeds: Feeds) -> Outputs:
        return in_pieces(super()._outputs, feeds)

    @property
    def network(self) -> Network:
        return self.as_program.network

    @cached_property
    def as_program(self) -> ProgramRunnable:
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


def batch_limits(graph: ProgramGraph) -> tuple[int, int | None]:
    """Give how many images a program takes at once, at least and at most.

    PyTorch has other kernels for a single image, with other last bits in their sums: alone it would
    have a few other integers than among others. So two are the least, where the program takes them.
    """
    batch = graph.types[graph.inputs[0]].shape[0] if graph.inputs else None
    least, most = graph.limits.get(str(batch), (None, None))
    takes_two = not isinstance(batch, int) and (most is None or most > 1)
    return max(least or 1, 2 if takes_two else 1), most


def _constants(program: "ExportedProgram") -> dict[str, Any]:
    held = {**program.constants, **program.state_dict}
    return {
        spec.arg.name: held[spec.target].detach()
        for spec in program.graph_signature.input_specs
        if spec.target is not None
    }


def _ends_in_softmax(graph: ProgramGraph) -> bool:
    """Say whether a softmax makes the first output, perhaps quantized or reshaped after it."""
    makers = {name: node for node in graph.nodes for name in node.outputs}
    node = makers.get(graph.outputs[0]) if graph.outputs else None
    while node is not None and node.op.split(".")[1] in _SEE_THROUGH:
        node = makers.get(node.reads[0])
    return node is not None and node.op.split(".")[1] in ("softmax", "_softmax")
