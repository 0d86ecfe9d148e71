"""Evaluate a classifier: accuracy, loss and confusion; and two of them on the same images."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantscope.data import Samples, check_samples
from quantscope.errors import BadDataError, BadModelError
from quantscope.model import Execution, ModelSource
from quantscope.plain_text import many
from quantscope.progress import Progress, silent
from quantscope.run.measure import Score, Top1
from quantscope.run.runnable import Runnable, Scores, open_runnable
from quantscope.run.statistics import Agreement, delta_interval, mcnemar_exact, wilson_interval

SMALLEST_PROBABILITY = 1e-7
NO_CLASS = -1
"""The prediction for an image whose scores hold a NaN."""


@dataclass(frozen=True)
class ClassAccuracy:
    """The images of one class: how many there are, and how many are classified correctly."""

    name: str
    correct: int
    total: int

    @property
    def accuracy(self) -> float | None:
        """The fraction of correct images; None where the data has no image of this class."""
        return self.correct / self.total if self.total else None


@dataclass(frozen=True)
class Evaluation:
    """The classes that a model gave a set of images, with the provenance of every number."""

    model: str
    digest: str
    execution: Execution
    data: str
    data_digest: str
    labels: NDArray[np.int64]
    predictions: NDArray[np.int64]
    indices: NDArray[np.int64]
    """The index of each image in the full set."""
    scores: NDArray[np.floating]
    """The model's own output, [images, classes]: logits or probabilities."""
    loss: float | None
    """Mean cross-entropy in nats; None when a score is NaN or infinite.

    Where the model gives probabilities, one below 1e-7 counts as 1e-7.
    """
    class_names: tuple[str, ...]
    provenance: Mapping[str, str]

    @property
    def images(self) -> int:
        return len(self.labels)

    @property
    def correct(self) -> int:
        return int((self.predictions == self.labels).sum())

    @property
    def accuracy(self) -> float:
        return self.correct / self.images

    @cached_property
    def score(self) -> Score:
        """Right or wrong, image by image."""
        right = (self.predictions == self.labels).astype(np.float64)
        return Score(Top1.name, Top1.unit, Top1.higher_is_better, right)

    @property
    def interval_95(self) -> tuple[float, float]:
        return wilson_interval(self.correct, self.images)

    @property
    def not_finite(self) -> int:
        """The number of images with a NaN score; they count as wrong, and not in the confusion."""
        return int((self.predictions == NO_CLASS).sum())

    @property
    def confusion(self) -> NDArray[np.int64]:
        """The counts [classes, classes]: rows are the true class, columns the predicted one."""
        classes = len(self.class_names)
        seen = self.predictions != NO_CLASS
        pairs = self.labels[seen] * classes + self.predictions[seen]
        return np.bincount(pairs, minlength=classes**2).reshape(classes, classes)

    @property
    def per_class(self) -> tuple[ClassAccuracy, ...]:
        totals = np.bincount(self.labels, minlength=len(self.class_names))
        right = self.confusion.diagonal()
        return tuple(
            ClassAccuracy(name, int(correct), int(total))
            for name, correct, total in zip(self.class_names, right, totals, strict=True)
        )

    def to_dict(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "digest": self.digest,
            "execution": self.execution,
            "data": self.data,
            "data_digest": self.data_digest,
            "images": self.images,
            "correct": self.correct,
            "accuracy": self.accuracy,
            "interval_95": list(self.interval_95),
            "loss": self.loss,
            "not_finite": self.not_finite,
            "per_class": [
                {"name": c.name, "correct": c.correct, "total": c.total, "accuracy": c.accuracy}
                for c in self.per_class
            ],
            "confusion": self.confusion.tolist(),
            "provenance": dict(self.provenance),
        }


@dataclass(frozen=True)
class ClassChange:
    """First minus second, for the images of one class; `delta` is None where there are none."""

    name: str
    delta: float | None
    gained: int
    lost: int


@dataclass(frozen=True)
class PairedDelta:
    """Two evaluations of the same images, image by image."""

    first: Evaluation
    second: Evaluation

    @cached_property
    def agreement(self) -> Agreement:
        one = self.first.predictions == self.first.labels
        two = self.second.predictions == self.second.labels
        return Agreement(
            both=int((one & two).sum()),
            only_first=int((one & ~two).sum()),
            only_second=int((~one & two).sum()),
            neither=int((~one & ~two).sum()),
        )

    @property
    def delta(self) -> float:
        """The first accuracy minus the second, as a fraction."""
        return self.first.accuracy - self.second.accuracy

    @property
    def interval_95(self) -> tuple[float, float]:
        return delta_interval(self.agreement)

    @cached_property
    def p_value(self) -> float:
        return mcnemar_exact(self.agreement.only_first, self.agreement.only_second)

    @property
    def changed(self) -> NDArray[np.int64]:
        """The indices, in the full set, of the images that the two put into different classes."""
        indices: NDArray[np.int64] = self.first.indices[
            self.first.predictions != self.second.predictions
        ]
        return indices

    @property
    def per_class(self) -> tuple[ClassChange, ...]:
        one = self.first.predictions == self.first.labels
        two = self.second.predictions == self.second.labels
        classes = len(self.first.class_names)

        def count(images: NDArray[np.bool_]) -> NDArray[np.int64]:
            return np.bincount(self.first.labels[images], minlength=classes)

        totals, gained, lost = count(np.ones_like(one)), count(one & ~two), count(two & ~one)
        return tuple(
            ClassChange(name, float((g - x) / n) if n else None, int(g), int(x))
            for name, n, g, x in zip(self.first.class_names, totals, gained, lost, strict=True)
        )

    @property
    def confusion_change(self) -> NDArray[np.int64]:
        """The first confusion minus the second; rows are the true class."""
        return self.first.confusion - self.second.confusion

    @property
    def gained(self) -> NDArray[np.int64]:
        """The indices of the images that only the first gets right."""
        return self._only(self.first, self.second)

    @property
    def lost(self) -> NDArray[np.int64]:
        """The indices of the images that only the second gets right."""
        return self._only(self.second, self.first)

    @staticmethod
    def _only(one: Evaluation, other: Evaluation) -> NDArray[np.int64]:
        only_one = (one.predictions == one.labels) & (other.predictions != other.labels)
        indices: NDArray[np.int64] = one.indices[only_one]
        return indices

    def to_dict(self) -> dict[str, Any]:
        agreement = self.agreement
        return {
            "model": self.second.model,
            "digest": self.second.digest,
            "execution": self.second.execution,
            "correct": self.second.correct,
            "accuracy": self.second.accuracy,
            "delta": self.delta,
            "interval_95": list(self.interval_95),
            "p_value": self.p_value,
            "both_correct": agreement.both,
            "neither_correct": agreement.neither,
            "gained": self.gained.tolist(),
            "lost": self.lost.tolist(),
            "changed": len(self.changed),
        }


def paired(first: Evaluation, second: Evaluation) -> PairedDelta:
    """Compare two evaluations; they must be of the same images."""
    if len(first.class_names) != len(second.class_names):
        raise BadDataError(
            f"{first.model} tells {len(first.class_names)} classes apart, {second.model} "
            f"{len(second.class_names)}; compare models of the same task"
        )
    if first.data_digest != second.data_digest or first.images != second.images:
        raise BadDataError(
            f"{first.model} was evaluated on {many(first.images, 'image')} of {first.data}, "
            f"{second.model} on {second.images} of {second.data}; evaluate both on the same"
        )
    return PairedDelta(first, second)


def evaluate(
    model: ModelSource | Runnable,
    data: Samples,
    *,
    execution: Execution | None = None,
    batch: int | None = None,
    int8_kernels: bool | None = None,
    threads: int = 0,
    progress: Progress = silent,
) -> Evaluation:
    """Classify every sample of `data`. Memory does not grow with their number but for the scores.

    `execution` None means runtime where a model has it. A `Runnable` is run as it was opened.
    """
    runnable = (
        model
        if isinstance(model, Runnable)
        else open_runnable(model, execution=execution, int8_kernels=int8_kernels, threads=threads)
    )
    check_samples(data)
    return evaluate_scores(classify(runnable, data, batch=batch, progress=progress), data, runnable)


def evaluate_scores(
    scores: Scores, data: Samples, runnable: Runnable, *, name: str = "", digest: str = ""
) -> Evaluation:
    """Judge scores that `runnable` gave, or a model made from it with a name and digest of its own.

    `scores` has one row for each sample.
    """
    name = name or runnable.name
    check_labels(data, scores.shape[1], name)
    judged = judge_scores(scores, data, model=name, execution=runnable.execution)
    return replace(
        judged,
        digest=digest or runnable.digest,
        loss=_cross_entropy(scores, data.labels, probabilities=runnable.gives_probabilities),
        provenance=runnable.provenance,
    )


def judge_scores(scores: Scores, data: Samples, *, model: str, execution: Execution) -> Evaluation:
    """Take each row's largest score for its class; nothing is said of loss and provenance."""
    classes = scores.shape[1]
    # argmax would give a NaN's own place as the class.
    with_nan = np.isnan(scores).any(axis=1)
    names = data.class_names if len(data.class_names) == classes else ()
    return Evaluation(
        model=model,
        digest="",
        execution=execution,
        data=data.name,
        data_digest=data.digest,
        labels=data.labels,
        predictions=np.where(with_nan, NO_CLASS, scores.argmax(axis=1)),
        indices=data.indices,
        scores=scores,
        loss=None,
        class_names=names or tuple(str(i) for i in range(classes)),
        provenance={},
    )


def classify(
    runnable: Runnable, data: Samples, *, batch: int | None = None, progress: Progress = silent
) -> Scores:
    """Give one row of scores for each sample."""
    intake = runnable.intake
    intake.check_batch(batch)
    size = batch or intake.default_batch()
    ends = ((start, min(start + size, len(data))) for start in range(0, len(data), size))
    parts: list[Scores] = []
    done = 0
    for feeds, rows, count in intake.pieces(data, ends):
        parts.append(one_row_each(runnable.scores(feeds), rows, runnable.name)[:count])
        done += count
        progress("Evaluating", done, len(data))
    return np.concatenate(parts)


def one_row_each(scores: Scores, rows: int, model: str) -> Scores:
    """Take an output as scores [rows, classes], or refuse it: the model is no classifier."""
    if scores.ndim > 2 and scores[0].size == scores.shape[1]:  # [N,10,1,1], left by a pooling
        scores = scores.reshape(len(scores), -1)
    if scores.ndim != 2 or len(scores) != rows:
        raise BadModelError(
            f"{model} is not a classifier: for {many(rows, 'image')} its output "
            f"has shape {list(scores.shape)}, expected [{rows}, classes]"
        )
    return scores


def check_labels(data: Samples, classes: int, model: str) -> None:
    """Refuse labels that are no classes of the model."""
    if data.labels.max() >= classes or data.labels.min() < 0:
        raise BadDataError(
            f"{data.name} has labels {data.labels.min()}..{data.labels.max()}, but {model} tells "
            f"{classes} classes apart (0..{classes - 1})"
        )


def _cross_entropy(
    scores: NDArray[np.floating], labels: NDArray[np.int64], *, probabilities: bool
) -> float | None:
    """Give the mean cross-entropy in nats; None where a score is not finite."""
    if not np.isfinite(scores).all():
        return None
    wide = scores.astype(np.float64)
    if probabilities:
        # A quantized softmax gives zeros, which would be infinite; the floor is Keras's.
        log_p = np.log(np.maximum(wide, SMALLEST_PROBABILITY))
    else:
        # Without the shift, exp of a large logit overflows.
        shifted = wide - wide.max(axis=1, keepdims=True)
        log_p = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return float(-log_p[np.arange(len(labels)), labels].mean())
