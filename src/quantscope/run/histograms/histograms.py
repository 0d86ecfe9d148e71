"""Histograms of a quantized network's tensors beside the float network's, batch by batch.

The values of a batch come out of the runtime, are counted and forgotten: memory does not grow with
the images.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from quantscope.data import ImageSet
from quantscope.edit import lift_to_qdq
from quantscope.errors import BadDataError
from quantscope.model import Network, OnnxFile, load_onnx, read_onnx
from quantscope.progress import Progress, silent
from quantscope.run.batches import input_batches
from quantscope.run.classifier import TORCH_SUFFIXES, Classifier, refuse_int8_kernels
from quantscope.run.counterpart import known_float_model
from quantscope.run.histograms.question import (
    BINS,
    Array,
    Question,
    Tallies,
    of_images,
    weight_histogram,
)
from quantscope.run.histograms.results import Histograms
from quantscope.run.histograms.series import Plan
from quantscope.run.onnx.classifier import open_onnx
from quantscope.run.onnx.compare.runtime import RuntimeReader
from quantscope.run.onnx.histogram_values import reader_of
from quantscope.run.onnx.sessions import Execution
from quantscope.zoo import find_model

__all__ = ["histograms", "weight_histogram"]


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
    runtime execution only that is counted which can be looked at without changing what runs. A
    PyTorch program (.pt2) has its reference execution only; its float model is a program too, or
    ResNet8's weights (.safetensors).
    """
    if len(images) == 0:
        raise BadDataError(f"{images.name} holds no images; give at least one")
    path = find_model(model)
    if path.suffix in TORCH_SUFFIXES:
        refuse_int8_kernels(path, int8_kernels)
        from quantscope.run.torch.histograms import program_histograms

        return program_histograms(
            path,
            images,
            tensors,
            float_model=float_model,
            execution=execution,
            bins=bins,
            threads=threads,
            batch=batch,
            progress=progress,
        )
    file = load_onnx(path)
    network = read_onnx(file)
    float_path = known_float_model(network, float_model)
    float_file = None if float_path is None else load_onnx(float_path)
    float_network = None if float_file is None else read_onnx(float_file)
    classifier = open_onnx(file, execution=execution, int8_kernels=int8_kernels, threads=1)
    question = Question.of(network, float_network, tensors)
    counter = _Counter(file, network, float_file, question.plans, classifier, int8_kernels)
    batches = input_batches(classifier, images, batch or question.batch)
    return question.answer(
        counter, batches, images, classifier, bins=bins, threads=threads, progress=progress
    )


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
            found[name] = each.count(
                *(v if v is None else of_images(v, rows, count) for v in parts)
            )
        return found

    def _integers(self, rows: Array) -> Mapping[str, Array]:
        if self.runtime is not None:
            return self.runtime.read(rows, self.classifier.run(rows))
        found = self.quantized(rows)
        return {p.tensor.name: found[p.tensor.integer_names[0]] for p in self.plans}
