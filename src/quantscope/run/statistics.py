"""How sure a score is, and two scores of the same samples."""

from dataclasses import dataclass
from functools import cache
from math import atan, cos, exp, lgamma, log, log1p, pi, sin, sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Z_95 = NormalDist().inv_cdf(0.975)


def wilson_interval(correct: int, total: int) -> tuple[float, float]:
    """Give the 95 % Wilson score interval of a proportion."""
    p = correct / total
    centre = p + Z_95**2 / (2 * total)
    spread = Z_95 * sqrt(p * (1 - p) / total + Z_95**2 / (4 * total**2))
    scale = 1 + Z_95**2 / total
    # At 0 and at all correct, one end is exact; floating point would miss it by 1e-17.
    low = 0.0 if correct == 0 else (centre - spread) / scale
    high = 1.0 if correct == total else (centre + spread) / scale
    return low, high


def mean_interval(values: NDArray[np.float64]) -> tuple[float, float] | None:
    """The 95 % interval of a mean by Student's t; None for fewer than two values."""
    if len(values) < 2:
        return None
    mean, spread = float(values.mean()), float(values.std(ddof=1)) / sqrt(len(values))
    reach = student_t_95(len(values) - 1) * spread
    return mean - reach, mean + reach


@cache
def student_t_95(degrees: int) -> float:
    """The distance within which 95 % of Student's t lies, to nine digits."""
    z, n = Z_95, degrees
    if n > 200:  # Cornish and Fisher's expansion: the next term is below 1e-9
        first = (z**3 + z) / 4
        second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
        third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
        return z + first / n + second / n**2 + third / n**3
    low, high = 0.0, 13.0  # at one degree of freedom it is 12.7
    while high - low > 1e-12:
        middle = (low + high) / 2
        low, high = (middle, high) if _student_t_within(middle, n) < 0.95 else (low, middle)
    return (low + high) / 2


def _student_t_within(t: float, degrees: int) -> float:
    """The share of Student's t that lies within -t and t: Abramowitz and Stegun, 26.7.3 and .4."""
    angle = atan(t / sqrt(degrees))
    is_odd = degrees % 2 == 1
    term = cos(angle) if is_odd else 1.0
    total = term if degrees > 1 else 0.0
    for k in range(3 if is_odd else 2, degrees - 1, 2):
        term *= cos(angle) ** 2 * (k - 1) / k
        total += term
    within = sin(angle) * total
    return 2 / pi * (angle + within) if is_odd else within


def paired_t_p(differences: NDArray[np.float64]) -> float | None:
    """Give the two-sided p of a paired t-test; None for fewer than two differences."""
    n = len(differences)
    if n < 2:
        return None
    mean, spread = float(differences.mean()), float(differences.std(ddof=1)) / sqrt(n)
    if spread == 0:  # all the same: chance has no part in it, unless there is no difference
        return 1.0 if mean == 0 else 0.0
    t, degrees = mean / spread, n - 1
    return incomplete_beta(degrees / (degrees + t * t), degrees / 2, 0.5)


def incomplete_beta(x: float, a: float, b: float) -> float:
    """The regularized incomplete beta function I_x(a, b), to about twelve digits."""
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    if x > (a + 1) / (a + b + 2):  # the fraction converges fast on one side only
        return 1 - incomplete_beta(1 - x, b, a)
    front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x)) / a
    return front / _beta_fraction(x, a, b)


def _beta_fraction(x: float, a: float, b: float) -> float:
    """The continued fraction of Abramowitz and Stegun, 26.5.8, by Lentz's method."""
    tiny = 1e-300
    value, c, d = 1.0, 1.0, 0.0
    for step in range(1, 10_000):
        m = step // 2
        if step % 2:
            term = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            term = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        d = 1 / ((1 + term * d) or tiny)
        c = (1 + term / c) or tiny
        value *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return value


def mcnemar_exact(only_first: int, only_second: int) -> float:
    """Give the two-sided p of McNemar's exact test.

    The arguments are the numbers of images that only one of the two got right.
    """
    flipped = only_first + only_second
    fewer = min(only_first, only_second)
    # Binomial coefficients one from the other, in integers until the one division: 2**flipped
    # overflows a float past 1,023 flips.
    tail = term = 1
    for k in range(fewer):
        term = term * (flipped - k) // (k + 1)
        tail += term
    return min(1.0, 2 * tail / (1 << flipped))


@dataclass(frozen=True)
class Agreement:
    """The numbers of images that both, one or neither of two classifiers gets right."""

    both: int
    only_first: int
    only_second: int
    neither: int

    @property
    def total(self) -> int:
        return self.both + self.only_first + self.only_second + self.neither


def delta_interval(agreement: Agreement) -> tuple[float, float]:
    """Give the 95 % interval of (first - second) accuracy, paired: Newcombe 1998, method 10."""
    n = agreement.total
    first = agreement.both + agreement.only_first
    second = agreement.both + agreement.only_second
    delta = (first - second) / n
    low1, high1 = wilson_interval(first, n)
    low2, high2 = wilson_interval(second, n)
    p1, p2 = first / n, second / n
    phi = _correlation(agreement)

    def spread(a: float, b: float) -> float:
        return sqrt(max(a * a - 2 * phi * a * b + b * b, 0.0))

    return delta - spread(p1 - low1, high2 - p2), delta + spread(high1 - p1, p2 - low2)


def _correlation(agreement: Agreement) -> float:
    """Give the phi coefficient of the two, with Newcombe's correction; 0 where undefined."""
    a, b, c, d = (
        agreement.both,
        agreement.only_first,
        agreement.only_second,
        agreement.neither,
    )
    margins = (a + b) * (c + d) * (a + c) * (b + d)
    if margins == 0:
        return 0.0
    covariance = float(a * d - b * c)
    if covariance > 0:  # Newcombe's continuity correction
        covariance = max(covariance - agreement.total / 2, 0.0)
    return covariance / sqrt(margins)
