"""Two scores of the same samples, compared sample by sample."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantscope.errors import BadDataError
from quantscope.run.measure import Score
from quantscope.run.statistics import (
    Agreement,
    delta_interval,
    mcnemar_exact,
    mean_interval,
    paired_t_p,
)

WORST = 5


@dataclass(frozen=True, eq=False)
class ScoreDelta:
    """The first score minus the second, over the samples for which both have a number.

    Where all numbers are right or wrong, the interval is Newcombe's for paired shares and the test
    McNemar's exact one; else both are those of a t-distribution around the mean difference.
    `indices` are the samples' numbers in the full set.
    """

    first: Score
    second: Score
    indices: NDArray[np.int64]

    def __post_init__(self) -> None:
        if self.first.measure != self.second.measure:
            raise BadDataError(
                f"One was measured by {self.first.measure}, the other by {self.second.measure}; "
                f"take the same --measure for both"
            )

    @property
    def is_share(self) -> bool:
        return self.first.is_share and self.second.is_share

    @cached_property
    def agreement(self) -> Agreement:
        """Count the samples that both, one or neither gets right; for shares."""
        one, two = (self._of(each) == 1 for each in (self.first, self.second))
        return Agreement(
            both=int((one & two).sum()),
            only_first=int((one & ~two).sum()),
            only_second=int((~one & two).sum()),
            neither=int((~one & ~two).sum()),
        )

    @cached_property
    def by_sample(self) -> NDArray[np.float64]:
        """First minus second for each sample; NaN where one of them has no number."""
        return self.first.per_sample - self.second.per_sample

    @property
    def samples(self) -> int:
        """The samples that have a number in both."""
        return int(self._both.sum())

    @property
    def delta(self) -> float:
        """The mean difference; NaN where no sample has a number in both."""
        if not self.samples:
            return float("nan")
        if self.is_share:
            return float(self._of(self.first).mean()) - float(self._of(self.second).mean())
        return float(self.by_sample[self._both].mean())

    @cached_property
    def interval_95(self) -> tuple[float, float] | None:
        if self.is_share and self.samples:
            return delta_interval(self.agreement)
        return mean_interval(self.by_sample[self._both])

    @property
    def interval_of(self) -> str:
        return "Newcombe, paired" if self.is_share else "paired t"

    @cached_property
    def p_value(self) -> float | None:
        """How likely chance alone differs as much; None for fewer than two samples."""
        if self.is_share and self.samples:
            return mcnemar_exact(self.agreement.only_first, self.agreement.only_second)
        return paired_t_p(self.by_sample[self._both])

    @property
    def p_of(self) -> str:
        return "McNemar exact" if self.is_share else "paired t-test"

    @property
    def better(self) -> NDArray[np.int64]:
        """The indices of the samples for which the first is better."""
        found: NDArray[np.int64] = self.indices[self._gain > 0]
        return found

    @property
    def worse(self) -> NDArray[np.int64]:
        """The indices of the samples for which the first is worse."""
        found: NDArray[np.int64] = self.indices[self._gain < 0]
        return found

    @property
    def most_worse(self) -> tuple[tuple[int, float], ...]:
        """The samples that lost most, with their differences; the most first."""
        rows = [row for row in np.argsort(self._gain, kind="stable") if self._gain[row] < 0]
        return tuple((int(self.indices[r]), float(self.by_sample[r])) for r in rows[:WORST])

    def to_dict(self) -> dict[str, Any]:
        """Give plain values for JSON; the samples are counted, and the worst ones named."""
        interval = self.interval_95
        return {
            "measure": self.first.measure,
            "unit": self.first.unit,
            "higher_is_better": self.first.higher_is_better,
            "delta": self.delta if self.samples else None,
            "interval_95": None if interval is None else list(interval),
            "interval_of": self.interval_of,
            "p_value": self.p_value,
            "p_of": self.p_of,
            "samples": self.samples,
            "better": len(self.better),
            "worse": len(self.worse),
            "most_worse": [{"index": i, "delta": delta} for i, delta in self.most_worse],
        }

    @cached_property
    def _both(self) -> NDArray[np.bool_]:
        return np.asarray(~np.isnan(self.by_sample))

    def _of(self, score: Score) -> NDArray[np.float64]:
        return score.per_sample[self._both]

    @cached_property
    def _gain(self) -> NDArray[np.float64]:
        """The gain of each sample, whichever way is better; 0 where one has no number."""
        sign = 1.0 if self.first.higher_is_better else -1.0
        return np.where(self._both, sign * self.by_sample, 0.0)
