"""Accuracy, loss, classes and confusion of a model, and two models on the same images."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantscope.data import ImageSet
from quantscope.errors import BadConfigError, BadDataError, BadModelError
from quantscope.plain_text import many
from quantscope.progress import Progress, silent
from quantscope.run.classifier import (
    Classifier,
    check_labels,
    fitting_input,
    open_classifier,
)
from quantscope.run.onnx.sessions import Execution
from quantscope.run.statistics import Agreement, delta_interval, mcnemar_exact, wilson_interval

SMALLEST_PROBABILITY = 1e-7
NO_CLASS = -1
"""The prediction for an image whose scores hold a NaN."""


@dataclass(frozen=True)
class ClassAccuracy:
    name: str
    correct: int
    total: int

    @property
    def accuracy(self) -> float | None:
        """None where the data has no image of this class."""
        return self.correct / self.total if self.total else None


@dataclass(frozen=True)
class Evaluation:
    """What a model made of a set of images, with all that is needed to say so honestly."""

    model: str
    digest: str
    execution: Execution
    data: str
    data_digest: str
    labels: NDArray[np.int64]
    predictions: NDArray[np.int64]
    indices: NDArray[np.int64]
    """Of each image in the full set."""
    scores: NDArray[np.floating]
    """[images, classes], as the model gave them."""
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

    @property
    def interval_95(self) -> tuple[float, float]:
        return wilson_interval(self.correct, self.images)

    @property
    def not_finite(self) -> int:
        """Images with a NaN score; they count as wrong and stand in no column of the confusion."""
        return int((self.predictions == NO_CLASS).sum())

    @property
    def confusion(self) -> NDArray[np.int64]:
        """Rows are the true class, columns the predicted one."""
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
    """First minus second, for the images of one class."""

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
        """First minus second accuracy."""
        return self.first.accuracy - self.second.accuracy

    @property
    def interval_95(self) -> tuple[float, float]:
        return delta_interval(self.agreement)

    @cached_property
    def p_value(self) -> float:
        return mcnemar_exact(self.agreement.only_first, self.agreement.only_second)

    @property
    def changed(self) -> NDArray[np.int64]:
        """Indices, in the full set, of the images that the two put into different classes."""
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
        """First minus second; rows are the true class."""
        return self.first.confusion - self.second.confusion

    @property
    def gained(self) -> NDArray[np.int64]:
        """Indices of the images that only the first gets right."""
        return self._only(self.first, self.second)

    @property
    def lost(self) -> NDArray[np.int64]:
        """Indices of the images that only the second gets right."""
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
    model: str | Path | Classifier,
    data: ImageSet,
    *,
    execution: Execution | None = None,
    batch: int | None = None,
    int8_kernels: bool | None = None,
    threads: int = 0,
    progress: Progress = silent,
) -> Evaluation:
    """Classify every image of `data`. Memory does not grow with their number but for the scores."""
    if isinstance(model, Classifier):
        classifier = model
    else:
        classifier = open_classifier(
            model, execution=execution, int8_kernels=int8_kernels, threads=threads
        )
    if len(data) == 0:
        raise BadDataError(f"{data.name} holds no images; give at least one")
    scores = classify(classifier, data, batch=batch, progress=progress)
    classes = scores.shape[1]
    check_labels(data, classes, classifier.name)
    with_nan = np.isnan(scores).any(axis=1)
    names = data.class_names if len(data.class_names) == classes else ()
    return Evaluation(
        model=classifier.name,
        digest=classifier.digest,
        execution=classifier.execution,
        data=data.name,
        data_digest=data.digest,
        labels=data.labels,
        predictions=np.where(with_nan, NO_CLASS, scores.argmax(axis=1)),
        indices=data.indices,
        scores=scores,
        loss=_cross_entropy(scores, data.labels, probabilities=classifier.gives_probabilities),
        class_names=names or tuple(str(i) for i in range(classes)),
        provenance=classifier.provenance,
    )


def classify(
    classifier: Classifier, data: ImageSet, *, batch: int | None = None, progress: Progress = silent
) -> NDArray[np.floating]:
    """One row of scores for each image."""
    if batch is not None and batch < 1:
        raise BadConfigError(f"A batch holds at least one image, not {batch}")
    if classifier.fixed_batch and batch not in (None, classifier.fixed_batch):
        raise BadConfigError(
            f"{classifier.name} takes batches of {classifier.fixed_batch} only, not {batch}"
        )
    batch = batch or classifier.default_batch()
    rows = fitting_input(classifier, data)
    parts: list[NDArray[np.floating]] = []
    for start in range(0, len(data), batch):
        images = rows(start, min(start + batch, len(data)))
        parts.append(_scores(classifier, images))
        progress("Evaluating", min(start + batch, len(data)), len(data))
    return np.concatenate(parts)


def _scores(classifier: Classifier, images: NDArray[np.generic]) -> NDArray[np.floating]:
    count = len(images)
    if classifier.fixed_batch and count < classifier.fixed_batch:
        filler = np.repeat(images[-1:], classifier.fixed_batch - count, axis=0)
        images = np.concatenate([images, filler])
    scores = classifier.run(images)
    if scores.ndim > 2 and scores[0].size == scores.shape[1]:  # [N,10,1,1], left by a pooling
        scores = scores.reshape(len(scores), -1)
    if scores.ndim != 2 or len(scores) != len(images):
        raise BadModelError(
            f"{classifier.name} is not a classifier: for {many(len(images), 'image')} its output "
            f"has shape {list(scores.shape)}, expected [{len(images)}, classes]"
        )
    return scores[:count]


def _cross_entropy(
    scores: NDArray[np.floating], labels: NDArray[np.int64], *, probabilities: bool
) -> float | None:
    if not np.isfinite(scores).all():
        return None
    rows = scores.astype(np.float64)
    if probabilities:
        # A quantized softmax gives zeros, which would be infinite; the floor is Keras's.
        log_p = np.log(np.maximum(rows, SMALLEST_PROBABILITY))
    else:
        shifted = rows - rows.max(axis=1, keepdims=True)
        log_p = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return float(-log_p[np.arange(len(labels)), labels].mean())
