"""A set of labelled images as a value."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from quantscope.errors import BadDataError

Labels = npt.NDArray[np.int64]
Layout = Literal["nchw-pixels", "as-is"]


def digest_of(images: npt.NDArray[Any], labels: npt.NDArray[Any]) -> str:
    """sha256 over the images' type and shape, their bytes in C order, and the labels as int64."""
    state = hashlib.sha256(f"{images.dtype.str} {images.shape}\n".encode())
    for start in range(0, len(images), 1000):
        state.update(np.ascontiguousarray(images[start : start + 1000]).data)
    state.update(np.ascontiguousarray(labels, dtype="<i8").data)
    return state.hexdigest()


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Images with their labels; nothing here is copied, and the arrays may be read-only.

    `layout` is "nchw-pixels" for CIFAR-10 (uint8 [N,3,32,32], 0..255, which an evaluation may
    transpose for a model that wants NHWC) and "as-is" for images that go to the model unchanged.
    `indices` are positions in the full set.
    """

    name: str
    images: npt.NDArray[Any]
    labels: Labels
    indices: Labels
    class_names: tuple[str, ...]
    layout: Layout

    def __len__(self) -> int:
        return len(self.labels)

    @cached_property
    def digest(self) -> str:
        """`digest_of` the images and labels."""
        return digest_of(self.images, self.labels)

    def take(self, count: int) -> "ImageSet":
        """The first `count` images. Every prefix of the bundled sets is balanced over classes."""
        if not 1 <= count <= len(self):
            raise BadDataError(
                f"{count:,} images were asked of {self.name}, which has {len(self):,}; "
                f"choose 1 to {len(self):,}"
            )
        if count == len(self):
            return self
        return replace(
            self,
            images=self.images[:count],
            labels=self.labels[:count],
            indices=self.indices[:count],
        )

    def select(self, rows: Sequence[int] | npt.NDArray[np.integer[Any]]) -> "ImageSet":
        """The images at these rows of this set, in this order; copies them."""
        outside = next((row for row in rows if not 0 <= row < len(self)), None)
        if outside is not None:
            row = np.flatnonzero(self.indices == outside) if outside < 2**63 else np.empty(0)
            hint = f" (that number of the whole set is row {row[0]} here)" if row.size else ""
            raise BadDataError(
                f"{self.name} has no image {outside}; its rows are 0 to {len(self) - 1:,}{hint}"
            )
        chosen = np.asarray(rows, dtype=np.int64)
        return replace(
            self,
            images=self.images[chosen],
            labels=self.labels[chosen],
            indices=self.indices[chosen],
        )

    def class_counts(self) -> dict[str, int]:
        counts = np.bincount(self.labels, minlength=len(self.class_names))
        return dict(zip(self.class_names, counts.tolist(), strict=True))
