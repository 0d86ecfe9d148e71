"""Add up how two models' classes and probabilities agree, as images come."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantscope.data import Samples
from quantscope.model import Execution
from quantscope.plain_text import many
from quantscope.run.batches import BYTES_AT_ONCE
from quantscope.run.classes import check_labels
from quantscope.run.compare.results import OutputAgreement

Array = NDArray[Any]

_TINY = float(np.finfo(np.float32).tiny)


class ScoreKeeper:
    """Keeps two classes an image, and a running sum of their divergences."""

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
        self._waiting: list[tuple[Array, Array]] = []
        self._bytes_waiting = 0

    def add(self, float_scores: Array, quantized_scores: Array, rows: int, count: int) -> None:
        """Add one batch. Its last `rows - count` rows only fill it up, and are not counted."""
        pair = float_scores, quantized_scores
        odd = next(
            (s for s in pair if s.ndim < 2 or s.shape[0] != rows or s[0].size != s.shape[1]), None
        )
        if odd is not None and self.no_classes is None:
            self.no_classes = (
                f"the output has shape {[*odd.shape]} for {many(rows, 'image')}, "
                f"not [images, classes]"
            )
        if self.no_classes is not None:
            return
        floats, quantized = (s[:count].reshape(count, -1) for s in pair)
        if self._width is None:
            self._width = quantized.shape[1]
            if self.images.targets is not None:
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
            f, q = (self._log_probabilities(each) for each in scores)
            self.divergence += float((np.exp(f) * (f - q)).sum())
        self._waiting, self._bytes_waiting = [], 0

    def _log_probabilities(self, scores: Array) -> Array:
        if self.probabilities:
            # A probability that underflowed, or was rounded to zero, is not impossible.
            return np.asarray(np.log(np.maximum(scores, _TINY)))
        # Without the shift, exp of a large logit overflows.
        shifted = scores - scores.max(axis=1, keepdims=True)
        return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True)))

    def finish(self) -> OutputAgreement | None:
        """Give the agreement over all images; None where `no_classes` says why."""
        if self.no_classes is not None:
            return None
        self._add_up()
        f = np.concatenate([one for one, _ in self.classes])
        q = np.concatenate([other for _, other in self.classes])
        # Without labels nobody knows who is right: -1 is no class.
        labels, indices = self.images.targets, self.images.indices
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
        )
