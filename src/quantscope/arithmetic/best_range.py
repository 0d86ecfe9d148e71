"""A range has a cost: rounding grows with it, clipping shrinks, and somewhere the sum is least.

It is found from how a tensor's values are spread, not from the values themselves: a histogram does.
The squared error of rounding is integrated over each bin, so a step much finer than the bins, or
one that is just as wide, is judged as well as a coarse one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quantscope.arithmetic.affine import params_from_range
from quantscope.arithmetic.params import Array, QuantParams
from quantscope.errors import BadConfigError

WIDTHS: tuple[float, ...] = tuple(float(w) for w in np.geomspace(0.01, 1.0, 121))
"""The candidates for a range that nobody says others of, as shares of the extremes."""

_MOST_ATOMS = 4096
_BINS = 2048
_ROUNDS = 3


@dataclass(frozen=True, eq=False)
class Spread:
    """How the values of a tensor are spread: `counts` of them lie evenly from `lows` to `highs`.

    Where both are the same the values are exactly that, as the zeros behind a ReLU are.
    """

    lows: NDArray[np.float64]
    highs: NDArray[np.float64]
    counts: NDArray[np.float64]

    @classmethod
    def of_values(cls, values: ArrayLike) -> "Spread":
        """Take values as they are; many different ones are counted into 2,048 bins."""
        flat = np.asarray(values, np.float64).ravel()
        found, counts = np.unique(flat[np.isfinite(flat)], return_counts=True)
        if found.size <= _MOST_ATOMS:
            return cls(found, found, counts.astype(np.float64))
        binned, edges = np.histogram(found, _BINS, weights=counts)
        return cls.of_bins(edges, binned)

    @classmethod
    def of_bins(
        cls,
        edges: ArrayLike,
        counts: ArrayLike,
        *,
        lowest: float | None = None,
        highest: float | None = None,
        zeros: int = 0,
    ) -> "Spread":
        """Take the bins of a histogram, empty ones left out.

        `lowest` and `highest` are the extreme values, where they are known: the outer bins end
        there. `zeros` of the values are exactly 0, which every quantizer represents.
        """
        ends = np.asarray(edges, np.float64)
        lows, highs, left = ends[:-1].copy(), ends[1:].copy(), np.array(counts, np.float64)
        if lowest is not None:
            lows = np.maximum(lows, lowest)
        if highest is not None:
            highs = np.minimum(highs, highest)
        if zeros:
            # A bin's upper end belongs to the next one, but for the highest value of all.
            place = int(np.searchsorted(ends, 0.0, side="right")) - 1
            left[min(max(place, 0), left.size - 1)] -= zeros
        there = (left > 0) & (lows <= highs)
        lows, highs, left = lows[there], highs[there], left[there]
        if zeros:
            lows, highs = np.append(lows, 0.0), np.append(highs, 0.0)
            left = np.append(left, float(zeros))
        return cls(lows, highs, left)

    @classmethod
    def joined(cls, spreads: Sequence["Spread"]) -> "Spread":
        """Take the values of several tensors as those of one."""
        parts = ([getattr(one, part) for one in spreads] for part in ("lows", "highs", "counts"))
        return cls(*map(np.concatenate, parts))

    @cached_property
    def values(self) -> float:
        """How many values there are."""
        return float(self.counts.sum())

    @property
    def lowest(self) -> float:
        return float(self.lows.min())

    @property
    def highest(self) -> float:
        return float(self.highs.max())


@dataclass(frozen=True)
class RangeError:
    """The cost of quantizing with these parameters: mean squares over all values.

    `rounding` is the part of the values that round to an integer in use, `clipping` that of those
    beyond, so that they add up to the whole error.
    """

    params: QuantParams
    rounding: float
    clipping: float

    @property
    def total(self) -> float:
        return self.rounding + self.clipping

    @property
    def low(self) -> float:
        return float(self.params.representable_range[0])

    @property
    def high(self) -> float:
        return float(self.params.representable_range[1])

    @property
    def width(self) -> float:
        return self.high - self.low


@dataclass(frozen=True)
class RangeErrors:
    """The costs of the candidates for a range, from the narrowest to the widest.

    `today` is the range that the tensor has. `best` costs least of all, today's among them; where
    both ends of a range move apart it may be none of the candidates.
    """

    candidates: tuple[RangeError, ...]
    today: RangeError
    best: RangeError

    @property
    def gain_db(self) -> float:
        """How much smaller the error gets by the best range; 0 where today's is the best."""
        if self.best.total == self.today.total:
            return 0.0
        ratio = self.best.total / self.today.total
        return float(-10 * np.log10(ratio)) if ratio > 0 else float("inf")


def range_error(spread: Spread, params: QuantParams) -> RangeError:
    """Compute the mean squares of what rounding and clipping add to the values.

    The parameters are of a whole tensor, or of one channel; integers of any width.
    """
    _check(spread, params)
    step = float(params.step)
    low, high = (float(end) for end in params.representable_range)
    lows, highs, counts = spread.lows, spread.highs, spread.counts
    # Up to half a step beyond an end values still round to it.
    first, last = low - step / 2, high + step / 2
    width = highs - lows
    is_atom = width <= 0
    inside = _rounding_integral(np.clip(highs, first, last), step) - _rounding_integral(
        np.clip(lows, first, last), step
    )
    below = _cube(np.minimum(highs, first) - low) - _cube(np.minimum(lows, first) - low)
    above = _cube(np.maximum(highs, last) - high) - _cube(np.maximum(lows, last) - high)
    shares = np.divide(counts, width, out=np.zeros_like(counts), where=~is_atom)
    rounding = float((inside * shares).sum())
    clipping = float(((below + above) * shares).sum())
    if is_atom.any():
        exact, times = lows[is_atom], counts[is_atom]
        is_inside = (exact >= first) & (exact <= last)
        to_step = (exact - np.rint(exact / step) * step) ** 2
        to_end = (exact - np.clip(exact, low, high)) ** 2
        # A half that rounds to the even step beyond the end is clipped to it: the same distance.
        rounding += float((times * to_step)[is_inside].sum())
        clipping += float((times * to_end)[~is_inside].sum())
    return RangeError(
        params, max(rounding, 0.0) / spread.values, max(clipping, 0.0) / spread.values
    )


def range_errors(
    spread: Spread,
    params: QuantParams,
    *,
    widths: Sequence[float] = WIDTHS,
    symmetric: bool | None = None,
) -> RangeErrors:
    """Compute what other ranges would cost a tensor that has these parameters, and find the best.

    The candidates are shares of the values' extremes, both ends moved alike, in the type and with
    the ends that the parameters have. What is `symmetric` stays so, which is said of a signed type
    with zero-point 0 where nothing else is told. Else the two ends of the best are moved apart too,
    one after the other.
    """
    today = range_error(spread, params)
    symmetric = is_symmetric(params) if symmetric is None else symmetric
    low, high = min(spread.lowest, 0.0), max(spread.highest, 0.0)

    def cost(low_share: float, high_share: float) -> RangeError:
        found = params_from_range(
            low * low_share,
            high * high_share,
            params.dtype,
            symmetric=symmetric,
            ends=params.ends,
        )
        return range_error(spread, found)

    if low == high:  # zeros alone, which any range represents
        return RangeErrors((today,), today, today)
    shares = sorted(widths)
    candidates = tuple(cost(share, share) for share in shares)
    place = int(np.argmin([found.total for found in candidates]))
    best, ends = candidates[place], [shares[place]] * 2
    if not symmetric and low < 0 < high:
        stayed = 0
        for turn in range(2 * _ROUNDS):
            if stayed > 1:  # neither end moved, so none will
                break
            side, before = turn % 2, best
            for share in shares:
                tried = [share, ends[1]] if side == 0 else [ends[0], share]
                found = cost(*tried)
                if found.total < best.total:
                    best, ends = found, tried
            stayed = stayed + 1 if best is before else 0
    return RangeErrors(candidates, today, min(today, best, key=lambda found: found.total))


def best_params(values: Array, params: QuantParams) -> QuantParams:
    """Give parameters whose ranges cost stored values least: one range a tensor, or a channel."""
    _check_has_ranges(params)
    if is_symmetric(params) and np.isfinite(values).all():
        return _best_symmetric(values, params)
    if params.is_per_tensor:
        return range_errors(Spread.of_values(values), params).best.params
    found = [
        range_errors(Spread.of_values(channel), one).best.params
        for channel, one in zip(_channels(values, params), _by_channel(params), strict=True)
    ]
    return params.changed(
        scale=np.array([each.scale for each in found]).astype(params.scale.dtype),
        zero_point=np.array([each.zero_point for each in found]),
    )


def minmax_params(values: Array, params: QuantParams) -> QuantParams:
    """Give parameters that range over the extremes of stored values, of each channel where it has
    a range of its own; symmetric ones stay so, and zeros alone keep their range.
    """
    _check_has_ranges(params)
    channels = _channels(values, params)
    low, high = (end.reshape(params.scale.shape) for end in (channels.min(1), channels.max(1)))
    is_flat = (low == 0) & (high == 0)
    if is_symmetric(params):
        # Not by `params_from_range`, which lets 4 bits go one step further down than up.
        largest = np.maximum(np.abs(low), np.abs(high)).astype(np.float64) / params.qmax
        return params.changed(
            scale=np.where(is_flat, params.scale, largest).astype(params.scale.dtype)
        )
    found = params_from_range(low, high, params.dtype, axis=params.axis, ends=params.ends)
    return params.changed(
        scale=np.where(is_flat, params.scale, found.scale).astype(params.scale.dtype),
        zero_point=np.where(is_flat, params.zero_point, found.zero_point),
    )


def _best_symmetric(values: Array, params: QuantParams) -> QuantParams:
    """Try all candidates on all channels at once, as `range_errors` does one after the other."""
    channels = _channels(values, params).astype(np.float32)
    largest = np.abs(channels).max(axis=1)
    kept = params.scale.reshape(-1).astype(np.float32)
    least = _squared_errors(channels, kept, params)
    for share in WIDTHS:
        scale = (share * largest.astype(np.float64) / params.qmax).astype(np.float32)
        scale = np.where(scale < np.finfo(np.float32).tiny, kept, scale)
        found = _squared_errors(channels, scale, params)
        kept, least = np.where(found < least, scale, kept), np.minimum(found, least)
    return params.changed(scale=kept.reshape(params.scale.shape).astype(params.scale.dtype))


def _squared_errors(channels: Array, scale: Array, params: QuantParams) -> Array:
    steps = np.clip(np.rint(channels / scale[:, None]), params.qmin, params.qmax)
    return np.asarray(((steps * scale[:, None] - channels) ** 2).sum(axis=1, dtype=np.float64))


def _channels(values: Array, params: QuantParams) -> Array:
    """Give the values as one row for each range that the parameters have."""
    array = np.asarray(values)
    if params.axis is None:
        return array.reshape(1, -1)
    moved = np.moveaxis(array, params.axis, 0)
    return moved.reshape(len(moved), -1)


def _check_has_ranges(params: QuantParams) -> None:
    if params.block_size:
        raise BadConfigError("Scales by block have no range to choose here.")
    if not params.is_integer:
        raise BadConfigError(f"{params.dtype} has no range to choose; integer types have.")


def is_symmetric(params: QuantParams) -> bool:
    """Say whether the type is signed and every zero-point 0: quantizers mean symmetric by it."""
    return params.qmin < 0 and not params.zero_point.any()


def _by_channel(params: QuantParams) -> list[QuantParams]:
    return [
        QuantParams(scale, zero_point, params.dtype, ends=params.ends)
        for scale, zero_point in zip(params.scale, params.zero_point, strict=True)
    ]


def _rounding_integral(x: Array, step: float) -> Array:
    """Integrate the squared distance to the nearest whole step from 0 to x."""
    whole = np.rint(x / step)
    return np.asarray(whole * step**3 / 12 + (x - whole * step) ** 3 / 3)


def _cube(x: Array) -> Array:
    """Integrate the squared distance from 0."""
    return np.asarray(x**3 / 3)


def _check(spread: Spread, params: QuantParams) -> None:
    if not params.is_integer:
        raise BadConfigError(f"{params.dtype} has no range to choose; integer types have.")
    if not params.is_per_tensor:
        raise BadConfigError(
            f"{params.scale.size} scales have as many ranges; ask for one channel at a time."
        )
    if not spread.counts.size:
        raise BadConfigError("There is no finite value, so no range fits better than another.")
