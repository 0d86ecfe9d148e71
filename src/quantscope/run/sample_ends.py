"""The farthest values of a tensor, and which sample and channel had them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True)
class End:
    """One end of a tensor's values: the farthest, and the farthest of all other samples.

    `sample` is the row's place in the set, `channel` that of the value; None where a tensor has no
    samples or no channels to tell apart. `without` is the end if that sample were left out; None
    where there is no other.
    """

    value: float
    sample: int | None
    channel: int | None
    without: float | None

    def merge(self, other: "End", farther: Any) -> "End":
        """Give the end of both sets of samples; `farther` picks the farther of two numbers."""
        first, second = (self, other) if farther(self.value, other.value) else (other, self)
        rest = [each for each in (first.without, second.value) if each is not None]
        without = rest[0] if len(rest) == 1 or farther(rest[0], rest[1]) else rest[1]
        return End(first.value, first.sample, first.channel, without)


@dataclass(frozen=True)
class Ends:
    """Both ends of a tensor's values over the samples."""

    low: End
    high: End

    def merge(self, other: "Ends") -> "Ends":
        return Ends(
            self.low.merge(other.low, lambda a, b: a <= b),
            self.high.merge(other.high, lambda a, b: a >= b),
        )

    @property
    def span(self) -> float:
        return self.high.value - self.low.value


def ends_of_rows(low: Array, high: Array, *, first: int) -> Ends | None:
    """Give the ends of [samples, channels] least and largest values; rows count from `first`.

    Rows with a value that is not finite are left out; None where none is left.
    """
    finite = np.isfinite(low).all(axis=1) & np.isfinite(high).all(axis=1)
    rows = np.flatnonzero(finite)
    if not rows.size:
        return None
    parts = []
    for values, sign in ((low[rows], 1.0), (high[rows], -1.0)):
        channels = (sign * values).argmin(axis=1)
        by_row = values[np.arange(len(rows)), channels]
        order = np.argsort(sign * by_row, kind="stable")
        farthest = int(order[0])
        parts.append(
            End(
                value=float(by_row[farthest]),
                sample=first + int(rows[farthest]),
                channel=int(channels[farthest]) if values.shape[1] > 1 else None,
                without=float(by_row[order[1]]) if len(order) > 1 else None,
            )
        )
    return Ends(parts[0], parts[1])
