"""A measurement of a model, as a value: its outputs, their score, classes if it has any."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantscope.errors import BadDataError, BadModelError
from quantscope.model import Execution
from quantscope.run.classes import ClassAccuracy, Classes, classes_dict
from quantscope.run.deviations import OutputDeviation, output_facts
from quantscope.run.measure import Outputs, Score
from quantscope.run.runnable import Scores
from quantscope.run.statistics import wilson_interval


@dataclass(frozen=True, eq=False)
class AgainstFloat:
    """How a model's outputs agree with those of the float model, on the same samples.

    `is_stand_in`: it is the quantized network with every quantizer off, for want of the original.
    `kl_nats` is the mean divergence of the classes' probabilities; None where the first output
    tells no classes apart, and where it is not finite.
    """

    model: str
    digest: str
    is_stand_in: bool
    kl_nats: float | None
    outputs: tuple[OutputDeviation, ...]

    def to_dict(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "digest": self.digest,
            "is_stand_in": self.is_stand_in,
            "kl_nats": self.kl_nats,
            "outputs": [each.to_dict() for each in self.outputs],
        }


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The answers that a model gave for a set of samples, with the provenance of every number.

    `outputs` are all that have a row a sample, `left_out` says why others are not there. `scored`
    is what the measure counted; None where nothing could be, as `no_score` says. `classes` are
    there where the first output is scores of classes, `against_float` where the measure asked for
    the float model. `is_random`: the rows were made up, so no accuracy is claimed from them.
    """

    model: str
    digest: str
    execution: Execution
    data: str
    data_digest: str
    indices: NDArray[np.int64]
    """The index of each sample in the full set."""
    outputs: Outputs
    scored: Score | None
    classes: Classes | None
    provenance: Mapping[str, str]
    no_score: str = ""
    left_out: Mapping[str, str] = field(default_factory=dict)
    against_float: AgainstFloat | None = None
    is_stand_in: bool = False
    is_random: bool = False
    sample_word: str = "image"
    """The word for a row: image, or sample."""

    @property
    def images(self) -> int:
        """The number of samples, whatever they are."""
        return len(self.indices)

    @property
    def score(self) -> Score:
        """The measure's numbers, one a sample; an error where it could count nothing."""
        if self.scored is None:
            raise BadDataError(f"{self.model} has no score: {self.no_score}")
        return self.scored

    @property
    def tells_classes(self) -> bool:
        """Say whether there are classes with labels to hold them against."""
        return self.classes is not None and self.classes.targets is not None

    @property
    def _classes(self) -> Classes:
        if self.classes is None:
            name, first = next(iter(self.outputs.items()))
            raise BadModelError(
                f"{self.model} is not a classifier: for {self.images:,} {self.sample_word}s its "
                f"output {name!r} has shape {list(first.shape)}, expected "
                f"[{self.images:,}, classes]"
            )
        return self.classes

    @property
    def scores(self) -> Scores:
        """The first output, [samples, classes]: logits or probabilities."""
        return self._classes.scores

    @property
    def predictions(self) -> NDArray[np.int64]:
        """Each sample's class; -1 where a score is NaN."""
        return self._classes.predictions

    @property
    def labels(self) -> NDArray[np.int64]:
        return self._classes.labels

    @property
    def class_names(self) -> tuple[str, ...]:
        return self._classes.names

    @property
    def loss(self) -> float | None:
        """Mean cross-entropy in nats; see `Classes`."""
        return self._classes.loss

    @property
    def correct(self) -> int:
        return self._classes.correct

    @property
    def accuracy(self) -> float:
        return self.correct / self.images

    @property
    def interval_95(self) -> tuple[float, float]:
        """The interval of the accuracy."""
        return wilson_interval(self.correct, self.images)

    @property
    def not_finite(self) -> int:
        """The number of samples with a NaN score; they count as wrong, and not in the confusion."""
        return 0 if self.classes is None else self.classes.not_finite

    @property
    def confusion(self) -> NDArray[np.int64]:
        """The counts [classes, classes]: rows are the true class, columns the predicted one."""
        return self._classes.confusion

    @property
    def per_class(self) -> tuple[ClassAccuracy, ...]:
        return self._classes.per_class

    @cached_property
    def output_facts(self) -> list[Mapping[str, Any]]:
        """Each output's name, the shape of a row, type, and least and largest finite value."""
        return output_facts(self.outputs)

    def to_dict(self) -> dict[str, Any]:
        """Give plain values for JSON; what there is no label or no class for is None."""
        return {
            "model": self.model,
            "digest": self.digest,
            "execution": self.execution,
            "data": self.data,
            "data_digest": self.data_digest,
            "data_is_random": self.is_random,
            "images": self.images,
            "score": None if self.scored is None else self.scored.to_dict(),
            "no_score": self.no_score,
            **classes_dict(self.classes),
            "outputs": self.output_facts,
            "left_out": dict(self.left_out),
            "against_float": None if self.against_float is None else self.against_float.to_dict(),
            "provenance": dict(self.provenance),
        }
