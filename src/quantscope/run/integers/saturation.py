"""Predict what a CPU without VNNI will make of a model, on any CPU.

The network runs in integers twice: with onnxruntime's kernels as they are where nothing saturates,
and with 16-bit saturation of the pair sums. The difference is the gap that saturation causes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantscope.arithmetic import Saturation
from quantscope.data import SamplesSource, samples_for
from quantscope.model import ModelSource, open_model
from quantscope.progress import Progress, silent
from quantscope.run.cpu import saturates_8bit_products
from quantscope.run.evaluate import classify
from quantscope.run.gap import layer_kernels
from quantscope.run.integers.compute import compute
from quantscope.run.integers.layer import Array, IntegerLayer
from quantscope.run.integers.network import IntegerNetwork, integer_network
from quantscope.run.runnable import open_runnable

_BATCH = 16


@dataclass(frozen=True)
class LayerSaturation:
    """The effect of saturation inside one layer, on inputs that the saturating network gives it.

    `changed_outputs` of its `outputs` are other integers than without saturation in this layer,
    by at most `largest_steps`.
    """

    layer: str
    pairs: int
    saturated_pairs: int
    outputs: int
    changed_outputs: int
    largest_steps: int


@dataclass(frozen=True, eq=False)
class SaturationPrediction:
    """Scores without saturation, with it, and as onnxruntime gave them here, [images, classes].

    `measured_scores` is None where this CPU does not saturate (or that cannot be read). Accuracies
    are of `labels`.
    """

    model: str
    digest: str
    data: str
    data_digest: str
    indices: NDArray[np.int64]
    labels: NDArray[np.int64]
    exact_scores: Array = field(repr=False)
    predicted_scores: Array = field(repr=False)
    measured_scores: Array | None = field(repr=False)
    layers: tuple[LayerSaturation, ...]
    float_layers: tuple[str, ...]

    @property
    def images(self) -> int:
        return len(self.labels)

    @property
    def exact_accuracy(self) -> float:
        return self._accuracy(self.exact_scores)

    @property
    def predicted_accuracy(self) -> float:
        return self._accuracy(self.predicted_scores)

    @property
    def measured_accuracy(self) -> float | None:
        return None if self.measured_scores is None else self._accuracy(self.measured_scores)

    @property
    def changed(self) -> NDArray[np.int64]:
        """The indices, in the full set, of the images that saturation puts into another class."""
        differ = self.exact_scores.argmax(axis=1) != self.predicted_scores.argmax(axis=1)
        found: NDArray[np.int64] = self.indices[differ]
        return found

    @property
    def equal_rows(self) -> int | None:
        """The number of images whose predicted scores are onnxruntime's, bit for bit."""
        if self.measured_scores is None:
            return None
        return int((self.predicted_scores == self.measured_scores).all(axis=1).sum())

    def _accuracy(self, scores: Array) -> float:
        return float((scores.argmax(axis=1) == self.labels).mean())

    def to_dict(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "digest": self.digest,
            "data": self.data,
            "data_digest": self.data_digest,
            "images": self.images,
            "exact_accuracy": self.exact_accuracy,
            "predicted_accuracy": self.predicted_accuracy,
            "measured_accuracy": self.measured_accuracy,
            "changed": self.changed.tolist(),
            "equal_rows": self.equal_rows,
            "layers": [asdict(layer) for layer in self.layers],
            "float_layers": list(self.float_layers),
        }


def predict_saturation(
    model: ModelSource,
    data: SamplesSource,
    *,
    int8_kernels: bool | None = None,
    progress: Progress = silent,
) -> SaturationPrediction:
    """Run the whole network in modelled integer kernels; compare with onnxruntime where possible.

    Which layers run as integers, and as which types, is asked of onnxruntime's optimizer.
    """
    opened = open_model(model).as_onnx("predicting saturation")
    integers = integer_network(opened)
    data = samples_for(opened, data)
    named = layer_kernels(opened, int8_kernels=int8_kernels)
    saturating = frozenset(name for name, kernel in named.items() if kernel.saturates)
    floats = frozenset(name for name, kernel in named.items() if kernel.kernel == "float")
    runnable = open_runnable(opened, execution="runtime", int8_kernels=int8_kernels)
    counts = _Counts()
    exact, predicted = [], []
    done = 0
    for feeds, _, count in runnable.intake.batches(data, _BATCH):
        images = {name: array[:count] for name, array in feeds.items()}
        exact.append(integers.run(images, "kernel", float_layers=floats))
        predicted.append(_saturated(integers, images, saturating, floats, counts))
        done += count
        progress("Predicting kernels", done, len(data))
    measured = None
    if saturates_8bit_products():
        measured = classify(runnable, data, progress=progress)
    return SaturationPrediction(
        model=opened.name,
        digest=opened.digest,
        data=data.name,
        data_digest=data.digest,
        indices=data.indices,
        labels=data.labels,
        exact_scores=_scores(exact),
        predicted_scores=_scores(predicted),
        measured_scores=None if measured is None else np.asarray(measured),
        layers=counts.by_layer(),
        float_layers=tuple(step.layer.name for step in integers.steps if step.layer.name in floats),
    )


def predict_answers_without_vnni(
    model: ModelSource, data: SamplesSource, *, progress: Progress = silent
) -> Array:
    """Give what a model with one output answers where products saturate, [samples, ...]."""
    opened = open_model(model).as_onnx("predicting saturation")
    integers = integer_network(opened)
    data = samples_for(opened, data)
    named = layer_kernels(opened)
    saturating = frozenset(name for name, kernel in named.items() if kernel.saturates)
    floats = frozenset(name for name, kernel in named.items() if kernel.kernel == "float")
    parts: list[Array] = []
    done = 0
    for batch in open_runnable(opened, execution="runtime").intake.batches(data, _BATCH):
        given = {name: array[: batch.samples] for name, array in batch.feeds.items()}
        answers = integers.run(given, "avx2", saturating=saturating, float_layers=floats)
        parts.append(np.asarray(answers, np.float32))
        done += batch.samples
        progress("Predicting kernels without VNNI", done, len(data))
    return np.concatenate(parts)


def _saturated(
    integers: IntegerNetwork,
    images: Mapping[str, Array],
    saturating: frozenset[str],
    floats: frozenset[str],
    counts: "_Counts",
) -> Array:
    return integers.run(
        images, "avx2", saturating=saturating, float_layers=floats, observe=counts.see
    )


class _Counts:
    """The saturation of each layer, added up as the network runs."""

    def __init__(self) -> None:
        self.found: dict[str, LayerSaturation] = {}

    def see(
        self,
        step: IntegerLayer,
        operands: Sequence[Array],
        output: Array,
        saturation: Saturation | None,
    ) -> None:
        if saturation is None:
            return
        name = step.layer.name
        w = operands[1]
        taps = int(np.prod(w.shape[1:])) if step.kind == "Conv" else w.shape[-2]
        hit = int(saturation.saturated_pairs.sum(dtype=np.int64))
        changed, largest = 0, 0
        # Without a saturated pair, the layer's output is what it would be.
        if hit:
            unsaturated = compute(step, operands, step.output, "kernel")
            if output.dtype.kind in "iu":
                steps = np.abs(output.astype(np.int64) - unsaturated.astype(np.int64))
                changed, largest = int(np.count_nonzero(steps)), int(steps.max())
            else:
                changed = int(np.count_nonzero(output != unsaturated))
        before = self.found.get(name, LayerSaturation(name, 0, 0, 0, 0, 0))
        self.found[name] = LayerSaturation(
            name,
            before.pairs + saturation.saturated_pairs.size * (taps // 2),
            before.saturated_pairs + hit,
            before.outputs + output.size,
            before.changed_outputs + changed,
            max(before.largest_steps, largest),
        )

    def by_layer(self) -> tuple[LayerSaturation, ...]:
        return tuple(self.found.values())


def _scores(parts: Sequence[Array]) -> Array:
    scores = np.concatenate(parts)
    return scores.reshape(len(scores), -1)
