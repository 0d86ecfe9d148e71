"""The ends of every tensor that a comparison looks at, kept as it runs."""

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from quantscope.run import Ends, ends_of_rows
from quantscope.run.compare import ProbeSums

_BINS_AN_OCTAVE = 8


@dataclass
class EndsKeeper:
    """Keeps the ends of a comparison's float values, batch by batch; memory does not grow."""

    ends: dict[str, Ends] = field(default_factory=dict)
    _seen: dict[str, int] = field(default_factory=dict, repr=False)
    _spans: dict[str, Counter[int]] = field(default_factory=dict, repr=False)

    @property
    def typical_spans(self) -> dict[str, float]:
        """Give what the values of the middle sample span, zero included, to within 5 %."""
        return {name: _median(counted) for name, counted in self._spans.items() if counted}

    def observe(self, sums: ProbeSums, count: int) -> None:
        """Look at one batch of one tensor, of which `count` rows are samples."""
        probe = sums.probe
        name, names = probe.pair.name, probe.sum_names
        statistics = probe.by_sum(sums.statistics)
        before = self._seen.get(name, 0)
        self._seen[name] = before + count
        if "float_min" not in names or len(statistics) < count:
            return
        low, high = (statistics[:count, names.index(f"float_{end}")] for end in ("min", "max"))
        spans = np.maximum(high.max(axis=1), 0.0) - np.minimum(low.min(axis=1), 0.0)
        spans = spans[np.isfinite(spans) & (spans > 0)]
        bins = np.floor(_BINS_AN_OCTAVE * np.log2(spans)).astype(int)
        self._spans.setdefault(name, Counter()).update(bins.tolist())
        found = ends_of_rows(low, high, first=before)
        if found is not None:
            kept = self.ends.get(name)
            self.ends[name] = found if kept is None else kept.merge(found)


def _median(counted: Counter[int]) -> float:
    half, seen = sum(counted.values()) / 2, 0
    for place in sorted(counted):
        seen += counted[place]
        if seen >= half:
            return float(2 ** ((place + 0.5) / _BINS_AN_OCTAVE))
    return 0.0
