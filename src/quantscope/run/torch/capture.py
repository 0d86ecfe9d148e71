"""Tensors of PyTorch programs and TorchScript archives for chosen images."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantscope.arithmetic import QuantParams
from quantscope.data import ImageSet
from quantscope.model import Network
from quantscope.model.torch import torch_kind
from quantscope.model.torchscript import load_torchscript, network_of, open_torchscript
from quantscope.progress import Progress
from quantscope.run.batches import ImageParts, input_batches
from quantscope.run.capture.captured import (
    Capture,
    CapturedTensor,
    Wanted,
    captured,
    find_wanted,
    stored_constants,
)
from quantscope.run.classifier import Classifier
from quantscope.run.onnx.sessions import Execution
from quantscope.run.torch.classifier import archive_classifier, refuse_reference, refuse_runtime
from quantscope.run.torch.programs import Program, as_array, opened_program, run_nodes
from quantscope.run.torch.script import CannotFollowError, Follower

Array = NDArray[Any]

_DTYPES = {"torch.quint8": "uint8", "torch.qint8": "int8", "torch.qint32": "int32"}


def capture_torch(
    path: Path,
    images: ImageSet,
    tensors: Sequence[str] | None,
    *,
    execution: Execution | None,
    batch: int | None,
    progress: Progress,
) -> Capture:
    """As `capture`. A program's execution is reference, an archive's runtime."""
    if path.suffix == ".safetensors" or torch_kind(path) == "pt2":
        refuse_runtime(path, execution)
        with opened_program(path) as program:
            return _of_program(program, images, tensors, batch, progress)
    refuse_reference(path, execution)
    return _of_archive(path, images, tensors, batch, progress)


def _of_program(
    program: Program,
    images: ImageSet,
    tensors: Sequence[str] | None,
    batch: int | None,
    progress: Progress,
) -> Capture:
    network = program.network
    names = {node.name for node in program.nodes} | {program.input}
    wanted = find_wanted(network, tensors, names.__contains__)
    stored = stored_constants(wanted)
    read = {w.file_name: w for w in wanted.values() if w.name not in stored}
    outputs = [operand.name for operand in network.outputs]
    parts, found = ImageParts(), ImageParts()
    done = 0
    for rows, count in program.batches(images, batch):

        def keep(name: str, value: Any, size: int = len(rows), count: int = count) -> None:
            if name in read:
                tensor = read[name].tensor
                dtype = None if tensor is None else tensor.params.dtype
                found.add(name, as_array(value, dtype), size, count)

        values = program.start(rows)
        keep(program.input, values[program.input])
        run_nodes(program.nodes, values, model=program.name, keep=outputs, watch=keep)
        for name in outputs:
            parts.add(name, as_array(values[name]), len(rows), count)
        done += count
        progress("Capturing", done, len(images))
    kept = {read[n].name: captured(read[n], value) for n, value in found.joined().items()} | stored
    return _capture(
        network,
        program.classifier,
        images,
        wanted,
        kept=kept,
        unseen={read[name].name: why for name, why in found.unseen.items()},
        outputs=parts.outputs(program.name),
    )


def _of_archive(
    path: Path,
    images: ImageSet,
    tensors: Sequence[str] | None,
    batch: int | None,
    progress: Progress,
) -> Capture:
    file = open_torchscript(path)
    module = load_torchscript(file)
    network = network_of(file, module)
    classifier = archive_classifier(file, module, network)
    names = {operand.name for layer in network.layers for operand in layer.outputs}
    wanted = find_wanted(network, tensors, names.__contains__)
    stored = stored_constants(wanted)
    reader = _ArchiveReader({w.file_name: w for w in wanted.values() if w.name not in stored})
    outputs = ImageParts()
    output = network.outputs[0].name if network.outputs else "output"
    done = 0
    for rows, count in input_batches(classifier, images, batch):
        scores = classifier.run(rows)
        outputs.add(output, np.array(scores), len(rows), count)
        reader.read(module, rows, count, scores)
        done += count
        progress("Capturing", done, len(images))
    kept, unseen = reader.finish()
    return _capture(
        network,
        classifier,
        images,
        wanted,
        kept=kept | stored,
        unseen=unseen,
        outputs=outputs.outputs(path.name),
    )


@dataclass
class _ArchiveReader:
    """`wanted` by the reader's names of values."""

    wanted: Mapping[str, Wanted]
    integers: ImageParts = field(default_factory=ImageParts)
    values: ImageParts = field(default_factory=ImageParts)
    params: dict[str, QuantParams] = field(default_factory=dict)
    """As the tensors themselves have them: the graph does not say what inner modules give."""
    stuck: str | None = None
    """Why what comes later in the graph was not reached."""
    disturbed: bool = False

    def read(self, module: Any, rows: Array, count: int, scores: Array) -> None:
        import torch

        if self.disturbed:
            return
        follower = Follower(self._watch(len(rows), count))
        try:
            result = follower.run(module, torch.from_numpy(rows))
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
        if self.disturbed:
            why = "running its operators one by one does not give the archive's own output"
            return {}, {w.name: why for w in self.wanted.values()}
        why = self.stuck or "the way that these images take through the graph does not compute it"
        integers, values = self.integers.joined(), self.values.joined()
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


def _capture(
    network: Network,
    classifier: Classifier,
    images: ImageSet,
    wanted: Mapping[str, Wanted],
    *,
    kept: Mapping[str, CapturedTensor],
    unseen: Mapping[str, str],
    outputs: Mapping[str, Array],
) -> Capture:
    return Capture(
        model=network.path.name,
        digest=classifier.digest,
        execution=classifier.execution,
        data=images.name,
        indices=images.indices,
        tensors={name: kept[name] for name in wanted if name in kept},
        unseen=unseen,
        outputs=outputs,
        provenance=classifier.provenance,
    )
