"""Histograms of a quantized network's tensors beside the float network's, batch by batch.

The values of a batch come out of the runtime, are counted and forgotten: memory does not grow with
the images.
"""

from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantscope.data import ImageSet
from quantscope.edit import lift_to_qdq
from quantscope.errors import BadDataError
from quantscope.model import Network, OnnxFile, QuantTensor, load_onnx, read_onnx
from quantscope.model.pairing import Pairing, TensorPair, pair
from quantscope.progress import Progress, silent
from quantscope.run.capture import input_batches
from quantscope.run.classifier import Classifier, find_onnx
from quantscope.run.compare_results import Uncompared
from quantscope.run.compare_runtime import RuntimeReader
from quantscope.run.counterpart import known_float_model
from quantscope.run.histogram_results import Histogram, Histograms, SeriesName
from quantscope.run.histogram_series import Plan, Tally, plan
from quantscope.run.histogram_values import reader_of
from quantscope.run.in_order import cores, in_order
from quantscope.run.onnx_classifier import open_onnx
from quantscope.run.sessions import Execution

Array = NDArray[Any]
Tallies = dict[SeriesName, Tally]

BINS = 512
_VALUES_A_BATCH = 1 << 19
_LARGEST_BATCH = 256
_NO_FLOAT_MODEL = "no float model was given"


def histograms(
    model: str | Path,
    images: ImageSet,
    tensors: Sequence[str] | None = None,
    *,
    float_model: str | Path | None = None,
    execution: Execution = "reference",
    int8_kernels: bool | None = None,
    bins: int = BINS,
    threads: int = 0,
    batch: int | None = None,
    progress: Progress = silent,
) -> Histograms:
    """Count the values of `tensors` over all images; None means every quantized activation.

    A layer's name stands for its output; a weight's name gives its histogram, which needs no image.
    Counts are exact. Each tensor has at most `bins` bins, the same for all its series. Without a
    float model there are only the quantized values. `execution` is the quantized network's; in
    runtime execution only that is counted which can be looked at without changing what runs.
    """
    if len(images) == 0:
        raise BadDataError(f"{images.name} holds no images; give at least one")
    file = load_onnx(find_onnx(model, "histograms"))
    network = read_onnx(file)
    float_path = known_float_model(network, float_model)
    float_file = None if float_path is None else load_onnx(find_onnx(float_path, "histograms"))
    pairing = None if float_file is None else pair(read_onnx(float_file), network)
    wanted = list({t.name: t for t in _found(network, tensors)}.values())
    plans = [plan(t, *_counterpart(t, pairing)) for t in wanted if not t.has_data]
    classifier = open_onnx(file.path, execution=execution, int8_kernels=int8_kernels, threads=1)
    counter = _Counter(file, network, float_file, plans, classifier, int8_kernels)
    batches = input_batches(classifier, images, batch or _batch(plans))
    done = 0
    sums: dict[str, Tallies] = {}
    if counter.plans:
        for _, count, found in in_order(counter.count, batches, threads=threads or cores()):
            for name, tallies in found.items():
                sums[name] = _added(sums[name], tallies) if name in sums else tallies
            done += count
            progress("Counting", done, len(images))
    unseen = counter.unseen
    seen = {p.tensor.name: p.histogram(sums[p.tensor.name], bins) for p in counter.plans}
    for tensor in wanted:
        if tensor.has_data:
            counterpart = _counterpart(tensor, pairing)
            seen[tensor.name] = weight_histogram(tensor, *counterpart, bins=bins)
    return Histograms(
        model=file.path.name,
        digest=file.digest,
        float_model=None if float_file is None else float_file.path.name,
        float_digest=None if float_file is None else float_file.digest,
        execution=execution,
        data=images.name,
        data_digest=images.digest,
        images=len(images),
        tensors=tuple(seen[t.name] for t in wanted if t.name not in unseen),
        unseen=tuple(Uncompared(name, "activation", why) for name, why in unseen.items()),
        provenance=classifier.provenance,
    )


def weight_histogram(
    tensor: QuantTensor,
    pair: TensorPair | None = None,
    no_float: str | None = _NO_FLOAT_MODEL,
    *,
    bins: int = BINS,
) -> Histogram:
    """A stored tensor beside the float values it was rounded from, and those in 8 bits.

    "quantized" is what the file has. In the type that is not the tensor's own, float values are
    rounded as quantizers usually do, from the smallest to the largest of them (of each channel,
    where the file has a scale for each): int8 symmetric, uint8 asymmetric.
    """
    floats = None if pair is None else pair.float_values()
    if floats is None:
        reason = no_float if pair is None else "the float model does not store them"
        return _counted(plan(tensor, None, reason), None, bins)
    return _counted(plan(tensor, pair, floats=floats), floats, bins)


def _counted(chosen: Plan, floats: Array | None, bins: int) -> Histogram:
    return chosen.histogram(chosen.count(floats, chosen.tensor.integers()), bins)


class _Counter:
    """Reads both networks and counts; `unseen` are the tensors it cannot look at, and why."""

    def __init__(
        self,
        file: OnnxFile,
        network: Network,
        float_file: OnnxFile | None,
        plans: Sequence[Plan],
        classifier: Classifier,
        int8_kernels: bool | None,
    ) -> None:
        self.plans = list(plans)
        self.classifier = classifier
        self.runtime: RuntimeReader | None = None
        proto = file.load_proto()
        if classifier.execution == "runtime":
            names = [p.tensor.name for p in self.plans]
            self.runtime = RuntimeReader(proto, network, names, int8_kernels=int8_kernels)
            self.plans = [p for p in self.plans if p.tensor.name in self.runtime.seen]
        else:
            if file.format in ("qoperator", "mixed"):
                proto = lift_to_qdq(proto)
            integers = [p.tensor.integer_names[0] for p in self.plans]
            self.quantized = reader_of(proto, integers, file.path.name)
        floats = [p.pair.float_name for p in self.plans if p.pair is not None]
        self.floats = (
            reader_of(float_file.load_proto(), floats, float_file.path.name)
            if float_file is not None
            else None
        )

    @property
    def unseen(self) -> dict[str, str]:
        if self.runtime is None:
            return {}
        disturbed = self.runtime.disturbed
        changed = {p.tensor.name: disturbed for p in self.plans} if disturbed else {}
        return {**self.runtime.unseen, **changed}

    def count(self, rows: Array, count: int) -> dict[str, Tallies]:
        floats = {} if self.floats is None else self.floats(rows)
        found = {}
        integers = self._integers(rows)
        for each in self.plans:
            name = each.tensor.name
            value = None if each.pair is None else floats[each.pair.float_name]
            parts = (value, integers[name])
            found[name] = each.count(*(v if v is None else _images(v, rows, count) for v in parts))
        return found

    def _integers(self, rows: Array) -> Mapping[str, Array]:
        if self.runtime is not None:
            return self.runtime.read(rows, self.classifier.run(rows))
        found = self.quantized(rows)
        return {p.tensor.name: found[p.tensor.integer_names[0]] for p in self.plans}


def _images(value: Array, rows: Array, count: int) -> Array:
    """Without the rows that only fill up a fixed batch."""
    return value[:count] if value.ndim and len(value) == len(rows) else value


def _added(one: Tallies, other: Tallies) -> Tallies:
    return {name: one[name] + other[name] for name in one}


def _found(network: Network, names: Sequence[str] | None) -> list[QuantTensor]:
    if names is None:
        return [tensor for tensor in network.tensors if tensor.role == "activation"]
    return [_find(network, name) for name in names]


def _find(network: Network, name: str) -> QuantTensor:
    layer = next((x for x in network.layers if name in (x.name, x.node_name)), None)
    is_tensor = any(tensor.name == name for tensor in network.tensors)
    output = layer.outputs[0].quant if layer is not None and layer.outputs else None
    return output if output is not None and not is_tensor else network.tensor(name)


def _counterpart(
    tensor: QuantTensor, pairing: Pairing | None
) -> tuple[TensorPair | None, str | None]:
    """What it stands for in the float network, or why nothing is known of that."""
    if pairing is None:
        return None, _NO_FLOAT_MODEL
    found = pairing.by_name.get(tensor.name)
    if found is not None:
        return found, None
    return None, next((u.reason for u in pairing.unpaired if u.name == tensor.name), None)


def _batch(plans: Sequence[Plan]) -> int:
    """As many images as keep the largest tensor of a batch small."""
    shapes = [p.tensor.shape or () for p in plans]
    sizes = [prod(d for d in shape[1:] if isinstance(d, int)) for shape in shapes]
    return int(np.clip(_VALUES_A_BATCH // max(1, *sizes), 1, _LARGEST_BATCH)) if sizes else 1
