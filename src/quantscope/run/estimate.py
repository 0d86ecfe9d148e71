"""The mean of one number a sample, and how sure it is."""

from dataclasses import asdict, dataclass
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantscope.run.statistics import mcnemar_exact, mean_interval, paired_t_p, wilson_interval


@dataclass(frozen=True)
class Estimate:
    """A mean over samples, with its 95 % interval and how likely chance alone is as far from 0.

    Interval and p are None for fewer than two samples.
    """

    value: float
    interval_95: tuple[float, float] | None
    p_value: float | None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def estimate_mean(per_sample: NDArray[np.float64], *, counts: bool = False) -> Estimate | None:
    """Estimate the mean of one number a sample; None where none has a number (NaN has none).

    `counts`: the numbers are differences of right and wrong. Where they are whole, samples that
    rose and samples that fell are counted: the interval is made of Wilson's for both shares, and
    stays wide where there are none; the test is the exact one of signs. All else is by Student's t.
    """
    known = per_sample[~np.isnan(per_sample)]
    if not known.size:
        return None
    value = float(known.mean())
    if not counts or not np.isin(known, (-2.0, -1.0, 0.0, 1.0, 2.0)).all():
        return Estimate(value, mean_interval(known), paired_t_p(known))
    rose, fell = (int(np.maximum(sign * known, 0).sum()) for sign in (1, -1))
    if known.size < 2:
        return Estimate(value, None, None)
    return Estimate(value, _counted_interval(rose, fell, known.size), mcnemar_exact(rose, fell))


def _counted_interval(rose: int, fell: int, samples: int) -> tuple[float, float]:
    """Join Wilson's intervals of two shares into that of their difference (Newcombe's way)."""
    # A sample may count twice, so that a count can be more than the samples are.
    up, down = (min(count, samples) for count in (rose, fell))
    low_up, high_up = wilson_interval(up, samples)
    low_down, high_down = wilson_interval(down, samples)
    p_up, p_down = up / samples, down / samples
    value = (rose - fell) / samples
    below = sqrt((p_up - low_up) ** 2 + (high_down - p_down) ** 2)
    above = sqrt((high_up - p_up) ** 2 + (p_down - low_down) ** 2)
    return value - below, value + above
