"""Add up a probe's sums over batches in float64, and say what they mean for a tensor."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import isfinite, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantscope.arithmetic import sqnr_db_of_energies
from quantscope.data import Samples
from quantscope.plain_text import many
from quantscope.run.batches import BYTES_AT_ONCE
from quantscope.run.compare.joint_run import Probe
from quantscope.run.compare.pivots import means_and_deviations, moved_to, pivots_of
from quantscope.run.compare.results import (
    ChannelComparison,
    ErrorSources,
    Spread,
    TensorComparison,
)
from quantscope.run.compare.sums import HIGHEST, LOWEST, OF_VALUES, PARTS, share_by_input

Array = NDArray[Any]

IDEAL_RMSE_STEPS = 1 / sqrt(12)
_WORST = 3
_NO_SHARE = 1e-6
"""The largest share that float32 sums leave where there is none."""
# Squares are summed in float32: a larger value's square is infinite.
_LARGEST = float(np.sqrt(np.finfo(np.float32).max))


def ideal_rmse_steps(share_not_zero: float, local_error: float) -> float:
    """Give the RMS error of rounding alone, in steps; zero is always a step, so has no error.

    Where the quantizer alone makes none either, all values are steps: integers, say.
    """
    return IDEAL_RMSE_STEPS * sqrt(share_not_zero) if local_error else 0.0


@dataclass
class RunningSums:
    """The sums of one probe so far; memory does not grow with images."""

    probe: Probe
    elements: int = 0
    """The number of elements of one channel, over all images."""
    not_finite_images: int = 0
    first_not_finite: int | None = None
    not_finite_what: str | None = None
    seen: int = 0
    mixed: str | None = None
    """The reason why images cannot be told from what fills up a batch, or channels from batches."""
    _kept: Array | None = field(default=None, repr=False)
    """The sums so far, [sums, channels]."""
    _waiting: list[tuple[Array, int, int]] = field(default_factory=list, repr=False)
    """The sums [images, sums, channels] and images of each batch that is not added yet.

    The third says how many numbers are behind a sum.
    """
    _pivots: dict[str, Array] = field(default_factory=dict, repr=False)
    """The sums are about these, [channels] for each value; see `pivots.py`."""
    _bytes_waiting: int = 0
    _width: int | None = None

    @property
    def sums(self) -> dict[str, Array]:
        """The sums by name, [channels] each; least, largest and mean values are among them."""
        self._add_up()
        if self._kept is None:
            return {}
        found = dict(zip(self.probe.sum_names, self._kept, strict=True))
        with np.errstate(invalid="ignore", over="ignore"):  # where not all values are finite
            return {**found, **means_and_deviations(found, self.elements, self._pivots)}

    def add(self, statistics: Array, size: int | None, rows: int, count: int) -> None:
        """Add what the probe gave for one batch.

        Its last `rows - count` images only fill it up, and are not counted. `size` counts the
        numbers behind it; None will do where only the SQNR is asked for.
        """
        statistics = self.probe.by_sum(statistics)
        first = len(statistics)
        if first == rows:
            statistics = statistics[:count]
        elif count < rows:
            self.mixed = (
                "its first axis does not count images, so those that only fill up the last batch "
                "cannot be left out"
            )
        width = statistics.shape[2]
        if self._width not in (None, width):
            self.mixed = "the axis of its channels has another length in other batches"
            self._add_up()
            self._look_for_not_finite([(statistics, count, 0)])
            self.seen += count
            return
        self._width = width
        # `size` counts all images of the batch, also those that only fill it up.
        numbers = 0 if size is None else size // max(first * width, 1)
        self.elements += numbers * len(statistics)
        self._waiting.append((statistics, count, numbers))
        self._bytes_waiting += statistics.nbytes
        if self._bytes_waiting >= BYTES_AT_ONCE:
            self._add_up()

    def _add_up(self) -> None:
        if not self._waiting:
            return
        statistics = np.concatenate([each for each, _, _ in self._waiting])
        with np.errstate(invalid="ignore", over="ignore"):
            found = self._about_pivots(statistics).sum(axis=0, dtype=np.float64)
            if not np.isfinite(found[self._measured]).all():
                self._look_for_not_finite(self._waiting)
            for keep, at in self._extremes:
                found[at] = keep.reduce(statistics[:, at], axis=0)
            self._kept = found if self._kept is None else self._together(self._kept, found)
        self.seen += sum(count for _, count, _ in self._waiting)
        self._waiting, self._bytes_waiting = [], 0

    def _about_pivots(self, statistics: Array) -> Array:
        """Give the sums that are waiting about the first image's pivots; some have none."""
        names = self.probe.sum_names
        if "float_sum" not in names:
            return statistics
        if not self._pivots:
            firsts = pivots_of(statistics[:1], names)
            self._pivots = {which: np.nan_to_num(first[0]) for which, first in firsts.items()}
        numbers = [(each.shape[0], behind) for each, _, behind in self._waiting]
        behind = np.repeat([n for _, n in numbers], [images for images, _ in numbers])
        return moved_to(statistics, names, behind[:, None], self._pivots)

    @cached_property
    def _extremes(self) -> list[tuple[np.ufunc, list[int]]]:
        """Rows that keep the least of what they are given, and those that keep the largest."""
        sums = self.probe.sum_names
        kinds = (np.minimum, LOWEST), (np.maximum, HIGHEST)
        found = [(keep, [sums.index(n) for n in names if n in sums]) for keep, names in kinds]
        return [(keep, at) for keep, at in found if at]

    @cached_property
    def _measured(self) -> list[int]:
        """The places of the sums that must be finite."""
        return [at for at, name in enumerate(self.probe.sum_names) if name in OF_VALUES]

    def _together(self, before: Array, found: Array) -> Array:
        kept: Array = before + found
        for keep, at in self._extremes:
            kept[at] = keep(before[at], found[at])
        return kept

    def _look_for_not_finite(self, batches: Sequence[tuple[Array, int, int]]) -> None:
        """Count images with values that are not finite, in batches not among the `seen` yet."""
        before = self.seen
        for statistics, count, _ in batches:
            finite = np.asarray(np.isfinite(statistics[:, self._measured]).all(axis=(1, 2)))
            places = np.flatnonzero(~finite)
            found = np.unique(places * count // len(finite))  # its first axis may not count images
            if len(found) and self.first_not_finite is None:
                self.first_not_finite = before + int(found[0])
                sums = dict(zip(self.probe.sum_names, statistics[places[0]], strict=True))
                self.not_finite_what = self._what(sums)
            self.not_finite_images += len(found)
            before += count

    @staticmethod
    def _what(sums: dict[str, Array]) -> str:
        """Say what was met, and in which network; a finite value's square may be infinite too."""
        # Not the least and the largest ones: a NaN is neither.
        totals = [sums[name] for name in ("float_sum", "quantized_sum") if name in sums]
        what = "NaN or infinite" if totals else f"NaN, infinite or over {_LARGEST:.1e}"
        if totals and np.isfinite(totals).all():
            what = f"over {_LARGEST:.1e}, whose square is infinite,"
        in_float = not np.isfinite(sums["signal"]).all()
        return f"{what} in the {'float' if in_float else 'quantized'} network"

    def not_finite(self, images: Samples) -> str | None:
        """Say where a value was met that is not finite; `images` are all that were run."""
        self._add_up()
        if self.first_not_finite is None:
            return None
        return (
            f"{self.probe.pair.name}: {self.not_finite_what} for {self.not_finite_images} of "
            f"{many(len(images), 'image')}, first image {images.indices[self.first_not_finite]}"
        )

    def finish(self) -> TensorComparison:
        """Turn the sums into the numbers of a tensor."""
        pair, tensor, sums = self.probe.pair, self.probe.tensor, self.sums
        error = float(sums["error"].sum())
        exact = error == 0.0
        result: dict[str, Any] = {}
        if self.not_finite_images == 0:
            result = self._full() if "local_error" in sums else {}
            result["sqnr_db"] = sqnr_db_of_energies(float(sums["signal"].sum()), error)
        result.setdefault("sqnr_db", None)
        result.setdefault("local_sqnr_db", None)
        result["no_sources"] = self._no_sources(result, exact)
        return TensorComparison(
            name=pair.name,
            float_name=pair.float_name,
            layer=pair.layer,
            role=pair.role,
            bits=tensor.params.bits,
            exact=exact,
            not_finite_images=self.not_finite_images,
            **result,
        )

    def _no_sources(self, result: dict[str, Any], exact: bool) -> str | None:
        if self.probe.no_sources is not None or result.get("sources") is not None:
            return self.probe.no_sources
        if exact:
            return "it has no error"
        if self.not_finite_images:
            return "its values are not all finite"
        return "its layer gives values that are not finite, or too large, before the quantizer"

    def _full(self) -> dict[str, Any]:
        sums = self.sums
        total = {name: float(values.sum()) for name, values in sums.items()}
        channels = len(sums["signal"])
        elements = self.elements * channels
        per_channel = self._channels()
        return {
            "local_sqnr_db": sqnr_db_of_energies(total["signal"], total["local_error"]),
            "clipped_low_fraction": total.get("clipped_low", 0.0) / elements,
            "clipped_high_fraction": total["clipped_high"] / elements,
            "beyond_low_steps": self._beyond(-1),
            "beyond_high_steps": self._beyond(1),
            "used_share_of_range": self._used_share(),
            "float_values": self._spread("float"),
            "quantized_values": self._spread("quantized"),
            "rmse_steps": self._rmse_steps("error"),
            "local_rmse_steps": self._rmse_steps("local_error"),
            "ideal_rmse_steps": ideal_rmse_steps(
                total.get("not_zero", elements) / elements, total["local_error"]
            ),
            "cosine": _cosine(total["signal"], total["quantized_signal"], total["error"]),
            "sources": self._sources(total),
            "channels": per_channel,
            "worst_channels": worst_channels(per_channel),
        }

    def _spread(self, which: str) -> Spread:
        """Put the channels together, which have as many numbers each."""
        names = ("min", "max", "mean", "std")
        least, most, means, deviations = (self.sums[f"{which}_{name}"] for name in names)
        mean = float(means.mean())
        variance = float((deviations**2 + (means - mean) ** 2).mean())
        ends = float(least.min()), float(most.max())
        return Spread(*ends, ends[0] if ends[0] == ends[1] else mean, sqrt(variance))

    def _beyond(self, sign: int) -> float | None:
        """Give how many steps the farthest float value is beyond the high end, with -1 the low."""
        farthest = self.sums["float_max" if sign > 0 else "float_min"]
        end, step = self._range()[sign > 0], self.probe.tensor.params.step
        if end.ndim and end.shape != farthest.shape:
            return None
        return max(0.0, float((sign * (farthest - end) / step).max()))

    def _used_share(self) -> float | None:
        """Give the share of the range that is used; None with a range for each channel."""
        low, high = self._range()
        if low.ndim:
            return None
        used = np.clip([self.sums["float_min"].min(), self.sums["float_max"].max()], low, high)
        return float((used[1] - used[0]) / (high - low))

    def _used_shares(self) -> Array | None:
        """Give the share of the range that each channel uses."""
        low, high = self._range()
        least, most = self.sums["float_min"], self.sums["float_max"]
        if low.ndim and low.shape != least.shape:
            return None
        return np.asarray((np.clip(most, low, high) - np.clip(least, low, high)) / (high - low))

    def _range(self) -> tuple[Array, Array]:
        low, high = self.probe.tensor.params.representable_range
        return low.astype(np.float64), high.astype(np.float64)

    def _rmse_steps(self, name: str) -> float | None:
        energy = self._energy_steps(name)
        return None if energy is None else sqrt(float(energy.mean()))

    def _energy_steps(self, name: str) -> Array | None:
        """Give the mean square of each channel in its steps; None where scales do not fit."""
        step, energy = self.probe.tensor.params.step, self.sums[name]
        if step.ndim and step.shape != energy.shape:
            return None
        return np.asarray(energy / step**2 / self.elements)

    def _sources(self, total: dict[str, float]) -> ErrorSources | None:
        if total["error"] == 0:
            return None
        if "inherited" not in total:
            return self.probe.known_sources
        share = {name: value / total["error"] for name, value in total.items()}
        # The pieces between the two values add up to the error: rounding is what the others leave.
        rounding = 1 - sum(share.get(name, 0.0) for name in PARTS)
        share["rounding"] = 0.0 if abs(rounding) < _NO_SHARE else rounding
        if not all(isfinite(part) for name, part in share.items() if name not in OF_VALUES):
            return None
        return ErrorSources(
            inherited=share["inherited"],
            weights=share.get("weights", 0.0),
            rounding=share["rounding"],
            clipping=share["clipping"],
            kernel=share.get("kernel"),
            inherited_by_input=share_by_input(share, self.probe.leaves),
        )

    def _channels(self) -> tuple[ChannelComparison, ...]:
        count, elements = len(self.sums["signal"]), self.elements
        # Lists: an element of an array takes longer to get at than to compute with.
        sums = {name: values.tolist() for name, values in self.sums.items()}
        low = sums.get("clipped_low", [0.0] * count)
        not_zero = sums.get("not_zero", [elements] * count)
        steps, local_steps = (self._energy_steps(name) for name in ("error", "local_error"))
        used = self._used_shares()

        def channel(at: int) -> ChannelComparison:
            here = {name: values[at] for name, values in sums.items()}
            signal, error = here["signal"], here["error"]
            return ChannelComparison(
                channel=at,
                sqnr_db=sqnr_db_of_energies(signal, error),
                local_sqnr_db=sqnr_db_of_energies(signal, here["local_error"]),
                rmse=sqrt(error / elements),
                clipped_low_fraction=low[at] / elements,
                clipped_high_fraction=here["clipped_high"] / elements,
                float_min=here["float_min"],
                float_max=here["float_max"],
                quantized_min=here["quantized_min"],
                quantized_max=here["quantized_max"],
                used_share_of_range=None if used is None else float(used[at]),
                float_mean=here["float_mean"],
                float_std=here["float_std"],
                quantized_mean=here["quantized_mean"],
                quantized_std=here["quantized_std"],
                rmse_steps=None if steps is None else sqrt(steps[at]),
                local_rmse_steps=None if local_steps is None else sqrt(local_steps[at]),
                ideal_rmse_steps=ideal_rmse_steps(not_zero[at] / elements, here["local_error"]),
                cosine=_cosine(signal, here["quantized_signal"], error),
            )

        return tuple(map(channel, range(count)))


def worst_channels(channels: tuple[ChannelComparison, ...]) -> tuple[int, ...]:
    """Give up to three channels with the lowest SQNR, lowest first; none of a single channel."""
    known = [(c.sqnr_db, c.channel) for c in channels if c.sqnr_db is not None]
    return tuple(channel for _, channel in sorted(known)[:_WORST]) if len(channels) > 1 else ()


def _cosine(signal: float, other: float, difference: float) -> float | None:
    """Give the cosine of two vectors from their energies and that of their difference."""
    if signal <= 0 or other <= 0:
        return None
    return max(-1.0, min((signal + other - difference) / (2 * sqrt(signal * other)), 1.0))
