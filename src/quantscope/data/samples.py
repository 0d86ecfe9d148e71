"""The samples that a model is fed: arrays by input, and what is known of each row."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from quantscope.errors import BadConfigError, BadDataError

Labels = npt.NDArray[np.int64]
Layout = Literal["nchw-pixels", "as-is"]

IMAGES = "images"
"""The name of the only array where no input of a model is named."""


def digest_of(images: npt.NDArray[Any], labels: npt.NDArray[Any] | None) -> str:
    """Hash the images' type and shape, their bytes in C order, and the labels as int64 (sha256)."""
    state = hashlib.sha256(f"{images.dtype.str} {images.shape}\n".encode())
    # By parts: an array that is a memory map, or not contiguous, is never copied whole.
    for start in range(0, len(images), 1000):
        state.update(np.ascontiguousarray(images[start : start + 1000]).data)
    if labels is not None:
        state.update(np.ascontiguousarray(labels, dtype="<i8").data)
    return state.hexdigest()


@dataclass(frozen=True, eq=False)
class Samples:
    """Rows to feed a model with; nothing here is copied, and the arrays may be read-only.

    `arrays` has one array for each input of the model, by the input's name; a lone array fits a
    lone input whatever they are called. `targets` are the labels of the rows, None where there are
    none. `indices` are the rows' places in the full set. `layout` is "nchw-pixels" for CIFAR-10
    (uint8 [N,3,32,32], 0..255, which may be transposed for a model that wants NHWC) and "as-is" for
    arrays that go to the model unchanged.
    """

    name: str
    arrays: Mapping[str, npt.NDArray[Any]]
    targets: Labels | None
    indices: Labels
    class_names: tuple[str, ...]
    layout: Layout

    @classmethod
    def of_images(
        cls,
        name: str,
        images: npt.NDArray[Any],
        labels: Labels | None,
        indices: Labels,
        class_names: tuple[str, ...],
        layout: Layout,
    ) -> "Samples":
        """Make a set of one array, for models with one input."""
        return cls(name, {IMAGES: images}, labels, indices, class_names, layout)

    def __len__(self) -> int:
        return len(self.indices)

    @property
    def images(self) -> npt.NDArray[Any]:
        """The only array."""
        if len(self.arrays) != 1:
            names = ", ".join(self.arrays) or "none"
            raise BadDataError(f"{self.name} holds {len(self.arrays)} arrays ({names}), not one")
        return next(iter(self.arrays.values()))

    @property
    def labels(self) -> Labels:
        """The label of each row; an error where there are none."""
        if self.targets is None:
            raise BadDataError(f"{self.name} has no labels; save them with the rows as 'labels'")
        return self.targets

    @cached_property
    def digest(self) -> str:
        """The `digest_of` the only array and the labels, or of all arrays by their names."""
        if len(self.arrays) == 1:
            return digest_of(self.images, self.targets)
        parts = [f"{name} {digest_of(array, None)}" for name, array in sorted(self.arrays.items())]
        if self.targets is not None:
            parts.append(digest_of(self.targets, None))
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    def take(self, count: int) -> "Samples":
        """Take the first `count` rows. Prefixes of the bundled sets are balanced over classes."""
        if not 1 <= count <= len(self):
            raise BadDataError(
                f"{count:,} images were asked of {self.name}, which has {len(self):,}; "
                f"choose 1 to {len(self):,}"
            )
        return self if count == len(self) else self._rows(slice(count))

    def select(self, rows: Sequence[int] | npt.NDArray[np.integer[Any]]) -> "Samples":
        """Copy the given rows of this set, in the given order."""
        outside = next((row for row in rows if not 0 <= row < len(self)), None)
        if outside is not None:
            row = np.flatnonzero(self.indices == outside) if outside < 2**63 else np.empty(0)
            hint = f" (that number of the whole set is row {row[0]} here)" if row.size else ""
            raise BadDataError(
                f"{self.name} has no image {outside}; its rows are 0 to {len(self) - 1:,}{hint}"
            )
        return self._rows(np.asarray(rows, dtype=np.int64))

    def _rows(self, chosen: "slice | Labels") -> "Samples":
        return replace(
            self,
            arrays={name: array[chosen] for name, array in self.arrays.items()},
            targets=None if self.targets is None else self.targets[chosen],
            indices=self.indices[chosen],
        )

    def class_counts(self) -> dict[str, int]:
        counts = np.bincount(self.labels, minlength=len(self.class_names))
        return dict(zip(self.class_names, counts.tolist(), strict=True))


def stratified(data: Samples, count: int) -> Samples:
    """Choose `count` images, classes in the set's own proportions; the same ones every time."""
    if count < 1:
        raise BadConfigError(f"A quick answer needs at least one image, not {count}")
    if count >= len(data):
        return data
    # Each row's place among its class, from 0 to 1: a prefix by it takes the same share of each.
    share = np.empty(len(data))
    for label in np.unique(data.labels):
        rows = np.flatnonzero(data.labels == label)
        share[rows] = (np.arange(len(rows)) + 0.5) / len(rows)
    chosen = np.argsort(share, kind="stable")[:count]
    return data.select(np.sort(chosen))
