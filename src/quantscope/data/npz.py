"""Load images of any classifier from a NumPy archive."""

from pathlib import Path

import numpy as np
import numpy.typing as npt

from quantscope.data.npy_members import NpyMember, opened_npz
from quantscope.data.samples import Samples
from quantscope.errors import BadDataError

_MAX_CLASSES, _LONGEST_NAME = 65_536, 500


def load_npz(path: str | Path, *, need_labels: bool = True, first: int | None = None) -> Samples:
    """Load `images` [N, ...], fed to the model as they are, and `labels` [N], integers from 0.

    Without `need_labels`, for calibration, images that have none are all of class 0. With `first`,
    only so many are read. A third array, `class_names`, is used if it is there; without it classes
    are named by number.
    """
    path = Path(path)
    with opened_npz(path, ("images", "labels", "class_names")) as (arrays, held):
        wanted = ("images", "labels") if need_labels else ("images",)
        for key in wanted:
            if key not in arrays:
                raise BadDataError(
                    f"{path} has no array '{key}', only: {held}; save it with: "
                    "np.savez(path, images=images, labels=labels)"
                )
        _check_images(path, arrays["images"])
        labels = _labels(path, arrays.get("labels"), arrays["images"].shape[0])
        names = _names(path, arrays.get("class_names"), max(int(labels.max()) + 1, 1))
        images = arrays["images"].read(first if first and first > 0 else None)
    return Samples.of_images(
        name=path.name,
        images=images,
        labels=labels[: len(images)],
        indices=np.arange(len(images), dtype=np.int64),
        class_names=names,
        layout="as-is",
    )


def _check_images(path: Path, images: NpyMember) -> None:
    if len(images.shape) < 2 or images.dtype.kind not in "biuf":
        raise BadDataError(
            f"The images in {path} are {images.dtype} {list(images.shape)}; "
            "they must be numbers of shape [N, ...]"
        )
    if images.shape[0] == 0:
        raise BadDataError(f"{path} has no images in it; at least one is needed")
    if 0 in images.shape[1:]:
        raise BadDataError(
            f"The images in {path} have the shape {list(images.shape)}: they are empty"
        )


def _labels(path: Path, labels: NpyMember | None, count: int) -> npt.NDArray[np.int64]:
    if labels is None:
        return np.zeros(count, np.int64)
    if labels.dtype.kind not in "iu":
        raise BadDataError(
            f"The labels in {path} are {labels.dtype}; they must be integers (class numbers from 0)"
        )
    if len(labels.shape) != 1:
        raise BadDataError(
            f"The labels in {path} have shape {list(labels.shape)}; they must be one class number "
            "an image, shape [N] (of one-hot labels take argmax(axis=1))"
        )
    if labels.shape[0] != count:
        raise BadDataError(f"{path} has {count:,} images but {labels.shape[0]:,} labels")
    found = labels.read()
    if found.min() < 0 or found.max() >= _MAX_CLASSES:
        raise BadDataError(
            f"The labels in {path} run from {found.min()} to {found.max()}; "
            f"class numbers are 0 to {_MAX_CLASSES - 1:,}"
        )
    return found.astype(np.int64)


def _names(path: Path, names: NpyMember | None, count: int) -> tuple[str, ...]:
    if names is None:
        return tuple(str(number) for number in range(count))
    if len(names.shape) != 1 or names.dtype.kind != "U" or names.shape[0] < count:
        raise BadDataError(
            f"The class_names in {path} are {names.dtype} {list(names.shape)}; "
            f"they must be at least {count} strings, shape [classes]"
        )
    if names.shape[0] > _MAX_CLASSES or names.dtype.itemsize > 4 * _LONGEST_NAME:
        raise BadDataError(
            f"The class_names in {path} are {names.dtype} {list(names.shape)}; there are at most "
            f"{_MAX_CLASSES:,} classes with names of {_LONGEST_NAME} characters"
        )
    return tuple(names.read().tolist())
