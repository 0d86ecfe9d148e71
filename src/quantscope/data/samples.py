"""The samples that a model is fed: arrays by input, and what is known of each row."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt

from quantscope.errors import BadConfigError, BadDataError

Labels = npt.NDArray[np.int64]
Layout = Literal["nchw-pixels", "as-is"]

Shown = Literal["picture", "ids", "waveform", "numbers"]
"""How a row of an array is shown to a person."""

IMAGES = "images"
"""The name of the only array where no input of a model is named."""

_SHORTEST_WAVEFORM = 128
_PICTURE_CHANNELS = (1, 3, 4)
_MOST_CLASSES = 65_536


class LazyRows(ABC):
    """Rows that are made when they are asked for, such as pictures that are decoded.

    It stands where an array does: a row by its number is an array, several rows are again lazy, and
    `np.asarray` makes them all. `digest` tells them apart without making any.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @abstractmethod
    def __getitem__(self, chosen: Any) -> Any: ...

    @abstractmethod
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]: ...

    @abstractmethod
    def digest(self) -> str: ...


def digest_of(images: npt.NDArray[Any], labels: npt.NDArray[Any] | None) -> str:
    """Hash the images' type and shape, their bytes in C order, and the labels as int64 (sha256)."""
    state = hashlib.sha256(f"{images.dtype.str} {images.shape}\n".encode())
    if isinstance(images, LazyRows):
        state.update(images.digest().encode())
        images = np.empty(0, np.uint8)
    if images.ndim == 0:
        images = images.reshape(1)
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

    `origin` says where the rows came from, in words that stand with every result; empty where the
    name says it. `is_random` rows were made, not found: no accuracy may be claimed from them.
    `row_names` are what the rows are called, such as pictures by their files; empty where they have
    numbers only.
    """

    name: str
    arrays: Mapping[str, npt.NDArray[Any]]
    targets: Labels | None
    indices: Labels
    class_names: tuple[str, ...]
    layout: Layout
    origin: str = ""
    is_random: bool = False
    row_names: tuple[str, ...] = ()

    @classmethod
    def from_arrays(
        cls,
        name: str,
        arrays: Mapping[str, npt.ArrayLike],
        labels: npt.ArrayLike | None = None,
        class_names: Sequence[str] = (),
    ) -> "Samples":
        """Make a set of arrays by the names of a model's inputs, rows first in each of them.

        `labels` are class numbers, one a row. Nothing is copied that is an array already.
        """
        rows = {key: _numbers(name, key, array) for key, array in arrays.items()}
        if not rows:
            raise BadDataError(f"{name} holds no arrays; give one for each input of the model")
        counts = {key: len(array) for key, array in rows.items()}
        count = next(iter(counts.values()))
        if any(other != count for other in counts.values()):
            found = ", ".join(f"{key} {number:,}" for key, number in counts.items())
            raise BadDataError(
                f"The arrays of {name} have different numbers of rows ({found}); the first "
                f"dimension of each counts rows"
            )
        if count == 0:
            raise BadDataError(f"{name} has no rows in it; at least one is needed")
        targets = None if labels is None else check_labels(name, np.asarray(labels), count)
        return cls(
            name=name,
            arrays=rows,
            targets=targets,
            indices=np.arange(count, dtype=np.int64),
            class_names=name_classes(name, targets, class_names),
            layout="as-is",
        )

    @classmethod
    def from_batches(
        cls,
        name: str,
        batches: Iterable[Mapping[str, npt.ArrayLike]],
        class_names: Sequence[str] = (),
    ) -> "Samples":
        """Make a set of what a generator gives: dictionaries of arrays, some rows in each.

        An entry `labels` has the rows' class numbers. All rows are kept in memory.
        """
        parts: dict[str, list[npt.NDArray[Any]]] = {}
        for number, batch in enumerate(batches):
            if number and batch.keys() != parts.keys():
                raise BadDataError(
                    f"Batch {number} of {name} has the arrays {', '.join(batch) or 'none'}, but "
                    f"the first has {', '.join(parts)}; give the same in each"
                )
            for key, array in batch.items():
                parts.setdefault(key, []).append(_numbers(name, key, array))
        if not parts:
            raise BadDataError(f"{name} gave no batches; at least one is needed")
        joined = {key: _join(name, key, arrays) for key, arrays in parts.items()}
        labels = joined.pop("labels", None)
        return cls.from_arrays(name, joined, labels, class_names)

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
            row_names=_chosen(self.row_names, chosen),
        )

    def name_of(self, row: int) -> str:
        """Say which row it is: its name, or its number in the full set."""
        return self.row_names[row] if self.row_names else str(self.indices[row])

    def shown_as(self, name: str | None = None) -> Shown:
        """Say how a row of an array is shown: the named one, or the first that is a picture."""
        if name is not None:
            return _shown_as(self.arrays[name])
        kinds = [_shown_as(array) for array in self.arrays.values()]
        return "picture" if "picture" in kinds else kinds[0]

    def describe_origin(self) -> str:
        """Say where the rows came from, as a result's line has it."""
        return self.origin or self.name

    def class_counts(self) -> dict[str, int]:
        counts = np.bincount(self.labels, minlength=len(self.class_names))
        return dict(zip(self.class_names, counts.tolist(), strict=True))


def stratify(data: Samples, count: int) -> Samples:
    """Choose `count` images, classes in the set's own proportions; the same ones every time."""
    if count < 1:
        raise BadConfigError(f"A quick answer needs at least one image, not {count}")
    if count >= len(data):
        return data
    if data.targets is None:
        return data.select(np.linspace(0, len(data) - 1, count).round().astype(np.int64))
    # Each row's place among its class, from 0 to 1: a prefix by it takes the same share of each.
    share = np.empty(len(data))
    for label in np.unique(data.labels):
        rows = np.flatnonzero(data.labels == label)
        share[rows] = (np.arange(len(rows)) + 0.5) / len(rows)
    chosen = np.argsort(share, kind="stable")[:count]
    return data.select(np.sort(chosen))


def check_labels(name: str, labels: npt.NDArray[Any], rows: int) -> Labels:
    """Give labels as int64, or refuse what is not one class number a row."""
    if labels.dtype.kind not in "iu":
        raise BadDataError(
            f"The labels in {name} are {labels.dtype}; they must be integers (class numbers from 0)"
        )
    if labels.ndim != 1:
        raise BadDataError(
            f"The labels in {name} have shape {list(labels.shape)}; they must be one class number "
            "an image, shape [N] (of one-hot labels take argmax(axis=1); leave masks and boxes "
            "out: the outputs are then measured against the float model's)"
        )
    if len(labels) != rows:
        raise BadDataError(f"{name} has {rows:,} images but {len(labels):,} labels")
    if rows and (labels.min() < 0 or labels.max() >= _MOST_CLASSES):
        raise BadDataError(
            f"The labels in {name} run from {labels.min()} to {labels.max()}; "
            f"class numbers are 0 to {_MOST_CLASSES - 1:,}"
        )
    return labels.astype(np.int64)


def name_classes(name: str, labels: Labels | None, given: Sequence[str]) -> tuple[str, ...]:
    """Give the classes' names, by number where none are given; refuse a label without a name."""
    if labels is None:
        return tuple(given)
    if not len(given):
        return tuple(str(number) for number in range(int(labels.max()) + 1))
    if labels.max() >= len(given):
        row = int(np.argmax(labels >= len(given)))
        raise BadDataError(
            f"Row {row} of {name} has the label {labels[row]}, but there are {len(given)} class "
            f"names (0 to {len(given) - 1})"
        )
    return tuple(given)


def _chosen(names: tuple[str, ...], chosen: "slice | Labels") -> tuple[str, ...]:
    if not names:
        return ()
    if isinstance(chosen, slice):
        return names[chosen]
    return tuple(names[row] for row in chosen)


def _numbers(name: str, key: str, array: npt.ArrayLike) -> npt.NDArray[Any]:
    """Take an array of numbers with rows, or lazy rows, as they are."""
    if isinstance(array, LazyRows):
        return cast(npt.NDArray[Any], array)
    try:
        found = np.asarray(array)
    except ValueError:  # lists of different lengths
        raise BadDataError(
            f"{key!r} of {name} is no array: its rows have different shapes"
        ) from None
    is_number = found.dtype.kind in "biuf" or found.dtype.name in _MORE_FLOATS
    if found.ndim == 0 or not is_number:
        raise BadDataError(
            f"{key!r} of {name} is {found.dtype} {list(found.shape)}; it must be numbers of shape "
            f"[N, ...]"
        )
    if 0 in found.shape[1:]:
        raise BadDataError(f"{key!r} of {name} has the shape {list(found.shape)}: it is empty")
    return found


_MORE_FLOATS = frozenset({"bfloat16"})
"""The types of `ml_dtypes`, which are numbers though NumPy says "void"."""


def _join(name: str, key: str, arrays: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    try:
        return np.concatenate(arrays)
    except ValueError:
        shapes = ", ".join(dict.fromkeys(str(list(array.shape[1:])) for array in arrays))
        raise BadDataError(
            f"The rows of {key!r} in {name} have different shapes ({shapes}); give one shape"
        ) from None


def _shown_as(array: npt.NDArray[Any]) -> Shown:
    row = array.shape[1:]
    if len(row) == 3 and (row[0] in _PICTURE_CHANNELS or row[2] in _PICTURE_CHANNELS):
        return "picture"
    if array.dtype.kind in "iub" and len(row) == 1:
        return "ids"
    sizes = [size for size in row if size > 1]
    if array.dtype.kind == "f" and len(sizes) == 1 and sizes[0] >= _SHORTEST_WAVEFORM:
        return "waveform"
    return "numbers"
