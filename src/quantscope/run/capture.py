"""The values of chosen tensors for chosen images, as integers and as real numbers.

ONNX files are read here, PyTorch's in `torch_capture`. Looking must not change what is looked at.
With optimizations off, more outputs change nothing. In runtime execution they can: an integer
tensor made an output leaves uint8 models as they are, but stops some int8 fusions. So runtime
values come only from a session that runs the same kernels, and gives the same scores, as one
without additions; what cannot be seen so is listed with the reason.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from quantscope.arithmetic import QuantParams, dequantize
from quantscope.data import ImageSet
from quantscope.edit import lift_to_qdq
from quantscope.errors import BadConfigError, BadDataError, BadModelError
from quantscope.model import Network, QuantTensor, load_onnx, read_onnx
from quantscope.model.onnx_graph import open_graph
from quantscope.progress import Progress, silent
from quantscope.run.classifier import TORCH_SUFFIXES, Classifier, fitting_input
from quantscope.run.kernels import KernelMap, kernel_map
from quantscope.run.layer_names import named_by_layer
from quantscope.run.onnx_classifier import open_onnx
from quantscope.run.sessions import Execution, reason_of, session_of
from quantscope.zoo import find_model

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class CapturedTensor:
    """One tensor, images along its first axis (constants have none).

    A tensor that is not quantized has only `values`; `integers` and `params` are None.
    """

    name: str
    layer: str | None
    params: QuantParams | None
    integers: Array | None
    values: Array


@dataclass(frozen=True, eq=False)
class Capture:
    """What was asked for, by the names that `Network` gives.

    `unseen` are tensors that cannot be seen without changing what runs, and why. `outputs` are the
    model's own outputs for the same images. `kernels`, by layer, is None in reference
    execution and for PyTorch files.
    """

    model: str
    digest: str
    execution: Execution
    data: str
    indices: NDArray[np.int64]
    tensors: Mapping[str, CapturedTensor]
    unseen: Mapping[str, str]
    outputs: Mapping[str, Array]
    provenance: Mapping[str, str] = field(default_factory=dict)
    kernels: KernelMap | None = None

    def __getitem__(self, name: str) -> CapturedTensor:
        if name in self.tensors:
            return self.tensors[name]
        if name in self.unseen:
            raise BadModelError(f"{name} of {self.model} cannot be seen: {self.unseen[name]}")
        raise BadModelError(f"{name} was not captured; ask for it: {', '.join(self.tensors)}")

    @property
    def by_layer(self) -> dict[str, list[CapturedTensor]]:
        """Tensors under the layer that makes them; inputs and constants under ""."""
        found: dict[str, list[CapturedTensor]] = {}
        for tensor in self.tensors.values():
            found.setdefault(tensor.layer or "", []).append(tensor)
        return found


@dataclass(frozen=True)
class Wanted:
    """`file_name` is the value to read in the executed graph."""

    name: str
    layer: str | None
    file_name: str
    tensor: QuantTensor | None

    @property
    def is_stored(self) -> bool:
        return self.tensor is not None and self.tensor.has_data


def capture(
    model: str | Path,
    images: ImageSet,
    tensors: Sequence[str] | None = None,
    *,
    execution: Execution | None = None,
    int8_kernels: bool | None = None,
    threads: int = 0,
    batch: int | None = None,
    progress: Progress = silent,
) -> Capture:
    """Run every image of `images` and keep the values of `tensors`.

    Names are those of `Network`, or of the file; a layer's name stands for its output. None means
    all quantized activations. All values are kept: choose images (`ImageSet.select`) accordingly.
    `execution` None means reference for ONNX and, for PyTorch, the only one there is. `threads`
    and `int8_kernels` are onnxruntime's; PyTorch files take none of the second.
    """
    path = find_model(model)
    if len(images) == 0:
        raise BadDataError(f"{images.name} holds no images; give at least one")
    if batch is not None and batch < 1:
        raise BadConfigError(f"A batch holds at least one image, not {batch}")
    if path.suffix in TORCH_SUFFIXES and path.exists():
        refuse_int8_kernels(path, int8_kernels)
        from quantscope.run.torch_capture import capture_torch

        return capture_torch(
            path, images, tensors, execution=execution, batch=batch, progress=progress
        )
    return _capture_onnx(
        path,
        images,
        tensors,
        execution=execution or "reference",
        int8_kernels=int8_kernels,
        threads=threads,
        batch=batch,
        progress=progress,
    )


def refuse_int8_kernels(path: Path, int8_kernels: bool | None) -> None:
    """For PyTorch files, which have no such setting."""
    if int8_kernels is not None:
        raise BadConfigError(
            f"{path.name} is a PyTorch model, but int8 kernels are a setting of onnxruntime; "
            f"leave --int8-kernels and --no-int8-kernels out"
        )


def _capture_onnx(
    path: Path,
    images: ImageSet,
    tensors: Sequence[str] | None,
    *,
    execution: Execution,
    int8_kernels: bool | None,
    threads: int,
    batch: int | None,
    progress: Progress,
) -> Capture:
    file = load_onnx(path)
    network = read_onnx(file)

    def is_computed(name: str) -> bool:
        graph = open_graph(file)
        return name in graph.types and not graph.is_constant(name)

    wanted = find_wanted(network, tensors, is_computed)
    stored = stored_constants(wanted)
    computed = [w for w in wanted.values() if w.name not in stored]
    classifier = open_onnx(file, execution=execution, int8_kernels=int8_kernels, threads=threads)
    proto = file.load_proto()
    if execution == "reference" and file.format in ("qoperator", "mixed"):
        proto = lift_to_qdq(proto)
    elif execution == "runtime":
        proto = named_by_layer(proto, network)
    reader = _Reader(proto, classifier, images, execution, int8_kernels, threads, batch, progress)
    kernels = kernel_map(proto, int8_kernels=int8_kernels) if execution == "runtime" else None
    outputs, found, unseen = reader.read(computed, [spec.name for spec in file.outputs], kernels)
    kept = {w.name: captured(w, found[w.name]) for w in computed if w.name in found} | stored
    return Capture(
        model=path.name,
        digest=file.digest,
        execution=execution,
        data=images.name,
        indices=images.indices,
        tensors={name: kept[name] for name in wanted if name in kept},
        unseen=unseen,
        outputs=outputs,
        provenance=classifier.provenance,
        kernels=kernels,
    )


def instrumented(proto: onnx.ModelProto, file_names: Sequence[str]) -> onnx.ModelProto:
    """A copy whose outputs also hold these values."""
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    have = {output.name for output in copy.graph.output}
    for name in dict.fromkeys(file_names):
        if name not in have:
            copy.graph.output.append(onnx.helper.make_empty_tensor_value_info(name))
    return copy


def input_batches(
    classifier: Classifier,
    images: ImageSet,
    batch: int | None = None,
    *,
    least: int = 1,
    most: int | None = None,
) -> Iterator[tuple[Array, int]]:
    """The model's input, batch by batch, and how many of its rows are images.

    A model that takes no fewer than `least` images, or only a fixed number, gets the rest of a
    batch filled up with the last image.
    """
    size = classifier.fixed_batch or min(batch or classifier.default_batch(), most or 1 << 30)
    ends = ((start, min(start + size, len(images))) for start in range(0, len(images), size))
    return input_pieces(classifier, images, ends, least=least)


def input_pieces(
    classifier: Classifier,
    images: ImageSet,
    pieces: Iterable[tuple[int, int]],
    *,
    least: int = 1,
) -> Iterator[tuple[Array, int]]:
    """As `input_batches`, from one row to before another."""
    least = classifier.fixed_batch or least
    rows = fitting_input(classifier, images)
    for start, end in pieces:
        part = rows(start, end)
        count = len(part)
        if count < least:
            part = np.concatenate([part, np.repeat(part[-1:], least - count, axis=0)])
        yield part, count


@dataclass(frozen=True)
class _Reader:
    proto: onnx.ModelProto
    classifier: Classifier
    images: ImageSet
    execution: Execution
    int8_kernels: bool | None
    threads: int
    batch: int | None
    progress: Progress

    def read(
        self, wanted: Sequence[Wanted], outputs: Sequence[str], kernels: KernelMap | None
    ) -> tuple[dict[str, Array], dict[str, Array], dict[str, str]]:
        """The model's outputs, what could be read, and why the rest could not."""
        if kernels is None:
            values = self._run([w.file_name for w in wanted], outputs)
            return _split(values, wanted, outputs)
        plain = self._run([], outputs)
        together, unseen = self._same(wanted, outputs, plain, kernels)
        if together is not None:
            return _split(together, wanted, outputs)
        # Together they disturb; alone each may not.
        found: dict[str, Array] = {}
        reasons: dict[str, str] = {}
        for w in wanted:
            alone, unseen = self._same([w], outputs, plain, kernels)
            if alone is None:
                reasons[w.name] = unseen
            else:
                found[w.name] = alone[w.file_name]
        return {name: plain[name] for name in outputs}, found, reasons

    def _same(
        self,
        wanted: Sequence[Wanted],
        outputs: Sequence[str],
        plain: Mapping[str, Array],
        plain_map: KernelMap,
    ) -> tuple[dict[str, Array] | None, str]:
        """The values if reading them leaves the kernels and the outputs as they are, else why."""
        names = [w.file_name for w in wanted]
        instrumented_map = kernel_map(
            instrumented(self.proto, names), int8_kernels=self.int8_kernels
        )
        changed = [
            one.name
            for one, other in zip(plain_map.layers, instrumented_map.layers, strict=True)
            if (one.kernel, one.executed_as, one.saturates)
            != (other.kernel, other.executed_as, other.saturates)
        ]
        if changed:
            layers = ", ".join(changed[:3]) + (" and more" if len(changed) > 3 else "")
            return None, f"looking at it changes the kernels that run ({layers})"
        values = self._run(names, outputs)
        if not all(np.array_equal(values[name], plain[name], equal_nan=True) for name in outputs):
            return None, "looking at it changes the model's outputs"
        return values, ""

    def _run(self, names: Sequence[str], outputs: Sequence[str]) -> dict[str, Array]:
        asked = list(dict.fromkeys([*outputs, *names]))
        session = session_of(
            instrumented(self.proto, names),
            self.execution,
            int8_kernels=self.int8_kernels,
            threads=self.threads,
        )
        (feed,) = (value.name for value in session.get_inputs())
        parts: dict[str, list[Array]] = {name: [] for name in asked}
        done = 0
        for rows, count in input_batches(self.classifier, self.images, self.batch):
            try:
                values = session.run(asked, {feed: rows})
            except Exception as error:  # onnxruntime's exceptions share no base class
                name = self.classifier.name
                raise BadModelError(f"{name} failed while running: {reason_of(error)}") from None
            for name, value in zip(asked, values, strict=True):
                parts[name].append(of_images(name, np.asarray(value), len(rows), count))
            done += count
            self.progress("Capturing", done, len(self.images))
        return {name: np.concatenate(values) for name, values in parts.items()}


def of_images(name: str, value: Array, rows: int, count: int) -> Array:
    if value.ndim == 0 or value.shape[0] != rows:
        raise BadModelError(
            f"{name} has shape {list(value.shape)} for {rows} images: its first axis does not "
            f"count images, so its values cannot be told apart by image"
        )
    return value[:count]


def _split(
    values: Mapping[str, Array], wanted: Sequence[Wanted], outputs: Sequence[str]
) -> tuple[dict[str, Array], dict[str, Array], dict[str, str]]:
    found = {w.name: values[w.file_name] for w in wanted}
    return {name: values[name] for name in outputs}, found, {}


def find_wanted(
    network: Network, names: Sequence[str] | None, is_computed: Callable[[str], bool]
) -> dict[str, Wanted]:
    """By name; `is_computed` tells the names of values that the file computes beside `network`'s.

    None means all quantized activations.
    """
    if names is None:
        names = [tensor.name for tensor in network.tensors if tensor.role == "activation"]
    found = (_find(network, name, is_computed) for name in names)
    return {wanted.name: wanted for wanted in found}


def stored_constants(wanted: Mapping[str, Wanted]) -> dict[str, CapturedTensor]:
    tensors = (w.tensor for w in wanted.values() if w.is_stored)
    return {
        t.name: CapturedTensor(t.name, None, t.params, t.integers(), t.values())
        for t in tensors
        if t is not None
    }


def captured(wanted: Wanted, values: Array) -> CapturedTensor:
    """`values` are integers where a quantized tensor is wanted."""
    if wanted.tensor is None:
        return CapturedTensor(wanted.name, wanted.layer, None, None, values)
    params = wanted.tensor.params
    return CapturedTensor(wanted.name, wanted.layer, params, values, dequantize(values, params))


def _find(network: Network, name: str, is_computed: Callable[[str], bool]) -> Wanted:
    names = {f"{x.name}.out": x for x in network.layers} | {x.name: x for x in network.layers}
    layer = names.get(name) or next((x for x in network.layers if x.node_name == name), None)
    is_tensor = any(tensor.name == name for tensor in network.tensors)
    if layer is not None and not is_tensor and layer.outputs:
        operand = layer.outputs[0]
        if operand.quant is None:
            return Wanted(f"{layer.name}.out", layer.name, operand.name, None)
        return _of_tensor(operand.quant)
    try:
        return _of_tensor(network.tensor(name))
    except BadModelError:
        if not is_computed(name):
            raise
    maker = next((x.name for x in network.layers if name in [o.name for o in x.outputs]), None)
    return Wanted(name, maker, name, None)


def _of_tensor(tensor: QuantTensor) -> Wanted:
    return Wanted(tensor.name, tensor.producer, tensor.integer_names[0], tensor)
