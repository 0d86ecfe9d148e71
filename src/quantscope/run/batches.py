"""A model's input, batch by batch."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantscope.data import ImageSet
from quantscope.errors import BadModelError
from quantscope.run.classifier import Classifier, fitting_input

Array = NDArray[Any]

BYTES_AT_ONCE = 1 << 18
"""Of numbers that wait until NumPy is called for them: it takes as long for a few of them."""


def input_batches(
    classifier: Classifier,
    images: ImageSet,
    batch: int | None = None,
    *,
    least: int = 1,
    most: int | None = None,
) -> Iterator[tuple[Array, int]]:
    """The model's input, batch by batch, and how many of its rows are images.

    A model that takes no fewer than `least` images, or only a fixed number, gets the rest of a
    batch filled up with the last image.
    """
    size = classifier.fixed_batch or min(batch or classifier.default_batch(), most or 1 << 30)
    ends = ((start, min(start + size, len(images))) for start in range(0, len(images), size))
    return input_pieces(classifier, images, ends, least=least)


def input_pieces(
    classifier: Classifier,
    images: ImageSet,
    pieces: Iterable[tuple[int, int]],
    *,
    least: int = 1,
) -> Iterator[tuple[Array, int]]:
    """As `input_batches`, from one row to before another."""
    least = classifier.fixed_batch or least
    rows = fitting_input(classifier, images)
    for start, end in pieces:
        part = rows(start, end)
        count = len(part)
        if count < least:
            part = np.concatenate([part, np.repeat(part[-1:], least - count, axis=0)])
        yield part, count


@dataclass
class ImageParts:
    """Arrays by name, a batch each, images along the first axis."""

    unseen: dict[str, str] = field(default_factory=dict)
    """Those that have no such axis, and what they have."""
    _parts: dict[str, list[Array]] = field(default_factory=dict)

    def add(self, name: str, value: Array, rows: int, count: int) -> None:
        """Of a batch; only `count` of its `rows` images are not there to fill it up."""
        if value.ndim == 0 or value.shape[0] != rows:
            self.unseen[name] = (
                f"its first axis does not count images: its shape is {list(value.shape)} for a "
                f"batch of {rows}, so its values cannot be told apart by image"
            )
        else:
            self._parts.setdefault(name, []).append(value[:count])

    def joined(self) -> dict[str, Array]:
        return {
            name: np.concatenate(parts)
            for name, parts in self._parts.items()
            if name not in self.unseen
        }

    def outputs(self, model: str) -> dict[str, Array]:
        """As `joined`, where all must have such an axis."""
        for name, why in self.unseen.items():
            raise BadModelError(f"{name}, an output of {model}, cannot be captured: {why}")
        return self.joined()
