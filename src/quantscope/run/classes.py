"""Answers that tell classes apart: predictions, and against labels loss, confusion and counts."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantscope.data import Samples
from quantscope.errors import BadDataError
from quantscope.run.outputs import Outputs
from quantscope.run.runnable import Scores
from quantscope.run.statistics import wilson_interval

SMALLEST_PROBABILITY = 1e-7
NO_CLASS = -1
"""The prediction for an image whose scores hold a NaN."""
TOP_5_PAST_CLASSES = 20


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


@dataclass(frozen=True, eq=False)
class Classes:
    """The class of every sample by a model's scores, and by its label where there are labels."""

    scores: Scores
    """The model's own output, [samples, classes]: logits or probabilities."""
    predictions: NDArray[np.int64]
    """The class of each row's largest score; `NO_CLASS` where a score is NaN."""
    targets: NDArray[np.int64] | None
    """The labels; None where there are none."""
    loss: float | None
    """Mean cross-entropy in nats; None without labels, or when a score is NaN or infinite.

    Where the model gives probabilities, one below 1e-7 counts as 1e-7.
    """
    names: tuple[str, ...]

    @property
    def labels(self) -> NDArray[np.int64]:
        """The label of each sample; an error where there are none."""
        if self.targets is None:
            raise BadDataError("These samples have no labels: nothing is right or wrong")
        return self.targets

    @property
    def margins(self) -> NDArray[np.float64]:
        """How far each sample's largest score lies above the next; NaN where one is no number."""
        if self.scores.shape[1] < 2:
            return np.full(len(self.scores), np.nan)
        second, first = np.sort(self.scores.astype(np.float64), axis=1)[:, -2:].T
        with np.errstate(invalid="ignore"):  # two infinite scores have no difference
            return np.asarray(first - second)

    @property
    def right(self) -> NDArray[np.bool_]:
        return np.asarray(self.predictions == self.labels)

    @property
    def correct(self) -> int:
        return int(self.right.sum())

    @cached_property
    def top5_correct(self) -> int | None:
        """The samples whose label is among the five largest scores; None up to 20 classes."""
        if self.targets is None or len(self.names) <= TOP_5_PAST_CLASSES:
            return None
        of_label = self.scores[np.arange(len(self.scores)), self.targets]
        larger = (self.scores > of_label[:, None]).sum(axis=1)
        return int(((larger < 5) & (self.predictions != NO_CLASS)).sum())

    @property
    def not_finite(self) -> int:
        """The number of samples with a NaN score; they count as wrong, and not in the confusion."""
        return int((self.predictions == NO_CLASS).sum())

    @property
    def confusion(self) -> NDArray[np.int64]:
        """The counts [classes, classes]: rows are the true class, columns the predicted one."""
        classes = len(self.names)
        seen = self.predictions != NO_CLASS
        pairs = self.labels[seen] * classes + self.predictions[seen]
        return np.bincount(pairs, minlength=classes**2).reshape(classes, classes)

    @property
    def per_class(self) -> tuple[ClassAccuracy, ...]:
        totals = np.bincount(self.labels, minlength=len(self.names))
        right = self.confusion.diagonal()
        return tuple(
            ClassAccuracy(name, int(correct), int(total))
            for name, correct, total in zip(self.names, right, totals, strict=True)
        )


def find_classes(
    outputs: Outputs, samples: Samples, *, model: str, probabilities: bool, loss: bool = True
) -> Classes | None:
    """Judge the first output as scores of classes; None where it has another form.

    Labels that are no classes of the model are refused. Without `loss` that is left out.
    """
    scores = class_scores(outputs)
    if scores is None:
        return None
    count = scores.shape[1]
    labels = labels_of(samples)
    if labels is not None:
        check_labels(samples, count, model)
    names = samples.class_names if len(samples.class_names) == count else ()
    return Classes(
        scores=scores,
        predictions=predicted_classes(outputs),
        targets=labels,
        loss=cross_entropy(scores, labels, probabilities=probabilities)
        if loss and labels is not None
        else None,
        names=names or tuple(str(i) for i in range(count)),
    )


def predicted_classes(outputs: Outputs) -> NDArray[np.int64]:
    """Give the class of each row's largest score; `NO_CLASS` where a score is NaN."""
    scores = class_scores(outputs)
    assert scores is not None, "the first output is scores of classes"
    # argmax would give a NaN's own place as the class.
    return np.where(np.isnan(scores).any(axis=1), NO_CLASS, scores.argmax(axis=1))


def labels_of(samples: Samples) -> NDArray[np.int64] | None:
    """Give the labels; None where there are none, or where the rows were made up."""
    return None if samples.is_random else samples.targets


def class_scores(outputs: Outputs) -> Scores | None:
    """Give the first output as [samples, classes], where it has that form."""
    scores = next(iter(outputs.values()))
    if scores.ndim > 2 and scores[:1].size == scores.shape[1]:  # [N,10,1,1], left by a pooling
        scores = scores.reshape(len(scores), -1)
    return scores if scores.ndim == 2 and scores.shape[1] > 1 else None


def tells_classes(outputs: Outputs, samples: Samples, *, probabilities: bool) -> bool:
    """Guess whether the first output is scores of classes where there are no labels to say so.

    A softmax's is. Else it is the only output, and not as wide as what the model was fed: that is
    a signal which comes back.
    """
    scores = class_scores(outputs)
    # Integers are scores that were quantized; wider ones are numbers of something else.
    if scores is None or (scores.dtype.kind != "f" and scores.dtype.itemsize > 1):
        return False
    fed = {int(np.prod(array.shape[1:])) for array in samples.arrays.values()}
    return probabilities or (len(outputs) == 1 and scores.shape[1] not in fed)


def check_labels(data: Samples, classes: int, model: str) -> None:
    """Refuse labels that are no classes of the model."""
    if data.labels.max() >= classes or data.labels.min() < 0:
        raise BadDataError(
            f"{data.name} has labels {data.labels.min()}..{data.labels.max()}, but {model} tells "
            f"{classes} classes apart (0..{classes - 1})"
        )


def cross_entropy(
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


def classes_dict(classes: Classes | None) -> dict[str, Any]:
    """Give the facts for JSON, each None where there are no classes, or no labels."""
    found: dict[str, Any] = dict.fromkeys(
        ("correct", "accuracy", "interval_95", "loss", "not_finite", "per_class", "confusion")
    )
    if classes is None:
        return {**found, "top5_accuracy": None}
    found["not_finite"] = classes.not_finite
    if classes.targets is None:
        return {**found, "top5_accuracy": None}
    rows = len(classes.targets)
    top5 = classes.top5_correct
    return {
        **found,
        "correct": classes.correct,
        "accuracy": classes.correct / rows,
        "interval_95": list(wilson_interval(classes.correct, rows)),
        "loss": classes.loss,
        "per_class": [
            {"name": c.name, "correct": c.correct, "total": c.total, "accuracy": c.accuracy}
            for c in classes.per_class
        ],
        "confusion": classes.confusion.tolist(),
        "top5_accuracy": None if top5 is None else top5 / rows,
    }
