"""Hold what was measured side by side, on the same samples: float, reference, runtime."""

from dataclasses import dataclass
from typing import Literal

from quantscope.data import Samples
from quantscope.run import (
    MEASURES,
    Evaluation,
    EvaluationDelta,
    KernelGap,
    Score,
    compare_evaluations,
)

Of = Literal["float", "reference", "runtime"]

ACCURACY = MEASURES["top1"].name


@dataclass(frozen=True)
class Accuracies:
    """The evaluations on the same samples; None where one is not known or there is none."""

    images: Samples
    float_: Evaluation | None
    reference: Evaluation | None
    runtime: Evaluation | None
    gap: KernelGap | None

    def of(self, which: Of) -> Evaluation | None:
        return {"float": self.float_, "reference": self.reference, "runtime": self.runtime}[which]

    @property
    def quantized(self) -> Evaluation | None:
        """The answers of the quantized model, by its own arithmetic where it has that."""
        return self.reference or self.runtime

    @property
    def shown(self) -> Evaluation | None:
        """The run to look at sample by sample: the quantized model, or the float one alone."""
        return self.quantized or self.float_

    @property
    def score(self) -> Score | None:
        """A score of any of them, which says what is measured; None where nothing can be."""
        runs = (self.reference, self.runtime, self.float_)
        return next((run.scored for run in runs if run is not None and run.scored), None)

    def against_float(self, which: Of) -> EvaluationDelta | None:
        """Compare with the float model sample by sample, minus float; None where that has no score.

        It has none where the score itself says how far a model is from it.
        """
        mine = self.of(which)
        if mine is None or mine.scored is None:
            return None
        if self.float_ is None or self.float_.scored is None:
            return None
        return compare_evaluations(mine, self.float_)
