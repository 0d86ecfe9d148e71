"""Predict what a CPU without VNNI will make of a model, on any CPU.

The network runs in integers twice: with onnxruntime's kernels as they are where nothing saturates,
and with 16-bit saturation of the pair sums. The difference is the gap that saturation causes.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantscope.arithmetic import Saturation, sqnr_db_of_values
from quantscope.data import Samples, SamplesSource, samples_for
from quantscope.model import ModelSource, open_model
from quantscope.progress import Progress, silent
from quantscope.run.classes import labels_of
from quantscope.run.cpu import saturates_8bit_products
from quantscope.run.gap import layer_kernels
from quantscope.run.integers.compute import compute
from quantscope.run.integers.layer import Array, IntegerLayer
from quantscope.run.integers.network import IntegerNetwork, integer_network
from quantscope.run.outputs import Outputs, check_rows, gather_outputs, join_batches, sample_word
from quantscope.run.runnable import Runnable, open_runnable

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
    """The first output without saturation, with it, and as onnxruntime gave it, a row a sample.

    `measured_scores` is None where this CPU does not saturate (or that cannot be read). Accuracies
    are of `labels`, and None where there are none, or the rows are no scores of classes.
    """

    model: str
    digest: str
    data: str
    data_digest: str
    indices: NDArray[np.int64]
    labels: NDArray[np.int64] | None
    exact_scores: Array = field(repr=False)
    predicted_scores: Array = field(repr=False)
    measured_scores: Array | None = field(repr=False)
    layers: tuple[LayerSaturation, ...]
    float_layers: tuple[str, ...]
    sample_word: str = "image"

    @property
    def images(self) -> int:
        return len(self.indices)

    @property
    def exact_accuracy(self) -> float | None:
        return self._accuracy(self.exact_scores)

    @property
    def sqnr_db(self) -> float | None:
        """The SQNR that saturation leaves the output; None where nothing changes."""
        return sqnr_db_of_values(self.exact_scores, self.predicted_scores)

    @property
    def predicted_accuracy(self) -> float | None:
        return self._accuracy(self.predicted_scores)

    @property
    def measured_accuracy(self) -> float | None:
        return None if self.measured_scores is None else self._accuracy(self.measured_scores)

    @property
    def changed(self) -> NDArray[np.int64]:
        """The indices, in the full set, of the samples that saturation puts into another class.

        Where there are no labels of classes, of those whose output it changes.
        """
        if self.labels is None:
            differ = (self.exact_scores != self.predicted_scores).any(axis=1)
        else:
            differ = self.exact_scores.argmax(axis=1) != self.predicted_scores.argmax(axis=1)
        found: NDArray[np.int64] = self.indices[differ]
        return found

    @property
    def equal_rows(self) -> int | None:
        """The number of images whose predicted scores are onnxruntime's, bit for bit."""
        if self.measured_scores is None:
            return None
        return int((self.predicted_scores == self.measured_scores).all(axis=1).sum())

    def _accuracy(self, scores: Array) -> float | None:
        if self.labels is None:
            return None
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
            "sqnr_db": self.sqnr_db,
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

    def run_both(feeds: Mapping[str, Array]) -> Mapping[str, Array]:
        return {
            "exact": integers.run(feeds, "kernel", float_layers=floats),
            "predicted": _saturated(integers, feeds, saturating, floats, counts),
        }

    both = _run_all(run_both, runnable, data, "Predicting kernels", progress)
    measured = None
    if saturates_8bit_products():
        measured = gather_outputs(runnable, data, progress=progress).outputs
    return SaturationPrediction(
        model=opened.name,
        digest=opened.digest,
        data=data.name,
        data_digest=data.digest,
        indices=data.indices,
        labels=_labels(data, both["exact"]),
        exact_scores=_rows(both["exact"]),
        predicted_scores=_rows(both["predicted"]),
        measured_scores=None if measured is None else _rows(next(iter(measured.values()))),
        layers=counts.by_layer(),
        float_layers=tuple(step.layer.name for step in integers.steps if step.layer.name in floats),
        sample_word=sample_word(data),
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

    def run(feeds: Mapping[str, Array]) -> Mapping[str, Array]:
        return {"": integers.run(feeds, "avx2", saturating=saturating, float_layers=floats)}

    runnable = open_runnable(opened, execution="runtime")
    found = _run_all(run, runnable, data, "Predicting kernels without VNNI", progress)
    return np.asarray(found[""], np.float32)


def _run_all(
    run: Callable[[Mapping[str, Array]], Mapping[str, Array]],
    runnable: Runnable,
    data: Samples,
    what: str,
    progress: Progress,
) -> Outputs:
    """Run all samples batch by batch, and put the rows of what each batch gives together."""
    size = runnable.intake.fixed_batch or _BATCH

    def batches() -> Iterator[tuple[Mapping[str, Array], int, int]]:
        for fed, rows, count in runnable.intake.batches(data, size):
            feeds, ran = _cut(fed, rows, count)
            yield run(feeds), ran, count

    answers = join_batches(
        batches(),
        len(data),
        size=size,
        model=runnable.name,
        progress=lambda _, done, total: progress(what, done, total),
    )
    return check_rows(answers, runnable.name).outputs


def _cut(fed: Mapping[str, Array], rows: int, count: int) -> tuple[Mapping[str, Array], int]:
    """Leave out what fills up a batch, where every input counts rows along its first axis."""
    if rows == count or any(array.shape[:1] != (rows,) for array in fed.values()):
        return fed, rows
    return {name: array[:count] for name, array in fed.items()}, count


def _labels(data: Samples, scores: Array) -> NDArray[np.int64] | None:
    """Give the labels of classes that the output's rows are scores of, if they are."""
    labels, shape = labels_of(data), _rows(scores).shape
    if labels is None or labels.min() < 0 or labels.max() >= shape[1]:
        return None
    return labels


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


def _rows(output: Array) -> Array:
    return np.asarray(output).reshape(len(output), -1)
