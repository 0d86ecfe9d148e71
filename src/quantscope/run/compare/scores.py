"""Add up how two models' classes, probabilities and other outputs agree, as samples come."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantscope.data import Samples
from quantscope.model import Execution
from quantscope.plain_text import many
from quantscope.run.batches import BYTES_AT_ONCE
from quantscope.run.classes import check_labels, labels_of, tells_classes
from quantscope.run.compare.results import OutputAgreement
from quantscope.run.deviations import DeviationKeeper, OutputDeviation, log_probabilities
from quantscope.run.outputs import Outputs, sample_word

Array = NDArray[Any]


class ScoreKeeper:
    """Keeps two classes a sample, a running sum of their divergences, and each output's errors."""

    def __init__(
        self, images: Samples, execution: Execution, *, model: str, probabilities: bool
    ) -> None:
        self.images, self.execution, self.probabilities = images, execution, probabilities
        self.model = model
        self.classes: list[tuple[Array, Array]] = []
        self.divergence: float = 0.0
        self.no_classes: str | None = None
        """The reason why there are no classes: the model is no classifier."""
        self._width: int | None = None
        self._deviations: dict[str, DeviationKeeper | None] = {}
        self._waiting: list[tuple[Array, Array]] = []
        self._bytes_waiting = 0

    def add(self, floats: Outputs, quantized: Outputs, rows: int, count: int) -> None:
        """Add one batch. Its last `rows - count` rows only fill it up, and are not counted.

        Both have the same names, the first output first.
        """
        self._add_deviations(floats, quantized, rows, count)
        first = next(iter(quantized))
        self._add_scores(floats[first], quantized[first], rows, count)
        has_labels = labels_of(self.images) is not None
        if self.no_classes is None and not (
            has_labels or tells_classes(quantized, self.images, probabilities=self.probabilities)
        ):
            self.no_classes = "nothing says that the outputs are scores of classes"

    def _add_deviations(self, floats: Outputs, quantized: Outputs, rows: int, count: int) -> None:
        """Add every output that has a row a sample in both; others are left out for good."""
        for name, mine in quantized.items():
            theirs = floats.get(name)
            fits = theirs is not None and theirs.shape == mine.shape and len(mine) == rows
            if not fits or mine.dtype.kind not in "biuf" or mine.ndim == 0:
                self._deviations[name] = None
                continue
            keeper = self._deviations.setdefault(name, DeviationKeeper(name))
            if keeper is not None and theirs is not None:
                keeper.add(theirs[:count], mine[:count])

    def outputs(self) -> tuple[OutputDeviation, ...]:
        """Give each output's errors over all samples."""
        known = [keeper for keeper in self._deviations.values() if keeper is not None]
        return tuple(keeper.finish(self.images.indices) for keeper in known)

    def _add_scores(
        self, float_scores: Array, quantized_scores: Array, rows: int, count: int
    ) -> None:
        pair = float_scores, quantized_scores
        odd = next(
            (s for s in pair if s.ndim < 2 or s.shape[0] != rows or s[0].size != s.shape[1]), None
        )
        if odd is not None and self.no_classes is None:
            word = sample_word(self.images)
            self.no_classes = (
                f"the output has shape {[*odd.shape]} for {many(rows, word)}, "
                f"not [{word}s, classes]"
            )
        if self.no_classes is not None:
            return
        floats, quantized = (s[:count].reshape(count, -1) for s in pair)
        if self._width is None:
            self._width = quantized.shape[1]
            if labels_of(self.images) is not None:
                check_labels(self.images, self._width, self.model)
        if {floats.shape[1], quantized.shape[1]} != {self._width}:
            self.no_classes = "the output has not the same number of classes for every batch"
            return
        self._waiting.append((floats, quantized))
        self._bytes_waiting += floats.nbytes + quantized.nbytes
        if self._bytes_waiting >= BYTES_AT_ONCE:
            self._add_up()

    def _add_up(self) -> None:
        if not self._waiting:
            return
        parts = zip(*self._waiting, strict=True)
        scores = [np.concatenate(part).astype(np.float64) for part in parts]
        self.classes.append((scores[0].argmax(axis=1), scores[1].argmax(axis=1)))
        with np.errstate(invalid="ignore", over="ignore"):
            f, q = (log_probabilities(each, probabilities=self.probabilities) for each in scores)
            self.divergence += float((np.exp(f) * (f - q)).sum())
        self._waiting, self._bytes_waiting = [], 0

    def finish(self) -> OutputAgreement | None:
        """Give the agreement over all images; None where `no_classes` says why."""
        if self.no_classes is not None:
            return None
        self._add_up()
        f = np.concatenate([one for one, _ in self.classes])
        q = np.concatenate([other for _, other in self.classes])
        # Without labels nobody knows who is right: -1 is no class.
        labels, indices = labels_of(self.images), self.images.indices
        has_labels = labels is not None
        labels = np.full(len(f), -1) if labels is None else labels
        changed = f != q
        return OutputAgreement(
            images=len(f),
            agreeing=int((~changed).sum()),
            changed=indices[changed],
            gained=indices[changed & (q == labels)],
            lost=indices[changed & (f == labels)],
            kl_nats=self.divergence / len(f) if np.isfinite(self.divergence) else None,
            kl_of="output" if self.probabilities else "softmax",
            execution=self.execution,
            has_labels=has_labels,
        )
