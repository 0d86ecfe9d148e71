"""Load the rows of any model from a NumPy archive."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from quantscope.data.npy_members import NpyMember, NpyMembers, open_npz
from quantscope.data.samples import IMAGES, Samples, check_labels, name_classes
from quantscope.errors import BadDataError

_MAX_CLASSES, _LONGEST_NAME = 65_536, 500
_BESIDE = ("labels", "class_names")
"""The arrays that are not fed to a model, unless one of its inputs has that name."""


def load_npz(
    path: str | Path,
    *,
    inputs: Sequence[str] = (),
    first: int | None = None,
) -> Samples:
    """Load an array for each of `inputs`, rows first, fed to the model as they are.

    Without names they are the array `images`, or all there are. `labels` [N], integers from 0, and
    `class_names` are used if they are there; without names classes are named by number. With
    `first`, only so many rows are read.
    """
    path = Path(path)
    with open_npz(path) as (members, held):
        wanted = _choose(path, members, inputs, held)
        beside = [name for name in _BESIDE if name in members and name not in wanted]
        _check(path, wanted)
        count = next(iter(wanted.values())).shape[0]
        labels = _labels(path, members["labels"], count) if "labels" in beside else None
        names = _names(path, members["class_names"], labels) if "class_names" in beside else ()
        rows = first if first and first > 0 else None
        arrays = {name: member.read(rows) for name, member in wanted.items()}
        unused = "" if "labels" in members else _find_misnamed(members, wanted, count)
    read = len(next(iter(arrays.values())))
    return Samples(
        name=path.name,
        arrays=arrays,
        targets=None if labels is None else labels[:read],
        indices=np.arange(read, dtype=np.int64),
        class_names=name_classes(str(path), labels, names),
        layout="as-is",
        origin=f"{path.name} without labels: its array '{unused}' is not used; name it 'labels'"
        if unused
        else "",
    )


def _find_misnamed(members: NpyMembers, wanted: dict[str, NpyMember], count: int) -> str:
    """Name an array that is not used and looks like labels, such as `label` or `y`; or nothing."""
    return next(
        (
            name
            for name, member in members.items()
            if name not in wanted and member.shape == (count,) and member.dtype.kind in "iu"
        ),
        "",
    )


def _choose(
    path: Path, members: NpyMembers, inputs: Sequence[str], held: str
) -> dict[str, NpyMember]:
    """Find the array of each input; a lone input may also be `images`."""
    if not inputs:
        rows = [name for name in members if name not in _BESIDE]
        names = [IMAGES] if IMAGES in rows or not rows else rows
    elif len(inputs) == 1 and inputs[0] not in members and IMAGES in members:
        return {IMAGES: members[IMAGES]}
    else:
        names = list(inputs)
    missing = next((name for name in names if name not in members), None)
    if missing is not None:
        example = ", ".join(
            f"{name}={name}" if name.isidentifier() else f"**{{{name!r}: rows}}"
            for name in (*names, "labels")
        )
        raise BadDataError(
            f"{path} has no array '{missing}', only: {held}; "
            f"save it with: np.savez(path, {example})"
        )
    return {name: members[name] for name in names}


def _check(path: Path, wanted: dict[str, NpyMember]) -> None:
    """Refuse arrays that are no rows of numbers, or not equally many."""
    counts: dict[str, int] = {}
    for name, member in wanted.items():
        what = "The images" if name == IMAGES else f"The array {name!r}"
        are, have = ("are", "have") if name == IMAGES else ("is", "has")
        if len(member.shape) < (2 if name == IMAGES else 1) or member.dtype.kind not in "biuf":
            raise BadDataError(
                f"{what} in {path} {are} {member.dtype} {list(member.shape)}; "
                f"{'they' if are == 'are' else 'it'} must be numbers of shape [N, ...]"
            )
        if member.shape[0] == 0:
            raise BadDataError(
                f"{path} has no {'images' if name == IMAGES else f'rows in {name!r}'} in it; at "
                "least one is needed"
            )
        if 0 in member.shape[1:]:
            raise BadDataError(
                f"{what} in {path} {have} the shape {list(member.shape)}: "
                f"{'they are' if are == 'are' else 'it is'} empty"
            )
        counts[name] = member.shape[0]
    if len(set(counts.values())) > 1:
        found = ", ".join(f"{name} {count:,}" for name, count in counts.items())
        raise BadDataError(
            f"The arrays in {path} have different numbers of rows ({found}); the first dimension "
            f"of each counts rows"
        )


def _labels(path: Path, labels: NpyMember, count: int) -> npt.NDArray[np.int64]:
    if len(labels.shape) == 1 and labels.shape[0] == count:
        return check_labels(str(path), labels.read(), count)
    # Of another shape, it is not read: it may be anything.
    return check_labels(str(path), np.broadcast_to(np.zeros((), labels.dtype), labels.shape), count)


def _names(path: Path, names: NpyMember, labels: npt.NDArray[np.int64] | None) -> tuple[str, ...]:
    count = 1 if labels is None else int(labels.max()) + 1
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
