"""What is counted of a model's answers, and the number that comes of it.

A `Measure` turns a model's outputs into one number for each sample; a `Score` is their mean, with
all of them kept, so that two scores of the same samples can be compared sample by sample. Right or
wrong against labels is one measure; agreement with the float model and the signal-to-noise ratio of
the outputs need no labels. A measure of one's own is any object with the same three parts.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from quantscope.data import Samples
from quantscope.errors import BadDataError
from quantscope.run.statistics import mean_interval, wilson_interval

Array = NDArray[Any]
Outputs = Mapping[str, Array]
"""A model's outputs for all samples, by their names, the first one first; rows are samples."""


@dataclass(frozen=True, eq=False)
class Score:
    """How good a model's answers are: the mean of `per_sample`, which has one number a sample.

    `unit` is what the numbers count in: "share" for right or wrong, "dB". `interval_95` is Wilson's
    where every number is 0 or 1, else that of a t-distribution around the mean, as `interval_of`
    says; None for a single sample. A sample for which the measure has no number is NaN, and is left
    out of the mean.
    """

    measure: str
    unit: str
    higher_is_better: bool
    per_sample: NDArray[np.float64]

    @property
    def value(self) -> float:
        """The mean over the samples that have a number; NaN where none has."""
        known = self._known
        return float(known.mean()) if known.size else float("nan")

    @property
    def samples(self) -> int:
        return len(self.per_sample)

    @property
    def is_share(self) -> bool:
        """Whether every number is 0 or 1: right or wrong, the same or not."""
        return bool(np.isin(self._known, (0.0, 1.0)).all())

    @property
    def interval_of(self) -> str:
        return "Wilson" if self.is_share else "Student's t"

    @property
    def interval_95(self) -> tuple[float, float] | None:
        known = self._known
        if self.is_share and known.size:
            return wilson_interval(int(known.sum()), known.size)
        return mean_interval(known)

    @property
    def _known(self) -> NDArray[np.float64]:
        return self.per_sample[~np.isnan(self.per_sample)]


class Measure(Protocol):
    """What is counted. `name` and `unit` go with every number that it gives."""

    @property
    def name(self) -> str: ...

    @property
    def unit(self) -> str: ...

    @property
    def higher_is_better(self) -> bool: ...

    def count(
        self, outputs: Outputs, samples: Samples, floats: Outputs | None
    ) -> NDArray[np.float64]:
        """Give one number for each sample; `floats` are the float model's outputs, if known."""


def score(
    measure: Measure, outputs: Outputs, samples: Samples, floats: Outputs | None = None
) -> Score:
    """Measure the outputs of a model for all samples."""
    counted = measure.count(outputs, samples, floats)
    return Score(measure.name, measure.unit, measure.higher_is_better, counted)


@dataclass(frozen=True)
class Top1:
    """Whether the largest value of the first output is the label's. A NaN among them is wrong."""

    name: str = "top-1 accuracy"
    unit: str = "share"
    higher_is_better: bool = True

    def count(
        self, outputs: Outputs, samples: Samples, floats: Outputs | None
    ) -> NDArray[np.float64]:
        del floats
        scores = _first(outputs)
        right = (scores.argmax(axis=1) == samples.labels) & ~np.isnan(scores).any(axis=1)
        return np.asarray(right, np.float64)


@dataclass(frozen=True)
class SameClass:
    """Whether the largest value of the first output is where the float model has it."""

    name: str = "top-1 agreement with the float model"
    unit: str = "share"
    higher_is_better: bool = True

    def count(
        self, outputs: Outputs, samples: Samples, floats: Outputs | None
    ) -> NDArray[np.float64]:
        del samples
        mine, theirs = _first(outputs), _first(_needed(floats, self.name))
        same = (mine.argmax(axis=1) == theirs.argmax(axis=1)) & ~np.isnan(mine).any(axis=1)
        return np.asarray(same, np.float64)


@dataclass(frozen=True)
class Signal:
    """The signal-to-noise ratio of all outputs of a sample against the float model's, in dB.

    A sample without any error, or without a signal, has no ratio: its number is NaN.
    """

    name: str = "SQNR of the outputs"
    unit: str = "dB"
    higher_is_better: bool = True

    def count(
        self, outputs: Outputs, samples: Samples, floats: Outputs | None
    ) -> NDArray[np.float64]:
        known = _needed(floats, self.name)
        signal, error = np.zeros(len(samples)), np.zeros(len(samples))
        for name, theirs in known.items():
            f, q = (np.asarray(v, np.float64).reshape(len(v), -1) for v in (theirs, outputs[name]))
            signal += (f * f).sum(axis=1)
            error += ((q - f) ** 2).sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = 10 * np.log10(signal / error)
        return np.where((signal > 0) & (error > 0) & np.isfinite(ratio), ratio, np.nan)


def _first(outputs: Outputs) -> Array:
    scores = next(iter(outputs.values()))
    return scores.reshape(len(scores), -1)


def _needed(floats: Outputs | None, measure: str) -> Outputs:
    if floats is None:
        raise BadDataError(f"{measure} needs the float model's outputs; give the float model")
    return floats
