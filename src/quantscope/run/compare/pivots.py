"""Sums of values far from zero: in float32 their squares would drown what sets them apart.

So where means are asked for, a value's sum and its squares are those of its distance from a pivot,
each sample's and channel's own: of the numbers between its least and its largest value the one
nearest to zero. A value that has both signs, or zeros, is summed as it is; a distance is never
larger than the value. In float64 the sums are moved to one pivot a channel, and added up there.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

SQUARES = {"float": "signal", "quantized": "quantized_signal"}
"""The name of each value's sum of squares."""


def pivots_of(statistics: Array, names: Sequence[str]) -> dict[str, Array]:
    """Give the pivots of sums [samples, sums, channels], as [samples, channels] for each value."""

    def pivot(which: str) -> Array:
        least, most = (statistics[:, names.index(f"{which}_{end}")] for end in ("min", "max"))
        return np.asarray(np.maximum(least, 0) + np.minimum(most, 0), np.float64)

    return {which: pivot(which) for which in SQUARES if f"{which}_sum" in names}


def moved_to(
    statistics: Array, names: Sequence[str], numbers: Array | int, pivots: Mapping[str, Array]
) -> Array:
    """Give the sums in float64 about these pivots, [channels], in place of each one's own.

    `numbers` says how many numbers are behind a sum, perhaps [samples, 1].
    """
    found = statistics.astype(np.float64)
    for which, own in pivots_of(statistics, names).items():
        total, squares = names.index(f"{which}_sum"), names.index(SQUARES[which])
        away = own - pivots[which]
        found[:, squares] += away * (2 * found[:, total] + numbers * away)
        found[:, total] += numbers * away
    return found


def moved_to_zero(statistics: Array, names: Sequence[str], numbers: int) -> Array:
    """Give the sums in float64 of the values themselves."""
    return moved_to(statistics, names, numbers, dict.fromkeys(SQUARES, np.zeros(1)))


def means_and_deviations(
    sums: Mapping[str, Array], numbers: int, pivots: Mapping[str, Array]
) -> dict[str, Array]:
    """Give the mean and deviation of each channel, and what its sums are about zero.

    `sums` are about `pivots`, over so many numbers a channel.
    """
    found: dict[str, Array] = {}
    for which, pivot in pivots.items():
        total, squares = sums[f"{which}_sum"], sums[SQUARES[which]]
        beside = total / numbers
        least, most = sums[f"{which}_min"], sums[f"{which}_max"]
        # Rounding may leave a variance just below zero, or a mean just beyond an end.
        deviation = np.sqrt(np.maximum(squares / numbers - beside**2, 0))
        found[f"{which}_mean"] = np.clip(pivot + beside, least, most)
        found[f"{which}_std"] = np.where(least == most, 0.0, deviation)
        found[f"{which}_sum"] = total + numbers * pivot
        found[SQUARES[which]] = squares + pivot * (2 * total + numbers * pivot)
    return found
