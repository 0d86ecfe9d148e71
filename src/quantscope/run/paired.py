"""Two evaluations of the same samples, compared sample by sample."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantscope.errors import BadDataError
from quantscope.plain_text import many
from quantscope.run.evaluation import Evaluation
from quantscope.run.statistics import Agreement, delta_interval, mcnemar_exact


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
