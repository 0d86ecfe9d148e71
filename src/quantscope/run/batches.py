"""A model's input, batch by batch."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantscope.data import ImageSet
from quantscope.errors import BadModelError
from quantscope.plurals import many
from quantscope.run.classifier import Classifier, fitting_input

Array = NDArray[Any]


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


def of_images(name: str, value: Array, rows: int, count: int) -> Array:
    if value.ndim == 0 or value.shape[0] != rows:
        raise BadModelError(
            f"{name} has shape {list(value.shape)} for {many(rows, 'image')}: its first axis does "
            f"not count images, so its values cannot be told apart by image"
        )
    return value[:count]
