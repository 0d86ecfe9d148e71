"""Turn the scores of each variant into ranked rows."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from quantscope.arithmetic import sqnr_db_of_values
from quantscope.data import Samples
from quantscope.model import Execution
from quantscope.run import Evaluation, PairedDelta, Scores, judge_scores
from quantscope.study.sensitivity.results import Base, RowMode, SensitivityRow


@dataclass(frozen=True)
class Variant:
    """The base with one layer's quantization switched: that of `tensors`."""

    layer: str
    op_type: str
    tensors: tuple[str, ...]
    scores: Scores


@dataclass(frozen=True)
class Judge:
    """Compares scores with the float model's, on those images where these are finite."""

    images: Samples
    execution: Execution
    float_scores: Scores

    @cached_property
    def finite(self) -> NDArray[np.bool_]:
        """Whether the float model's scores are all finite, for each image."""
        return np.asarray(np.isfinite(self.float_scores).all(axis=1))

    def base(self, scores: Scores) -> Base:
        return Base(
            accuracy=self._evaluation(scores).accuracy,
            logit_sqnr_db=self._sqnr_db(scores),
            exact=self._is_exact(scores),
        )

    def rows(
        self, mode: RowMode, base: Scores, variants: Sequence[Variant]
    ) -> tuple[SensitivityRow, ...]:
        """Give ranked rows, in the order of the variants."""
        rows = [self._row(mode, base, variant) for variant in variants]
        places = sorted(range(len(rows)), key=lambda place: (*_importance(rows[place]), place))
        ranks = {place: rank for rank, place in enumerate(places, start=1)}
        return tuple(replace(row, rank=ranks[place]) for place, row in enumerate(rows))

    def _row(self, mode: RowMode, base: Scores, variant: Variant) -> SensitivityRow:
        now = self._evaluation(variant.scores)
        paired = PairedDelta(now, self._evaluation(base))
        sqnr, before = (self._sqnr_db(scores) for scores in (variant.scores, base))
        return SensitivityRow(
            layer=variant.layer,
            op_type=variant.op_type,
            mode=mode,
            tensors=variant.tensors,
            accuracy=now.accuracy,
            delta=paired.delta,
            interval_95=paired.interval_95,
            p_value=paired.p_value,
            gained=len(paired.gained),
            lost=len(paired.lost),
            changed=len(paired.changed),
            gained_images=tuple(paired.gained.tolist()),
            lost_images=tuple(paired.lost.tolist()),
            logit_sqnr_db=sqnr,
            sqnr_change_db=None if sqnr is None or before is None else sqnr - before,
            exact=self._is_exact(variant.scores),
            unchanged=np.array_equal(variant.scores, base, equal_nan=True),
            rank=0,
        )

    def _sqnr_db(self, scores: Scores) -> float | None:
        return sqnr_db_of_values(self.float_scores[self.finite], scores[self.finite])

    def _is_exact(self, scores: Scores) -> bool:
        return np.array_equal(scores[self.finite], self.float_scores[self.finite])

    def _evaluation(self, scores: Scores) -> Evaluation:
        return judge_scores(scores, self.images, model="a variant", execution=self.execution)


def _importance(row: SensitivityRow) -> tuple[bool, float, float]:
    """Give a key that sorts what matters most first."""
    sign = -1.0 if row.mode == "disable" else 1.0
    if row.logit_sqnr_db is None:
        return not row.exact, sign * np.inf, sign * row.delta
    return False, sign * row.logit_sqnr_db, sign * row.delta
