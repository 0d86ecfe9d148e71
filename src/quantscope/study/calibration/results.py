"""A calibration set's effect on the ranges of a network, as values."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

SCHEMA_VERSION = 1
MUCH = 0.1
"""A share of a range that is worth a word: a tenth of the steps, which an outlier takes."""


@dataclass(frozen=True)
class RangeEnd:
    """One end of a tensor's range, and the calibration sample that set it.

    `sample` is its index in the full set, `sample_name` what it is called, empty where rows have
    numbers only; `channel` is None where there is one. `without` is the end without that sample,
    None where there is no other.
    """

    value: float
    sample: int
    sample_name: str
    channel: int | None
    without: float | None

    @property
    def moves(self) -> float:
        """How far the end moves without its sample; 0 where others are at it too."""
        return 0.0 if self.without is None else abs(self.value - self.without)


@dataclass(frozen=True)
class Overflow:
    """How other samples go beyond a range. `low` and `high` are the ends of their own values.

    `below` and `above` count samples with a value beyond that end. `farthest` is the sample that
    goes farthest, by its index in the full set, and `farthest_share` how far beyond the end that
    is, as a share of the range; None and 0 where none does. `used_share` is what they use of it.
    """

    samples: int
    low: float
    high: float
    below: int
    above: int
    beyond: int
    farthest: int | None
    farthest_share: float
    used_share: float


@dataclass(frozen=True)
class TensorRange:
    """One tensor's range over the calibration samples.

    `growth` has the range of the first 1, 2, 4, ... samples and of all, as (samples, low, high).
    `overflow` is None where no other samples were looked at.
    """

    name: str
    layer: str
    op_type: str
    low: RangeEnd
    high: RangeEnd
    growth: tuple[tuple[int, float, float], ...]
    overflow: Overflow | None

    @property
    def span(self) -> float:
        return self.high.value - self.low.value

    @property
    def outlier_share(self) -> float:
        """How much of the range one sample alone takes: the end that shrinks most without it."""
        if self.span <= 0:
            return 0.0
        moved = self.low.moves, self.high.moves
        # Where one sample set both ends, both move.
        return (sum(moved) if self.low.sample == self.high.sample else max(moved)) / self.span

    @property
    def outlier(self) -> RangeEnd:
        """The end that shrinks most without the sample that set it."""
        return max(self.low, self.high, key=lambda end: end.moves)

    @property
    def last_doubling_share(self) -> float | None:
        """How much of the range came with the second half of the samples; None for one sample."""
        if len(self.growth) < 2:
            return None
        half = [point for point in self.growth if 2 * point[0] <= self.growth[-1][0]]
        _, low, high = half[-1]
        return 1 - (high - low) / self.span if self.span > 0 else 0.0

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {
            "growth": [{"samples": n, "low": lo, "high": hi} for n, lo, hi in self.growth],
            "outlier_share": self.outlier_share,
            "last_doubling_share": self.last_doubling_share,
        }


@dataclass(frozen=True, eq=False)
class CalibrationInspection:
    """Every tensor's range over a calibration set, along the network, and what it misses.

    `data` names the samples that go beyond it, empty where none were given. `left_out` are values
    without a range, and why.
    """

    model: str
    digest: str
    calibration: str
    calibration_digest: str
    calibration_samples: int
    data: str
    data_digest: str
    samples: int
    sample_word: str
    tensors: tuple[TensorRange, ...]
    left_out: Mapping[str, str]
    notes: tuple[str, ...]
    provenance: Mapping[str, str]

    @property
    def outliers(self) -> tuple[TensorRange, ...]:
        """The tensors of whose range one sample takes much, the most first."""
        found = [each for each in self.tensors if each.outlier_share >= MUCH]
        return tuple(sorted(found, key=lambda each: -each.outlier_share))

    @property
    def overflowing(self) -> tuple[TensorRange, ...]:
        """The tensors that other samples go beyond, the farthest first."""
        found = [each for each in self.tensors if each.overflow and each.overflow.beyond]
        return tuple(sorted(found, key=lambda e: -(e.overflow.farthest_share if e.overflow else 0)))

    @property
    def growing(self) -> tuple[TensorRange, ...]:
        """The tensors whose range the second half of the samples still widened much."""
        found = [each for each in self.tensors if (each.last_doubling_share or 0.0) >= MUCH]
        return tuple(sorted(found, key=lambda each: -(each.last_doubling_share or 0.0)))

    def most_ends(self) -> tuple[tuple[int, int], ...]:
        """Count the ends that each sample alone sets, by its index; the most first."""
        ends = (end for each in self.tensors for end in (each.low, each.high))
        counted = Counter(end.sample for end in ends if end.moves)
        return tuple(sorted(counted.items(), key=lambda item: (-item[1], item[0])))

    def to_dict(self) -> dict[str, Any]:
        return {
            "schema_version": SCHEMA_VERSION,
            "model": self.model,
            "digest": self.digest,
            "calibration": self.calibration,
            "calibration_digest": self.calibration_digest,
            "calibration_samples": self.calibration_samples,
            "data": self.data or None,
            "data_digest": self.data_digest or None,
            "samples": self.samples,
            "tensors": [each.to_dict() for each in self.tensors],
            "most_ends": [{"sample": i, "ends": n} for i, n in self.most_ends()],
            "left_out": dict(self.left_out),
            "notes": list(self.notes),
            "provenance": dict(self.provenance),
        }
