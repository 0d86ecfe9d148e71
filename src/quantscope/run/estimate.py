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
    rose and samples that fell are counted: the interval is made of Wilson's for their shares, and
    stays wide where there are none; the test is the exact one of signs. All else is by Student's t.
    """
    known = per_sample[~np.isnan(per_sample)]
    if not known.size:
        return None
    value = float(known.mean())
    if not counts or not np.isin(known, (-2.0, -1.0, 0.0, 1.0, 2.0)).all():
        return Estimate(value, mean_interval(known), paired_t_p(known))
    if known.size < 2:
        return Estimate(value, None, None)
    # One that changes by two is one sample all the same, and one sign.
    rose, fell = int((known > 0).sum()), int((known < 0).sum())
    return Estimate(value, _counted_interval(known), mcnemar_exact(rose, fell))


def _counted_interval(known: NDArray[np.float64]) -> tuple[float, float]:
    """Join Wilson's intervals of the shares that rose and fell into that of the mean difference.

    It is Newcombe's way; samples that change by two are shares of their own, where there are any.
    """
    below = above = 0.0
    for size in (1, 2) if (np.abs(known) == 2).any() else (1,):
        up, low_up, high_up = _share(known == size)
        down, low_down, high_down = _share(known == -size)
        below += size**2 * ((up - low_up) ** 2 + (high_down - down) ** 2)
        above += size**2 * ((high_up - up) ** 2 + (down - low_down) ** 2)
    value = float(known.mean())
    return value - sqrt(below), value + sqrt(above)


def _share(those: NDArray[np.bool_]) -> tuple[float, float, float]:
    count = int(those.sum())
    return count / those.size, *wilson_interval(count, those.size)
