"""Histograms as values: the same bins for the float, the quantized and the re-rounded values."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from quantscope.arithmetic import QuantParams, Spread
from quantscope.errors import BadConfigError, BadModelError
from quantscope.model import Execution, Role
from quantscope.run.compare import Uncompared, why_missing
from quantscope.run.histograms.counts import Counts, Grid, StepCounts, edges_between

SCHEMA_VERSION = 1

SeriesName = Literal["float", "quantized", "int8", "uint8"]


@dataclass(frozen=True, eq=False)
class Series:
    """One of the ways in which a tensor's values are shown.

    "float" are the float network's values, "quantized" those that the quantized network has,
    dequantized. "int8" and "uint8" are the float values rounded by that type alone; `rule` says
    with which parameters. `below` and `above` count the float values outside the representable
    range of `params` (for "float": of the tensor's own); None where there are no float values.
    `counts` leaves out `not_finite` values. `codes` are the counts of each integer of the type, the
    smallest first; only for "int8" and "uint8", and None where each channel has its own scale.
    `zeros` of the "float" values are exactly 0: behind a ReLU that is no spread around 0.
    """

    name: SeriesName
    rule: str
    params: QuantParams | None
    counts: Counts
    min: float | None
    max: float | None
    below: int | None
    above: int | None
    not_finite: int
    codes: Counts | None = None
    zeros: int = 0

    @property
    def values(self) -> int:
        return int(self.counts.sum()) + self.not_finite

    @property
    def clipped_low_fraction(self) -> float | None:
        return None if self.below is None or not self.values else self.below / self.values

    @property
    def clipped_high_fraction(self) -> float | None:
        return None if self.above is None or not self.values else self.above / self.values

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "rule": self.rule,
            "dtype": None if self.params is None else self.params.dtype,
            "scale": None if self.params is None else self.params.scale.tolist(),
            "zero_point": None if self.params is None else self.params.zero_point.tolist(),
            "counts": self.counts.tolist(),
            "values": self.values,
            "min": self.min,
            "max": self.max,
            "clipped_low_fraction": self.clipped_low_fraction,
            "clipped_high_fraction": self.clipped_high_fraction,
            "not_finite": self.not_finite,
            "codes": None if self.codes is None else self.codes.tolist(),
        }


@dataclass(frozen=True, eq=False)
class Histogram:
    """One quantized tensor. All `series` have the bins of `edges`.

    Each bin is `steps_per_bin` whole steps of `step`, its edges halfway between two of them. `step`
    is the tensor's own, the largest of its channels where each has one, and a 256th of the range
    for float types. `low` and `high` are the representable range, over all channels;
    `low_bin` is the bin that begins with its smallest value.
    """

    name: str
    float_name: str | None
    layer: str | None
    role: Role
    params: QuantParams
    low: float
    high: float
    grid: Grid
    low_bin: int
    steps_per_bin: int
    series: tuple[Series, ...]
    no_float: str | None = None
    """The reason why there are no float values."""

    def __getitem__(self, name: SeriesName) -> Series:
        found = next((series for series in self.series if series.name == name), None)
        if found is None:
            reason = f": {self.no_float}" if self.no_float else ""
            raise BadConfigError(f"The histogram of {self.name} has no {name} values{reason}")
        return found

    def __contains__(self, name: object) -> bool:
        return any(series.name == name for series in self.series)

    @property
    def bins(self) -> int:
        return len(self.series[0].counts)

    @property
    def step(self) -> float:
        return float(self.grid.step)

    @cached_property
    def edges(self) -> NDArray[np.float64]:
        """The bins + 1 edges, ascending; a bin holds its lower edge and not its upper one."""
        places = np.arange(self.bins + 1, dtype=np.float64) - self.low_bin
        return edges_between(self.grid, self.grid.low + places * self.steps_per_bin)

    @cached_property
    def spread(self) -> Spread:
        """How the float values are spread, as `range_errors` is asked with."""
        floats = self["float"]
        return Spread.of_bins(
            self.edges, floats.counts, lowest=floats.min, highest=floats.max, zeros=floats.zeros
        )

    def at_most(self, bins: int) -> "Histogram":
        """Give the same counts in at most `bins` bins: neighbours joined, still of whole steps."""
        width = self.steps_per_bin
        parts = [StepCounts(-self.low_bin, width, series.counts) for series in self.series]
        first, width, joined = fit_bins(parts, bins)
        if width == self.steps_per_bin:
            return self
        pairs = zip(self.series, joined, strict=True)
        return replace(
            self,
            low_bin=-first,
            steps_per_bin=width,
            series=tuple(replace(series, counts=counts) for series, counts in pairs),
        )

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "float_name": self.float_name,
            "layer": self.layer,
            "role": self.role,
            "dtype": self.params.dtype,
            "low": self.low,
            "high": self.high,
            "step": self.step,
            "steps_per_bin": self.steps_per_bin,
            "low_bin": self.low_bin,
            "edges": self.edges.tolist(),
            "series": [series.to_dict() for series in self.series],
            "no_float": self.no_float,
        }


@dataclass(frozen=True, eq=False)
class Histograms:
    """The histograms of a network's tensors, in the order in which they were asked for.

    `unseen` are the tensors that could not be looked at, and why.
    """

    model: str
    digest: str
    float_model: str | None
    float_digest: str | None
    execution: Execution
    data: str
    data_digest: str
    images: int
    tensors: tuple[Histogram, ...]
    unseen: tuple[Uncompared, ...]
    provenance: Mapping[str, str]

    def __getitem__(self, name: str) -> Histogram:
        found = next((tensor for tensor in self.tensors if tensor.name == name), None)
        if found is not None:
            return found
        reason = why_missing(name, self.unseen, (t.name for t in self.tensors))
        raise BadModelError(f"There is no histogram of {name} of {self.model}: {reason}")

    def to_dict(self) -> dict[str, Any]:
        return {
            "schema_version": SCHEMA_VERSION,
            "model": self.model,
            "digest": self.digest,
            "float_model": self.float_model,
            "float_digest": self.float_digest,
            "execution": self.execution,
            "data": self.data,
            "data_digest": self.data_digest,
            "images": self.images,
            "tensors": [tensor.to_dict() for tensor in self.tensors],
            "unseen": [asdict(tensor) for tensor in self.unseen],
            "provenance": dict(self.provenance),
        }


def fit_bins(parts: list[StepCounts], bins: int) -> tuple[int, int, list[Counts]]:
    """Give first bin, width and counts of all `parts` in common bins, at most `bins` of them."""
    if bins < 2:
        raise BadConfigError(f"A histogram has at least 2 bins, not {bins}")
    width = max(part.width for part in parts)
    wide = [part.widen(width) for part in parts]
    while max(p.end for p in wide) - min(p.first for p in wide) > bins:
        width *= 2
        wide = [part.widen(width) for part in wide]
    first, end = min(p.first for p in wide), max(p.end for p in wide)
    return first, width, [part.spread_over(first, end).counts for part in wide]
