"""Turn the outputs of each variant into ranked rows."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from quantscope.data import Samples
from quantscope.run import (
    MEASURES,
    Measure,
    Outputs,
    Score,
    ScoreDelta,
    finite_rows,
    predicted_classes,
    same_outputs,
    score_outputs,
    sqnr_of_outputs,
)
from quantscope.study.sensitivity.results import Base, RowMode, SensitivityRow


@dataclass(frozen=True)
class Variant:
    """The base with one layer's quantization switched: that of `tensors`."""

    layer: str
    op_type: str
    tensors: tuple[str, ...]
    outputs: Outputs


@dataclass(frozen=True)
class Judge:
    """Scores outputs by a measure, and compares them with the float model's.

    SQNRs are of those samples for which the float model's outputs are finite. With `by_score` the
    score itself ranks, and SQNRs break ties; without it the other way round.
    """

    samples: Samples
    floats: Outputs
    measure: Measure
    by_score: bool = False

    @cached_property
    def finite(self) -> NDArray[np.bool_]:
        """Say whether the float model's outputs are all finite, for each sample."""
        return finite_rows(self.floats)

    def base(self, outputs: Outputs) -> Base:
        found = self._score(outputs)
        return Base(
            accuracy=self._accuracy(found),
            logit_sqnr_db=self._sqnr_db(outputs),
            exact=self._is_exact(outputs),
            score=_value(found),
        )

    def rows(
        self, mode: RowMode, base: Outputs, variants: Sequence[Variant]
    ) -> tuple[SensitivityRow, ...]:
        """Give ranked rows, in the order of the variants."""
        before = self._score(base)
        rows = [self._row(mode, base, before, variant) for variant in variants]
        places = sorted(range(len(rows)), key=lambda place: (*self._importance(rows[place]), place))
        ranks = {place: rank for rank, place in enumerate(places, start=1)}
        return tuple(replace(row, rank=ranks[place]) for place, row in enumerate(rows))

    def _row(self, mode: RowMode, base: Outputs, before: Score, variant: Variant) -> SensitivityRow:
        now = self._score(variant.outputs)
        delta = ScoreDelta(now, before, self.samples.indices)
        sqnr, sqnr_before = (self._sqnr_db(outputs) for outputs in (variant.outputs, base))
        return SensitivityRow(
            layer=variant.layer,
            op_type=variant.op_type,
            mode=mode,
            tensors=variant.tensors,
            accuracy=self._accuracy(now),
            delta=delta.delta if delta.samples else None,
            interval_95=delta.interval_95,
            p_value=delta.p_value,
            gained=len(delta.better),
            lost=len(delta.worse),
            changed=self._changed(variant.outputs, base, delta),
            gained_images=tuple(delta.better.tolist()),
            lost_images=tuple(delta.worse.tolist()),
            logit_sqnr_db=sqnr,
            sqnr_change_db=None if sqnr is None or sqnr_before is None else sqnr - sqnr_before,
            exact=self._is_exact(variant.outputs),
            unchanged=same_outputs(variant.outputs, base),
            rank=0,
            score=_value(now),
        )

    def _changed(self, outputs: Outputs, base: Outputs, delta: ScoreDelta) -> int:
        """Count the samples put into another class, or else those with another score."""
        if self.measure in (MEASURES["top1"], MEASURES["agreement"]):
            return int((predicted_classes(outputs) != predicted_classes(base)).sum())
        return len(delta.better) + len(delta.worse)

    def _score(self, outputs: Outputs) -> Score:
        return score_outputs(self.measure, outputs, self.samples, self.floats)

    def _accuracy(self, found: Score) -> float | None:
        return found.value if self.measure == MEASURES["top1"] else None

    def _sqnr_db(self, outputs: Outputs) -> float | None:
        return sqnr_of_outputs(self.floats, outputs, self.finite)

    def _is_exact(self, outputs: Outputs) -> bool:
        return all(
            np.array_equal(outputs[name][self.finite], theirs[self.finite])
            for name, theirs in self.floats.items()
        )

    def _importance(self, row: SensitivityRow) -> tuple[float, ...]:
        """Give a key that sorts what matters most first.

        Outputs without an SQNR come last, unless they are the float model's own.
        """
        sign = -1.0 if row.mode == "disable" else 1.0
        known = row.exact or row.logit_sqnr_db is not None
        sqnr = np.inf if row.logit_sqnr_db is None else row.logit_sqnr_db
        if not self.by_score:
            return not known, sign * sqnr, sign * self._gain(row.delta, row.exact)
        return not known, sign * self._gain(row.score, row.exact), sign * sqnr

    def _gain(self, value: float | None, exact: bool) -> float:
        """Give a number that is the larger the better; what is exact has no SQNR of its own."""
        if value is None:
            return np.inf if exact else 0.0
        return value if self.measure.higher_is_better else -value


def _value(found: Score) -> float | None:
    return None if np.isnan(found.value) else found.value
