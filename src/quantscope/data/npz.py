"""Images of any other classifier, from a NumPy archive."""

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from quantscope.data.images import ImageSet
from quantscope.errors import BadDataError

_MAX_CLASSES = 65_536


def load_npz(path: str | Path, *, need_labels: bool = True) -> ImageSet:
    """`images` [N, ...], fed to the model as they are, and `labels` [N] integers from 0.

    Without `need_labels`, for calibration, images that have none are all of class 0.

    A third array, `class_names`, is used if it is there; without it classes are named by number.
    """
    path = Path(path)
    arrays = _read(path)
    if not need_labels and "images" in arrays:
        arrays.setdefault("labels", np.zeros(arrays["images"].shape[:1], np.int64))
    for key in ("images", "labels"):
        if key not in arrays:
            found = ", ".join(sorted(arrays)) or "nothing"
            raise BadDataError(
                f"{path} has no array '{key}', only: {found}; save it with: "
                "np.savez(path, images=images, labels=labels)"
            )
    images, labels = arrays["images"], arrays["labels"]
    if images.ndim < 2 or images.dtype.kind not in "biuf":
        raise BadDataError(
            f"The images in {path} are {images.dtype} {list(images.shape)}; "
            "they must be numbers of shape [N, ...]"
        )
    _check_labels(path, labels, len(images))
    count = max(int(labels.max()) + 1, 1)
    return ImageSet(
        name=path.name,
        images=images,
        labels=labels.astype(np.int64),
        indices=np.arange(len(labels), dtype=np.int64),
        class_names=_names(path, arrays.get("class_names"), count),
        layout="as-is",
    )


def _read(path: Path) -> dict[str, npt.NDArray[Any]]:
    if not path.exists():
        raise BadDataError(f"There is no file {path}; give a .npz file with images and labels")
    if path.is_dir():
        raise BadDataError(f"{path} is a folder; give a .npz file with images and labels")
    if not zipfile.is_zipfile(path):
        raise BadDataError(
            f"{path} is not a .npz file, or is cut short; write one with: "
            "np.savez(path, images=images, labels=labels)"
        )
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {key: _array(archive, key) for key in archive.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error, MemoryError) as error:
        if "allow_pickle" in str(error):
            raise BadDataError(
                f"{path} holds Python objects, which are not read because they can run code; "
                "save plain arrays of numbers"
            ) from None
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise BadDataError(f"{path} cannot be read ({reason}); write it anew") from None


def _array(archive: "np.lib.npyio.NpzFile", key: str) -> npt.NDArray[Any]:
    if key not in ("images", "labels", "class_names"):
        return np.empty(0)  # only its name may be needed, in an error
    array: npt.NDArray[Any] | bytes = archive[key]
    if isinstance(array, bytes):  # what NumPy gives for a member that is no array
        raise ValueError(f"'{key}' in it is not a NumPy array")  # noqa: TRY004
    return array


def _check_labels(path: Path, labels: npt.NDArray[Any], count: int) -> None:
    if labels.dtype.kind not in "iu":
        raise BadDataError(
            f"The labels in {path} are {labels.dtype}; they must be integers (class numbers from 0)"
        )
    if labels.ndim != 1:
        raise BadDataError(
            f"The labels in {path} have shape {list(labels.shape)}; they must be one class number "
            "an image, shape [N] (of one-hot labels take argmax(axis=1))"
        )
    if len(labels) != count:
        raise BadDataError(f"{path} has {count:,} images but {len(labels):,} labels")
    if count == 0:
        raise BadDataError(f"{path} has no images in it; at least one is needed")
    if labels.min() < 0 or labels.max() >= _MAX_CLASSES:
        raise BadDataError(
            f"The labels in {path} run from {labels.min()} to {labels.max()}; "
            f"class numbers are 0 to {_MAX_CLASSES - 1:,}"
        )


def _names(path: Path, names: npt.NDArray[Any] | None, count: int) -> tuple[str, ...]:
    if names is None:
        return tuple(str(number) for number in range(count))
    if names.ndim != 1 or names.dtype.kind != "U" or len(names) < count:
        raise BadDataError(
            f"The class_names in {path} are {names.dtype} {list(names.shape)}; "
            f"they must be at least {count} strings, shape [classes]"
        )
    return tuple(names.tolist())
