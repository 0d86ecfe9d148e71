"""Decode the files that hold CIFAR-10, as hostile as they may be."""

import io
import json
import pickle
import pickletools
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from quantscope.errors import BadDataError

Images = npt.NDArray[np.uint8]
Labels = npt.NDArray[np.int64]

# All that a pickled batch names: how a NumPy array is put together, and how Python 3 writes
# bytes in the old protocols.
_ADMITTED = {
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    ("_codecs", "encode"),
}


@dataclass(slots=True)
class _Made:
    """A request of a pickle to make something: nothing is made, it is kept as data."""

    name: str
    arguments: tuple[Any, ...]
    state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state


@dataclass(frozen=True, slots=True)
class _Named:
    """Stands in for an admitted name, so that not even NumPy's own code runs on the pickle."""

    name: str

    def __call__(self, *arguments: Any) -> Any:
        if self.name == "encode":
            text, encoding = arguments
            if encoding != "latin1" or not isinstance(text, str):
                raise pickle.UnpicklingError("it encodes something other than bytes")
            return text.encode("latin1")
        return _Made(self.name, arguments)


class _InertUnpickler(pickle.Unpickler):
    """Refuses every name but those of a batch, and stands in for those."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ADMITTED:
            raise pickle.UnpicklingError(f"it names {module}.{name}, which no batch holds")
        return _Named(name)


def _read_pickle(content: bytes) -> dict[Any, Any]:
    for operation, argument, _ in pickletools.genops(content):
        # A memo is an array as long as its largest index, so one index can ask for all memory.
        if "PUT" in operation.name and int(argument or 0) > 1_000_000:
            raise pickle.UnpicklingError("it asks for an absurd amount of memory")
    batch = _InertUnpickler(io.BytesIO(content), encoding="bytes").load()
    if not isinstance(batch, dict):
        raise pickle.UnpicklingError("it is not a dictionary")
    return batch


def _pixels(made: Any, count: int) -> Images:
    """Read the uint8 [count, 3072] array that a pickle describes, as [count, 3, 32, 32]."""
    if not isinstance(made, _Made) or made.name != "_reconstruct":
        raise pickle.UnpicklingError("its data is not an array")
    _, shape, kind, is_fortran, content = made.state
    if kind.name != "dtype" or kind.arguments[0] not in (b"u1", "u1"):
        raise pickle.UnpicklingError("its data is not uint8")
    if shape != (count, 3072) or is_fortran or len(content) != count * 3072:
        raise pickle.UnpicklingError(f"its data has shape {shape}, not ({count}, 3072)")
    return np.frombuffer(content, dtype=np.uint8).reshape(count, 3, 32, 32)


def read_batch(content: bytes, count: int, *, what: str) -> tuple[Images, Labels]:
    """Read a pickled batch of the official archive without running anything it contains.

    Images are uint8 [count, 3, 32, 32]. `what` names the file in errors.
    """
    try:
        batch = _read_pickle(content)
        return _pixels(batch[b"data"], count), _labels(batch[b"labels"], count)
    except Exception as error:  # a damaged pickle can raise nearly anything
        reason = f"it lacks {error}" if isinstance(error, KeyError) else str(error) or "cut short"
        raise BadDataError(
            f"{what} is not a CIFAR-10 batch ({reason.splitlines()[0]}); nothing in it was run. "
            "Get a fresh copy"
        ) from error


def read_picture(content: bytes, count: int, *, what: str) -> Images:
    """Read a batch from a PNG of `count` rows, one image a row, as the npm package has it."""
    try:
        with warnings.catch_warnings():
            # A picture that claims to be huge is refused by its size below, not by a warning.
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            with Image.open(io.BytesIO(content), formats=["PNG"]) as picture:
                rows = _rows(picture, count)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise BadDataError(
            f"{what} is not the picture of a CIFAR-10 batch ({error}); get a fresh copy"
        ) from error
    return np.ascontiguousarray(rows.reshape(count, 32, 32, 3).transpose(0, 3, 1, 2))


def _rows(picture: Image.Image, count: int) -> Images:
    # Before any pixel is decoded: a small file can claim to be a huge picture.
    if picture.size != (1024, count) or picture.mode != "RGB":
        width, height = picture.size
        raise ValueError(f"{picture.mode}, {width} x {height} pixels")
    return np.asarray(picture)


def read_label_list(content: bytes, count: int, *, what: str) -> Labels:
    """Read labels from a JSON list of numbers."""
    try:
        return _labels(json.loads(content), count)
    except (ValueError, TypeError, RecursionError) as error:
        raise BadDataError(
            f"{what} is not a list of CIFAR-10 labels ({error}); get a fresh copy"
        ) from error


def _labels(values: Any, count: int) -> Labels:
    if not isinstance(values, list) or len(values) != count:
        found = f"{len(values):,}" if isinstance(values, list) else "no list"
        raise ValueError(f"{count:,} labels expected, found {found}")
    if not all(type(value) is int and 0 <= value <= 9 for value in values):
        raise ValueError("labels other than 0 to 9")
    return np.array(values, dtype=np.int64)
