"""Count values exactly, in bins whose edges lie halfway between quantization steps.

A value's step is round_half_to_even(value / step), as QuantizeLinear rounds. A bin is 1, 2, 4, ...
whole steps, and one begins at the smallest representable step: quantized values never fall on an
edge, none of them share a bin unevenly, and bins can be joined in pairs without counting again. So
one pass over the data is enough although the range is only known at its end.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Counts = NDArray[np.int64]

_MOST_KEPT = 1 << 16
# From here on, neighbouring float32 numbers are 1 apart or more: a quotient has no fraction left.
_EXACT_IN_FLOAT32 = 1 << 23


@dataclass(frozen=True)
class Grid:
    """The steps of a quantized type, counted from the real number 0.

    `low` and `high` are the smallest and largest representable step.
    """

    step: np.float32
    low: int
    high: int


@dataclass(frozen=True, eq=False)
class StepCounts:
    """Counts in bins of `width` steps; bin i begins at step `low + (first + i) * width`.

    `low` is the grid's. Memory is bounded: past 65,536 bins, neighbours are joined.
    """

    first: int
    width: int
    counts: Counts

    @property
    def end(self) -> int:
        return self.first + len(self.counts)

    def widen(self, width: int) -> "StepCounts":
        """Join bins to ones of `width` steps, a power of two times the present width."""
        factor = width // self.width
        if factor == 1:
            return self
        # New bins begin at multiples of the factor, so the first and last may hold fewer old ones.
        first = self.first // factor
        last = -(-self.end // factor)
        starts = [max(place * factor - self.first, 0) for place in range(first, last)]
        return StepCounts(first, width, np.add.reduceat(self.counts, starts))

    def spread_over(self, first: int, end: int) -> "StepCounts":
        """Add empty bins on both sides."""
        counts = np.zeros(end - first, np.int64)
        counts[self.first - first : self.end - first] = self.counts
        return StepCounts(first, self.width, counts)

    def __add__(self, other: "StepCounts") -> "StepCounts":
        width = max(self.width, other.width)
        one, two = self.widen(width), other.widen(width)
        while max(one.end, two.end) - min(one.first, two.first) > _MOST_KEPT:
            width *= 2
            one, two = one.widen(width), two.widen(width)
        first, end = min(one.first, two.first), max(one.end, two.end)
        both = one.spread_over(first, end).counts + two.spread_over(first, end).counts
        return StepCounts(first, width, both)


def count_nothing(grid: Grid) -> StepCounts:
    """Count no value at all, in bins that hold the representable range."""
    return _counted(np.zeros(0), grid)


def count_values(values: Array, grid: Grid, times: Array | None = None) -> StepCounts:
    """Count finite values by their steps; each once, or as many `times`."""
    return _counted(_steps(values.astype(np.float32, copy=False).ravel(), grid), grid, times)


def count_integers(integers: Array, zero_point: int, grid: Grid) -> StepCounts:
    """Count quantized values whose step is the grid's."""
    least = int(integers.min()) if integers.size else 0
    counts = np.bincount((integers.ravel().astype(np.int64) - least), minlength=1)
    found = StepCounts(least - zero_point - grid.low, 1, counts)
    # So that the bins hold the representable range, as those of values do.
    return found + count_nothing(grid)


def _steps(values: Array, grid: Grid) -> Array:
    """Give each value's step as QuantizeLinear rounds, a whole number as a float.

    Steps that float32 cannot hold exactly are found in float64.
    """
    with np.errstate(over="ignore"):
        # Infinite where the step is tiny; such steps are found again in float64.
        steps = values / grid.step
    np.rint(steps, out=steps)
    if steps.size and max(-float(steps.min()), float(steps.max())) >= _EXACT_IN_FLOAT32:
        far = np.abs(steps) >= _EXACT_IN_FLOAT32
        steps = steps.astype(np.float64)
        steps[far] = np.rint(values[far].astype(np.float64) / np.float64(grid.step))
    return np.asarray(steps)


def _counted(steps: Array, grid: Grid, times: Array | None = None) -> StepCounts:
    """Count whole steps, given as floats of any size."""
    span = grid.high - grid.low + 1
    # The bins hold the representable range at least.
    lowest = min(float(steps.min()) - grid.low, 0.0) if steps.size else 0.0
    highest = max(float(steps.max()) - grid.low + 1, float(span)) if steps.size else float(span)
    width = 1
    while (highest - lowest) / width > _MOST_KEPT / 2:
        width *= 2
    first = int(lowest // width)
    places = steps - grid.low
    if width > 1:
        places = np.floor(places / width)  # by a power of two, so exact
    places -= first
    end = int(-(-highest // width))
    counts = np.bincount(places.astype(np.int64), weights=times, minlength=end - first)
    return StepCounts(first, width, counts.astype(np.int64, copy=False))


def edges_between(grid: Grid, steps: Array) -> NDArray[np.float64]:
    """Find the smallest float32 value that rounds to each step or further up.

    That is half a step below it but for float32's own rounding and for ties, which go to even
    steps. So `numpy.histogram` with these edges counts what is counted here.
    """
    wanted = np.asarray(steps, np.float64)
    exact = (wanted - 0.5) * np.float64(grid.step)
    limit = np.finfo(np.float32).max
    inside = np.abs(exact) < limit
    edges = np.where(inside, exact, 0.0).astype(np.float32)

    def reaches(values: Array) -> Array:
        return np.asarray(_steps(values, grid) >= wanted)

    # Half a step below is off by a few last bits: walk up to the step, then to its first value.
    while (short := ~reaches(edges) & inside).any():
        edges[short] = np.nextafter(edges[short], np.float32(np.inf))
    while (further := reaches(before := np.nextafter(edges, -np.float32(np.inf))) & inside).any():
        edges[further] = before[further]
    return np.where(inside, edges.astype(np.float64), exact)
