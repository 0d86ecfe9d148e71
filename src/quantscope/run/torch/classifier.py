"""PyTorch models as classifiers. Needs the `torch` extra."""

import hashlib
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from quantscope.errors import BadConfigError, BadModelError
from quantscope.model.network import Network, show_shape
from quantscope.model.torch import (
    ONE_AT_A_TIME,
    ProgramGraph,
    Pt2File,
    TensorType,
    first_line,
    load_program,
    open_pt2,
    program_graph,
    torch_kind,
)
from quantscope.model.torchscript import (
    TorchScriptFile,
    load_torchscript,
    network_of,
    open_torchscript,
)
from quantscope.run.classifier import Classifier
from quantscope.run.cpu import cpu_name
from quantscope.run.in_order import cores, side_by_side
from quantscope.run.onnx.sessions import Execution
from quantscope.run.torch.threads import one_thread_each
from quantscope.zoo import build_torch, read_safetensors

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram
    from torch.jit import ScriptModule

Batch = NDArray[np.generic]
Scores = NDArray[np.floating]

_PIECE = 64
_SEE_THROUGH = ("quantize_per_tensor", "dequantize_per_tensor", "view", "flatten", "_to_copy")


def open_torch(path: Path, *, execution: Execution | None = None) -> Classifier:
    """ResNet8's weights, a program of torch.export or a TorchScript archive.

    Each has one execution: the first two compute what they state, an archive's operators are the
    kernels that ship.
    """
    if path.suffix == ".safetensors":
        refuse_runtime(path, execution)
        return _open_weights(path)
    if torch_kind(path) == "pt2":
        refuse_runtime(path, execution)
        return _open_program(path)
    refuse_reference(path, execution)
    file = open_torchscript(path)
    module = load_torchscript(file)
    return archive_classifier(file, module, network_of(file, module))


def refuse_reference(path: Path, execution: Execution | None) -> None:
    if execution == "reference":
        raise BadConfigError(
            f"{path.name} is a TorchScript archive, whose operators are integer kernels: it has no "
            f"reference execution; use --execution runtime"
        )


def refuse_runtime(path: Path, execution: Execution | None) -> None:
    if execution == "runtime":
        raise BadConfigError(
            f"{path.name} is a PyTorch model, which has no runtime execution here; "
            f"use --execution reference"
        )


def _open_weights(path: Path) -> Classifier:
    """ResNet8 from its weights, executed eagerly: the arithmetic that the module states."""
    module = build_torch(read_safetensors(path))
    return Classifier(
        name=path.name,
        digest=hashlib.sha256(path.read_bytes()).hexdigest(),
        execution="reference",
        input_shape=(3, 32, 32),
        input_dtype=np.dtype(np.float32),
        gives_probabilities=False,
        run=_in_pieces(_runner(module, path.name)),
        provenance=_here(),
    )


def _open_program(path: Path) -> Classifier:
    file = open_pt2(path)
    graph = program_graph(file)
    _image_input(graph, path.name)
    return program_classifier(file, graph, load_program(file))


def program_classifier(
    file: Pt2File, graph: ProgramGraph, program: "ExportedProgram"
) -> Classifier:
    """A program as it states itself: quantizers and float operators in turn, nothing fused."""
    name = file.path.name
    images = _image_input(graph, name)
    batch, *shape = images.shape
    with ONE_AT_A_TIME:
        run = _runner(program.module(), name)
    return Classifier(
        name=name,
        digest=file.digest,
        execution="reference",
        input_shape=tuple(dim if isinstance(dim, int) else None for dim in shape),
        input_dtype=np.dtype(images.dtype),
        gives_probabilities=_ends_in_softmax(graph),
        run=(run if isinstance(batch, int) else _in_pieces(_within(*batch_limits(graph), run))),
        fixed_batch=batch if isinstance(batch, int) else None,
        provenance={**_here(), "saved with torch": str(file.program["torch_version"])},
    )


def archive_classifier(
    file: TorchScriptFile, module: "ScriptModule", network: Network
) -> Classifier:
    """A TorchScript archive as it ships, on torch's quantized kernels."""
    import torch

    last = network.outputs[0].source if network.outputs else None
    return Classifier(
        name=file.path.name,
        digest=file.digest,
        execution="runtime",
        input_shape=_archive_input(network),
        input_dtype=np.dtype(np.float32),
        gives_probabilities=last is not None and network.layer(last).op_type == "Softmax",
        run=_runner(module, file.path.name),
        provenance={**_here(), "quantized engine": str(torch.backends.quantized.engine)},
    )


def _here() -> dict[str, str]:
    import torch

    versions = {"torch": torch.__version__, "quantscope": version("quantscope")}
    return {**versions, "cpu": cpu_name()}


def _archive_input(network: Network) -> tuple[int | None, ...]:
    """As it was traced, or else by what the first layers do with it."""
    name, count = network.path.name, len(network.inputs)
    if count != 1:
        raise BadModelError(f"{name} has {count} inputs; a classifier of images has one")
    shape = network.inputs[0].shape
    if shape is None:
        channels = _channels(network)
        turns = bool(network.layers) and network.layers[0].op_type == "Transpose"
        return (None, None, channels) if turns else (channels, None, None)
    if len(shape) != 4:
        raise BadModelError(
            f"The input of {name} was traced with the shape {show_shape(shape)}; images need four "
            "dimensions, such as [N, 3, 32, 32]"
        )
    return tuple(dim if isinstance(dim, int) else None for dim in shape[1:])


def _channels(network: Network) -> int | None:
    """What the first convolution takes."""
    first = next((layer for layer in network.layers if layer.op_type == "Conv"), None)
    if first is None or first.weight is None or first.weight.shape is None:
        return None
    a_group, groups = first.weight.shape[1], first.attributes.get("group", 1)
    return a_group * groups if isinstance(a_group, int) and isinstance(groups, int) else None


def _image_input(graph: ProgramGraph, model: str) -> TensorType:
    if len(graph.inputs) != 1:
        found = ", ".join(graph.inputs) or "none"
        raise BadModelError(
            f"{model} has {len(graph.inputs)} inputs ({found}); a classifier of images has one"
        )
    kind = graph.types[graph.inputs[0]]
    if len(kind.shape) != 4:
        raise BadModelError(
            f"The input {graph.inputs[0]!r} of {model} has the shape {show_shape(kind.shape)}; "
            "images need four dimensions, such as [N, 3, 32, 32]"
        )
    try:
        np.dtype(kind.dtype)
    except TypeError:
        raise BadModelError(
            f"The input {graph.inputs[0]!r} of {model} is {kind.dtype}, which images cannot be "
            f"given in; the usual ones are float32 and uint8"
        ) from None
    return kind


def _ends_in_softmax(graph: ProgramGraph) -> bool:
    makers = {name: node for node in graph.nodes for name in node.outputs}
    node = makers.get(graph.outputs[0]) if graph.outputs else None
    while node is not None and node.op.split(".")[1] in _SEE_THROUGH:
        node = makers.get(node.reads[0])
    return node is not None and node.op.split(".")[1] in ("softmax", "_softmax")


def batch_limits(graph: ProgramGraph) -> tuple[int, int | None]:
    """How many images a program takes at once, at least and at most.

    PyTorch has other kernels for a single image, with other last bits in their sums: alone it would
    have a few other integers than among others. So two are the least, where the program takes them.
    """
    batch = graph.types[graph.inputs[0]].shape[0] if graph.inputs else None
    least, most = graph.limits.get(str(batch), (None, None))
    takes_two = not isinstance(batch, int) and (most is None or most > 1)
    return max(least or 1, 2 if takes_two else 1), most


def _within(
    least: int, most: int | None, run: Callable[[Batch], Scores]
) -> Callable[[Batch], Scores]:
    """Batches no larger and no smaller than the program takes."""
    size = most or 1 << 30

    def run_within(images: Batch) -> Scores:
        parts = []
        for start in range(0, len(images), size):
            part = images[start : start + size]
            filler = np.repeat(part[-1:], max(least - len(part), 0), axis=0)
            parts.append(run(np.concatenate([part, filler]))[: len(part)])
        return np.concatenate(parts)

    return run_within


def _in_pieces(run: Callable[[Batch], Scores]) -> Callable[[Batch], Scores]:
    """A batch in pieces, one a core: threads that share each short operator mostly wait."""

    def run_in_pieces(images: Batch) -> Scores:
        if len(images) <= _PIECE:
            return run(images)
        pieces = [images[start : start + _PIECE] for start in range(0, len(images), _PIECE)]
        with one_thread_each(cores()):
            found = [scores for _, scores in side_by_side(run, pieces, threads=cores())]
        return np.concatenate(found)

    return run_in_pieces


def _runner(module: "Callable[[torch.Tensor], Any]", model: str) -> Callable[[Batch], Scores]:
    import torch

    def run(images: Batch) -> Scores:
        try:
            with torch.inference_mode():
                scores = module(torch.from_numpy(images))
        except Exception as error:  # of any kind: the operators are the file's
            raise BadModelError(f"{model} failed while running: {first_line(error)}") from None
        while isinstance(scores, tuple | list | dict) and len(scores):
            scores = next(iter(scores.values() if isinstance(scores, dict) else scores))
        if not isinstance(scores, torch.Tensor):
            raise BadModelError(f"{model} gives no tensor of scores")
        found: Scores = scores.float().numpy() if not scores.is_floating_point() else scores.numpy()
        return found

    return run
