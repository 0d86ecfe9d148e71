"""Look at inner values of PyTorch programs and archives. Needs the `torch` extra."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from quantscope.arithmetic import QuantParams
from quantscope.data import Feeds, Samples
from quantscope.model import QuantTensor
from quantscope.progress import Progress
from quantscope.run.capture import CapturedTensor, SampleParts, Seen, Wanted, to_captured
from quantscope.run.torch.nodes import as_array, run_nodes
from quantscope.run.torch.script import CannotFollowError, Follower

if TYPE_CHECKING:
    from quantscope.run.torch.archive import ArchiveRunnable
    from quantscope.run.torch.program import ProgramRunnable

Array = NDArray[Any]

_DTYPES = {"torch.quint8": "uint8", "torch.qint8": "int8", "torch.qint32": "int32"}


def see_program(
    program: "ProgramRunnable",
    wanted: Sequence[Wanted],
    samples: Samples,
    *,
    batch: int | None,
    progress: Progress,
) -> Seen:
    """Run a program node by node and keep what is wanted; nothing of it is fused."""
    read = {w.file_name: w for w in wanted}
    outputs = [operand.name for operand in program.network.outputs]
    parts, found = SampleParts(), SampleParts()
    done = 0
    for feeds, rows, count in program.intake.batches(samples, batch):

        def keep(name: str, value: Any, rows: int = rows, count: int = count) -> None:
            if name in read:
                tensor = read[name].tensor
                dtype = None if tensor is None else tensor.params.dtype
                found.add(name, as_array(value, dtype), rows, count)

        values = program.start(feeds)
        for name in program.inputs:
            keep(name, values[name])
        run_nodes(program.nodes, values, model=program.name, keep=outputs, watch=keep)
        for name in outputs:
            parts.add(name, as_array(values[name]), rows, count)
        done += count
        progress("Capturing", done, len(samples))
    return Seen(
        outputs=parts.join(),
        tensors={read[n].name: to_captured(read[n], value) for n, value in found.join().items()},
        unseen={read[name].name: why for name, why in found.unseen.items()},
        left_out=parts.unseen,
    )


def read_values(
    program: "ProgramRunnable", names: Sequence[str], feeds: Feeds
) -> Mapping[str, Any]:
    """Give values of one batch as they were made, whatever is written into them later."""
    start = program.start(feeds)
    found = {name: start[name].clone() for name in start.keys() & set(names)}

    def keep(name: str, value: Any) -> None:
        if name in names:
            found[name] = value.clone() if name in program.writes.touched else value

    outputs = [operand.name for operand in program.network.outputs]
    run_nodes(program.nodes, start, model=program.name, keep=outputs, watch=keep)
    return found


@dataclass(frozen=True, eq=False)
class ProgramReader:
    """Reads the integers of a program's quantized activations: all can be seen."""

    program: "ProgramRunnable"
    tensors: Sequence[QuantTensor]

    @property
    def seen(self) -> list[str]:
        return [tensor.name for tensor in self.tensors]

    @property
    def unseen(self) -> Mapping[str, str]:
        return {}

    def read(self, feeds: Feeds) -> dict[str, Array]:
        names = {tensor.name: tensor.integer_names[0] for tensor in self.tensors}
        found = read_values(self.program, list(names.values()), feeds)
        return {
            tensor.name: as_array(found[names[tensor.name]], tensor.params.dtype)
            for tensor in self.tensors
        }


def see_archive(
    archive: "ArchiveRunnable",
    wanted: Sequence[Wanted],
    samples: Samples,
    *,
    batch: int | None,
    progress: Progress,
) -> Seen:
    """Follow an archive's graph operator by operator, beside the archive run as it ships."""
    network, module = archive.network, archive.model.module
    reader = _ArchiveReader({w.file_name: w for w in wanted})
    outputs = SampleParts()
    output = network.outputs[0].name if network.outputs else "output"
    done = 0
    for feeds, rows, count in archive.intake.batches(samples, batch):
        (images,) = feeds.values()
        scores = archive.scores(feeds)
        outputs.add(output, np.array(scores), rows, count)
        reader.read(module, images, count, scores)
        done += count
        progress("Capturing", done, len(samples))
    kept, unseen = reader.finish()
    return Seen(outputs.join(), kept, unseen, left_out=outputs.unseen)


@dataclass
class _ArchiveReader:
    """Collects values of an archive batch by batch; `wanted` is by the reader's names of values."""

    wanted: Mapping[str, Wanted]
    integers: SampleParts = field(default_factory=SampleParts)
    values: SampleParts = field(default_factory=SampleParts)
    params: dict[str, QuantParams] = field(default_factory=dict)
    """The tensors' own parameters: the graph does not say what inner modules give."""
    stuck: str | None = None
    """The reason why what comes later in the graph was not reached."""
    disturbed: bool = False

    def read(self, module: Any, images: Array, count: int, scores: Array) -> None:
        """Follow one batch; `scores` are what the archive gives when it is run as it ships."""
        import torch

        if self.disturbed:
            return
        follower = Follower(self._watch(len(images), count))
        try:
            result = follower.run(module, torch.from_numpy(images))
        except CannotFollowError as error:
            self.stuck = str(error)
            return
        while isinstance(result, tuple | list):
            result = result[0]
        found = result.dequantize() if result.is_quantized else result
        self.disturbed = not np.array_equal(as_array(found), scores, equal_nan=True)

    def _watch(self, rows: int, count: int) -> Callable[[str, Any], None]:
        import torch

        def watch(name: str, value: Any) -> None:
            if name not in self.wanted or not isinstance(value, torch.Tensor):
                return
            if value.is_quantized:
                self.params[name] = _params_of(value)
                self.integers.add(name, as_array(value.int_repr()), rows, count)
                value = value.dequantize()
            self.values.add(name, as_array(value), rows, count)

        return watch

    def finish(self) -> tuple[dict[str, CapturedTensor], dict[str, str]]:
        """Give the wanted tensors, and the reason for each that could not be seen."""
        if self.disturbed:
            why = "running its operators one by one does not give the archive's own output"
            return {}, {w.name: why for w in self.wanted.values()}
        why = self.stuck or "the way that these images take through the graph does not compute it"
        integers, values = self.integers.join(), self.values.join()
        found, unseen = {}, {}
        for name, w in self.wanted.items():
            if name not in values or (w.tensor is not None and name not in integers):
                unseen[w.name] = self.values.unseen.get(name, why)
                continue
            params, own = self.params.get(name), integers.get(name)
            found[w.name] = CapturedTensor(w.name, w.layer, params, own, values[name])
        return found, unseen


def _params_of(tensor: Any) -> QuantParams:
    dtype = _DTYPES[str(tensor.dtype)]
    if str(tensor.qscheme()) == "torch.per_tensor_affine":
        return QuantParams(tensor.q_scale(), tensor.q_zero_point(), dtype)
    return QuantParams(
        tensor.q_per_channel_scales().numpy().astype(np.float32),
        tensor.q_per_channel_zero_points().numpy(),
        dtype,
        axis=tensor.q_per_channel_axis(),
    )
