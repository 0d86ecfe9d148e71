"""Keep some of a tensor while samples go by; memory does not grow with them."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantscope.run import Ends, ends_of_rows
from quantscope.study.calibration.results import Overflow

Array = NDArray[Any]


@dataclass
class RangeKeeper:
    """Keeps a tensor's ends, who set them, and the range at every doubling of the samples."""

    ends: Ends | None = None
    growth: list[tuple[int, float, float]] = field(default_factory=list)

    def add(self, low: Array, high: Array, first: int) -> None:
        """Add the [samples, channels] extremes of the rows from `first` on."""
        before = self.ends
        found = ends_of_rows(low, high, first=first)
        if found is not None:
            self.ends = found if before is None else before.merge(found)
        lows, highs = _of_rows(low, high)
        for samples in (1 << power for power in range(first.bit_length(), 63)):
            row = samples - 1 - first
            if row >= len(lows):
                break
            known = ~np.isnan(lows[: row + 1])
            least = [float(each) for each in lows[: row + 1][known]]
            most = [float(each) for each in highs[: row + 1][known]]
            if before is not None:
                least, most = [*least, before.low.value], [*most, before.high.value]
            if least:
                self.growth.append((samples, min(least), max(most)))

    def points(self, samples: int) -> tuple[tuple[int, float, float], ...]:
        """Give the range at every doubling, and that of all `samples` last."""
        assert self.ends is not None, "only a tensor that has ends is asked"
        whole = (samples, self.ends.low.value, self.ends.high.value)
        return (*(point for point in self.growth if point[0] < samples), whole)


@dataclass
class OverflowKeeper:
    """Counts the samples that go beyond a range, and keeps who goes farthest."""

    low: float
    high: float
    samples: int = 0
    below: int = 0
    above: int = 0
    beyond: int = 0
    farthest: int | None = None
    excess: float = 0.0
    seen_low: float = np.inf
    seen_high: float = -np.inf

    def add(self, low: Array, high: Array, first: int) -> None:
        """Add the [samples, channels] extremes of the rows from `first` on."""
        lows, highs = _of_rows(low, high)
        known = ~np.isnan(lows)
        if not known.any():
            return
        under, over = self.low - lows, highs - self.high
        is_under, is_over = known & (under > 0), known & (over > 0)
        self.samples += int(known.sum())
        self.below += int(is_under.sum())
        self.above += int(is_over.sum())
        self.beyond += int((is_under | is_over).sum())
        self.seen_low = min(self.seen_low, float(np.nanmin(lows)))
        self.seen_high = max(self.seen_high, float(np.nanmax(highs)))
        excess = np.where(known, np.maximum(under, over), -np.inf)
        row = int(excess.argmax())
        if excess[row] > self.excess:
            self.excess, self.farthest = float(excess[row]), first + row

    def finish(self, index_of: NDArray[np.int64]) -> Overflow | None:
        """Give what was found; `index_of` are the rows' numbers in the full set."""
        if not self.samples:
            return None
        span = self.high - self.low
        inside = min(self.seen_high, self.high) - max(self.seen_low, self.low)
        return Overflow(
            samples=self.samples,
            low=self.seen_low,
            high=self.seen_high,
            below=self.below,
            above=self.above,
            beyond=self.beyond,
            farthest=None if self.farthest is None else int(index_of[self.farthest]),
            farthest_share=self.excess / span if span > 0 else 0.0,
            used_share=max(inside, 0.0) / span if span > 0 else 1.0,
        )


def _of_rows(low: Array, high: Array) -> tuple[Array, Array]:
    """Give the ends of each row over its channels; NaN for one with a value that is not finite."""
    finite = np.isfinite(low).all(axis=1) & np.isfinite(high).all(axis=1)
    least = np.where(finite, low.min(axis=1), np.nan).astype(np.float64)
    return least, np.where(finite, high.max(axis=1), np.nan).astype(np.float64)
