"""A measure counts something of a model's answers; a score is the number that comes of it.

A `Measure` turns a model's outputs into one number for each sample; a `Score` is their mean, with
all of them kept, so that two scores of the same samples can be compared sample by sample. Right or
wrong against labels is one measure; agreement with the float model and the signal-to-noise ratio of
the outputs need no labels. A measure of one's own is any object with the same three parts.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from quantscope.data import Samples
from quantscope.errors import BadConfigError, BadDataError, BadModelError
from quantscope.run.classes import Classes, class_scores, labels_of, tells_classes
from quantscope.run.deviations import ratio_db, row_energies
from quantscope.run.outputs import Array, Outputs, row_chunks
from quantscope.run.own_measure import load_measure
from quantscope.run.statistics import mean_interval, wilson_interval

__all__ = [
    "MEASURES",
    "Array",
    "Measure",
    "Noise",
    "Outputs",
    "SameClass",
    "Score",
    "Signal",
    "Top1",
    "find_measure",
    "pick_measure",
    "score",
    "score_of_classes",
]


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
        """Say whether every number is 0 or 1: right or wrong, the same or not."""
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

    def to_dict(self) -> dict[str, Any]:
        """Give the number and what it is, for JSON; `samples` counts those that have a number."""
        interval = self.interval_95
        return {
            "measure": self.measure,
            "unit": self.unit,
            "higher_is_better": self.higher_is_better,
            "value": self.value if self._known.size else None,
            "interval_95": None if interval is None else list(interval),
            "interval_of": self.interval_of,
            "samples": int(self._known.size),
        }

    @property
    def _known(self) -> NDArray[np.float64]:
        return self.per_sample[~np.isnan(self.per_sample)]


class Measure(Protocol):
    """The thing that is counted. `name` and `unit` go with every number that it gives.

    `needs_floats`: it compares with the float model's outputs.
    """

    @property
    def name(self) -> str: ...

    @property
    def unit(self) -> str: ...

    @property
    def higher_is_better(self) -> bool: ...

    @property
    def needs_floats(self) -> bool: ...

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
    """Count where the first output's largest value is the label's. A NaN among them is wrong."""

    name: str = "top-1 accuracy"
    unit: str = "share"
    higher_is_better: bool = True
    needs_floats: bool = False

    def count(
        self, outputs: Outputs, samples: Samples, floats: Outputs | None
    ) -> NDArray[np.float64]:
        del floats
        if samples.is_random:
            raise BadDataError(
                f"{samples.name} are made-up rows: nothing is right or wrong there; give labelled "
                f"ones with --data, or take --measure signal"
            )
        scores = _scores(outputs)
        right = (scores.argmax(axis=1) == samples.labels) & ~np.isnan(scores).any(axis=1)
        return np.asarray(right, np.float64)


def score_of_classes(classes: Classes) -> Score:
    """Give the top-1 score of classes that are known, by their predictions and labels."""
    return Score(Top1.name, Top1.unit, Top1.higher_is_better, classes.right.astype(np.float64))


@dataclass(frozen=True)
class SameClass:
    """Count where the largest value of the first output is where the float model has it."""

    name: str = "top-1 agreement with the float model"
    unit: str = "share"
    higher_is_better: bool = True
    needs_floats: bool = True

    def count(
        self, outputs: Outputs, samples: Samples, floats: Outputs | None
    ) -> NDArray[np.float64]:
        del samples
        mine, theirs = _scores(outputs), _scores(_needed(floats, self.name))
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
    needs_floats: bool = True

    def count(
        self, outputs: Outputs, samples: Samples, floats: Outputs | None
    ) -> NDArray[np.float64]:
        return ratio_db(*_energies(_needed(floats, self.name), outputs, len(samples)))


@dataclass(frozen=True)
class Noise:
    """The energy of the error of a sample's outputs, as a share of the float outputs' energy.

    It is what `Signal` has in decibels. The noises of two errors that have nothing to do with each
    other add up, which decibels do not, and without an error it is 0. A sample for which the float
    model gives nothing but zeros has no number.
    """

    name: str = "noise of the outputs"
    unit: str = "of the signal"
    higher_is_better: bool = False
    needs_floats: bool = True

    def count(
        self, outputs: Outputs, samples: Samples, floats: Outputs | None
    ) -> NDArray[np.float64]:
        known = _needed(floats, self.name)
        signal, error = _energies(known, outputs, len(samples))
        shown = (signal > 0) & np.isfinite(signal) & np.isfinite(error)
        ratio = np.full(len(samples), np.nan)
        np.divide(error, signal, out=ratio, where=shown)
        return ratio


def _energies(
    floats: Outputs, outputs: Outputs, rows: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Give the energy of each sample over all outputs, and that of its error."""
    signal, error = np.zeros(rows), np.zeros(rows)
    for chunk in row_chunks(floats):
        for name, theirs in floats.items():
            of_floats, of_error = row_energies(theirs, outputs[name], chunk)
            signal[chunk] += of_floats
            error[chunk] += of_error
    return signal, error


MEASURES: dict[str, Measure] = {
    "top1": Top1(),
    "agreement": SameClass(),
    "signal": Signal(),
    "noise": Noise(),
}
"""The measures that have a name of their own."""


def pick_measure(outputs: Outputs, samples: Samples, *, probabilities: bool) -> Measure:
    """Choose by what is there: labels and scores of classes, scores alone, or any numbers.

    `probabilities`: the first output is a softmax's.
    """
    if labels_of(samples) is not None and class_scores(outputs) is not None:
        return MEASURES["top1"]
    if tells_classes(outputs, samples, probabilities=probabilities):
        return MEASURES["agreement"]
    return MEASURES["signal"]


def find_measure(spec: str, *, lower_is_better: bool = False) -> Measure:
    """Find the measure that --measure names; a function is loaded from its file and nothing else.

    `lower_is_better` is for a function whose numbers are errors.
    """
    if spec in MEASURES:
        if lower_is_better:
            raise BadConfigError(
                f"Higher is better in {spec}; --lower-is-better goes with FILE.py:FUNCTION"
            )
        return MEASURES[spec]
    if ":" not in spec:
        raise BadConfigError(
            f"There is no measure {spec!r}; give {', '.join(MEASURES)} or FILE.py:FUNCTION"
        )
    return load_measure(spec, lower_is_better=lower_is_better)


def _scores(outputs: Outputs) -> Array:
    scores = class_scores(outputs)
    if scores is None:
        name, found = next(iter(outputs.items()))
        raise BadModelError(
            f"The output {name!r} has the shape {list(found.shape)}, not [samples, classes]: it "
            f"tells no classes apart; take --measure signal"
        )
    return scores


def _needed(floats: Outputs | None, measure: str) -> Outputs:
    if floats is None:
        raise BadDataError(f"{measure} needs the float model's outputs; give the float model")
    return floats
