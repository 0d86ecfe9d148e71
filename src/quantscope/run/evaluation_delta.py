"""Two evaluations of the same samples, compared sample by sample."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantscope.errors import BadDataError
from quantscope.plain_text import many
from quantscope.run.evaluation import Evaluation
from quantscope.run.score_delta import ScoreDelta
from quantscope.run.statistics import Agreement


@dataclass(frozen=True)
class ClassChange:
    """First minus second, for the images of one class; `delta` is None where there are none."""

    name: str
    delta: float | None
    gained: int
    lost: int


@dataclass(frozen=True)
class EvaluationDelta:
    """Two evaluations of the same samples, sample by sample; what counts is their score.

    Classes are compared where both have them, and labels.
    """

    first: Evaluation
    second: Evaluation

    @cached_property
    def scores(self) -> ScoreDelta:
        """The measure's comparison of the two, whichever measure it is."""
        return ScoreDelta(self.first.score, self.second.score, self.first.indices)

    @property
    def tells_classes(self) -> bool:
        return self.first.tells_classes and self.second.tells_classes

    @property
    def agreement(self) -> Agreement:
        return self.scores.agreement

    @property
    def delta(self) -> float:
        """The first score minus the second; of accuracies a fraction."""
        return self.scores.delta

    @property
    def interval_95(self) -> tuple[float, float]:
        """The interval of `delta`; NaNs for a single sample, of which there is none."""
        return self.scores.interval_95 or (float("nan"), float("nan"))

    @property
    def p_value(self) -> float:
        p = self.scores.p_value
        return 1.0 if p is None else p

    @property
    def changed(self) -> NDArray[np.int64]:
        """The indices, in the full set, of the samples that the two put into different classes.

        Where there are no classes, of those with another score.
        """
        if self.first.classes is not None and self.second.classes is not None:
            differs = self.first.predictions != self.second.predictions
        else:
            one, two = self.first.score.per_sample, self.second.score.per_sample
            differs = (one != two) & ~(np.isnan(one) & np.isnan(two))
        indices: NDArray[np.int64] = self.first.indices[differs]
        return indices

    @property
    def per_class(self) -> tuple[ClassChange, ...]:
        """Compare class by class; nothing where there are no classes or no labels."""
        if not self.tells_classes:
            return ()
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
        """The indices of the samples that only the first gets right, or for which it is better."""
        return self.scores.better

    @property
    def lost(self) -> NDArray[np.int64]:
        """The indices of the samples that only the second gets right, or for which it is better."""
        return self.scores.worse

    def to_dict(self) -> dict[str, Any]:
        agreement = self.agreement if self.scores.is_share else None
        accuracy = self.second.tells_classes
        interval = self.scores.interval_95
        return {
            "model": self.second.model,
            "digest": self.second.digest,
            "execution": self.second.execution,
            "correct": self.second.correct if accuracy else None,
            "accuracy": self.second.accuracy if accuracy else None,
            "score": self.second.score.to_dict(),
            "delta": self.delta if self.scores.samples else None,
            "interval_95": None if interval is None else list(interval),
            "p_value": self.scores.p_value,
            "both_correct": agreement.both if agreement else None,
            "neither_correct": agreement.neither if agreement else None,
            "gained": self.gained.tolist(),
            "lost": self.lost.tolist(),
            "changed": len(self.changed),
            "by_score": self.scores.to_dict(),
        }


def compare_evaluations(first: Evaluation, second: Evaluation) -> EvaluationDelta:
    """Compare two evaluations by one measure; they must be of the same samples."""
    both = first.classes, second.classes
    if all(both) and len(first.class_names) != len(second.class_names):
        raise BadDataError(
            f"{first.model} tells {len(first.class_names)} classes apart, {second.model} "
            f"{len(second.class_names)}; compare models of the same task"
        )
    if first.data_digest != second.data_digest or first.images != second.images:
        raise BadDataError(
            f"{first.model} was evaluated on {many(first.images, first.sample_word)} of "
            f"{first.data}, {second.model} on {second.images} of {second.data}; evaluate both on "
            f"the same"
        )
    for one in (first, second):
        _ = one.score  # it says why there is none
    return EvaluationDelta(first, second)


paired = compare_evaluations
"""The name that `compare_evaluations` had before; scripts that use it go on working."""
