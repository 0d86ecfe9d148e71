"""Count what every variant answers to every sample, beside what the float model does."""

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantscope.study.harm.results import Harm, HarmedClass, HarmedSample

MOST_SAMPLES = 48
"""The samples that are named; of all there are counts."""

_MOST_MOVES = 12
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Answers:
    """The answers of every variant to every sample, [variants, samples], beside the float model."""

    variants: tuple[str, ...]
    indices: NDArray[np.int64]
    names: tuple[str, ...]
    labels: NDArray[np.int64] | None
    margins: Floats | None
    floats: NDArray[np.int64] | None
    answers: NDArray[np.int64] | None
    losses: Floats | None

    def harm(self, **facts: Any) -> Harm:
        often = self.changed.sum(axis=0)
        told = self.answers is not None
        count = np.bincount(often, minlength=len(self.variants) + 1) if told else np.zeros(0, int)
        return Harm(
            **facts,
            samples=len(self.indices),
            variants=self.variants,
            tells_classes=told,
            has_labels=self.labels is not None,
            how_often=tuple(count.tolist()),
            safe_margin=self._margin(often > 0, np.max),
            median_margin_changed=self._margin(often > 0, np.median),
            median_margin_kept=self._margin(often == 0, np.median),
            classes=tuple(self._classes()),
            moves=self._moves(),
            worst=tuple(self._sample(row) for row in self._order(often)),
        )

    @cached_property
    def changed(self) -> NDArray[np.bool_]:
        if self.answers is None:
            return np.zeros((len(self.variants), len(self.indices)), np.bool_)
        return np.asarray(self.answers != self.floats)

    @cached_property
    def right(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]] | None:
        """Say whether the float models and the variants are right; None without labels."""
        if self.labels is None or self.answers is None or self.floats is None:
            return None
        return self.floats == self.labels, self.answers == self.labels

    @cached_property
    def lost(self) -> NDArray[np.bool_]:
        return np.zeros_like(self.changed) if self.right is None else self.right[0] & ~self.right[1]

    @cached_property
    def gained(self) -> NDArray[np.bool_]:
        return np.zeros_like(self.changed) if self.right is None else ~self.right[0] & self.right[1]

    def _margin(self, rows: NDArray[np.bool_], of: Any) -> float | None:
        if self.margins is None:
            return None
        known = self.margins[rows & ~np.isnan(self.margins)]
        return float(of(known)) if known.size else None

    def _order(self, often: NDArray[np.int64]) -> list[int]:
        """List the rows of those that are harmed most; of equals those with the largest margin."""
        if self.losses is not None:
            mean = _mean(self.losses)
            order = np.argsort(-np.where(np.isnan(mean), -np.inf, mean), kind="stable")
            return [int(row) for row in order if mean[row] > -np.inf][:MOST_SAMPLES]
        margins = np.zeros(len(often)) if self.margins is None else np.nan_to_num(self.margins)
        order = np.lexsort((-margins, -self.lost.sum(axis=0), -often))
        return [int(row) for row in order if often[row]][:MOST_SAMPLES]

    def _sample(self, row: int) -> HarmedSample:
        moved = self.changed[:, row]
        went = Counter(self.answers[moved, row].tolist()) if self.answers is not None else Counter()
        losses = None if self.losses is None else self.losses[:, row]
        worst = None if losses is None or np.isnan(losses).all() else int(np.nanargmax(losses))
        margin = None if self.margins is None else float(self.margins[row])
        return HarmedSample(
            index=int(self.indices[row]),
            label=None if self.labels is None else self._name(int(self.labels[row])),
            float_class=None if self.floats is None else self._name(int(self.floats[0, row])),
            margin=None if margin is None or np.isnan(margin) else margin,
            changed=int(moved.sum()),
            lost=int(self.lost[:, row].sum()),
            gained=int(self.gained[:, row].sum()),
            classes=tuple((self._name(place), times) for place, times in went.most_common()),
            mean_loss=None if losses is None or worst is None else float(np.nanmean(losses)),
            worst_loss=None if losses is None or worst is None else float(losses[worst]),
            worst_variant=None if worst is None else self.variants[worst],
        )

    def _classes(self) -> list[HarmedClass]:
        if self.floats is None:
            return []
        by = self.floats[0] if self.labels is None else self.labels
        found = []
        for place in np.unique(by).tolist():
            rows = by == place
            changed = self.changed[:, rows]
            found.append(
                HarmedClass(
                    name=self._name(place),
                    samples=int(rows.sum()),
                    ever=int(changed.any(axis=0).sum()),
                    changed=int(changed.sum()),
                    lost=int(self.lost[:, rows].sum()),
                    gained=int(self.gained[:, rows].sum()),
                )
            )
        return found

    def _moves(self) -> tuple[tuple[str, str, int], ...]:
        if self.floats is None or self.answers is None:
            return ()
        pairs = zip(
            self.floats[self.changed].tolist(), self.answers[self.changed].tolist(), strict=True
        )
        return tuple(
            (self._name(first), self._name(then), times)
            for (first, then), times in Counter(pairs).most_common(_MOST_MOVES)
        )

    def _name(self, place: int) -> str:
        if place < 0:
            return "no class"
        return self.names[place] if place < len(self.names) else str(place)


def _mean(losses: Floats) -> Floats:
    known = ~np.isnan(losses)
    counted = known.sum(axis=0)
    total = np.where(known, losses, 0.0).sum(axis=0)
    mean = np.full(losses.shape[1], np.nan)
    np.divide(total, counted, out=mean, where=counted > 0)
    return mean
