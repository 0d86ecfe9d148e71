"""Find the pictures of a folder and their classes."""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from quantscope.data.pictures.preprocessor import NAME, find_preprocessor
from quantscope.data.pictures.rows import SUFFIXES, PictureRows
from quantscope.data.pictures.steps import choose_steps
from quantscope.data.samples import IMAGES, Labels, Samples
from quantscope.data.wishes import LONE, RowWishes
from quantscope.errors import BadDataError
from quantscope.model import Model, find_batching


def load_pictures(
    folder: str | Path,
    *,
    model: Model | None = None,
    wishes: RowWishes | None = None,
    first: int | None = None,
) -> Samples:
    """Make samples of a folder's pictures, which are decoded batch by batch.

    Sub-folders are classes: by their names' order, or by the numbers that they all are called.
    Classes take turns, so that the first pictures are of all of them. How they become numbers is
    said by `wishes`, by `preprocessor_config.json` beside the model or in the folder, and by the
    model's input.
    """
    folder, wishes = Path(folder), wishes or RowWishes()
    files, labels, names = _find(folder)
    if first is not None and first > 0:
        files, labels = files[:first], None if labels is None else labels[:first]
    port, row = None, None
    if model is not None:
        if len(model.inputs) != 1:
            inputs = ", ".join(port.name for port in model.inputs)
            raise BadDataError(
                f"{folder} holds pictures for one input, but {model.name} takes "
                f"{len(model.inputs)} ({inputs}); give an array for each with --data FILE.npz"
            )
        port = model.inputs[0]
        batching = find_batching(model.inputs, model.outputs)
        row = batching.row_shape(0, port)
        shape = wishes.shapes.get(port.name, wishes.shapes.get(LONE))
        if shape is not None:
            row = tuple(size for at, size in enumerate(shape) if at != batching.axes[0])
    settings = find_preprocessor(None if model is None else model.path.parent, folder)
    steps = choose_steps(wishes.pictures, settings, port, row)
    images = PictureRows(files, steps)
    _ = images.shape  # where only the first picture says its size, it is looked at now
    where = "" if settings is None else f", as {settings.path.parent.name}/{NAME} says"
    classes = "no labels" if labels is None else f"{len(names)} classes"
    return Samples(
        name=folder.resolve().name,
        arrays={IMAGES: images},  # type: ignore[dict-item]
        targets=labels,
        indices=np.arange(len(files), dtype=np.int64),
        class_names=names,
        layout="as-is",
        origin=f"{len(files):,} pictures of {folder}, {classes}: {steps.words()}{where}",
        row_names=tuple(str(path.relative_to(folder)) for path in files),
    )


def _find(folder: Path) -> tuple[list[Path], Labels | None, tuple[str, ...]]:
    """Give the files with their labels and the classes' names; no labels for a flat folder."""
    loose, inner = _entries(folder)
    classes = {one.name: found for one in inner if (found := _entries(one)[0])}
    if not classes:
        if not loose:
            kinds = ", ".join(sorted(suffix[1:] for suffix in SUFFIXES))
            raise BadDataError(
                f"{folder} holds no pictures, and no folders of them; those that are read are "
                f"{kinds}"
            )
        return loose, None, ()
    if loose:
        raise BadDataError(
            f"{folder} holds pictures ({loose[0].name}) beside folders of them "
            f"({next(iter(classes))}); leave either out"
        )
    numbers, names = _number(list(classes))
    rows = [
        (place, numbers[name], path)
        for name, files in classes.items()
        for place, path in enumerate(files)
    ]
    rows.sort(key=lambda row: row[:2])
    labels = np.array([number for _, number, _ in rows], np.int64)
    return [path for *_, path in rows], labels, names


def _number(found: Sequence[str]) -> tuple[dict[str, int], tuple[str, ...]]:
    """Give each class its number; folders that are all called by numbers have theirs."""
    if all(name.isascii() and name.isdigit() and len(name) < 6 for name in found):
        numbers = {name: int(name) for name in found}
        if len(set(numbers.values())) == len(numbers):
            last = max(numbers.values())
            return numbers, tuple(str(number) for number in range(last + 1))
    return {name: place for place, name in enumerate(found)}, tuple(found)


def _entries(folder: Path) -> tuple[list[Path], list[Path]]:
    """Give the pictures and the folders in a folder by their names, hidden ones left out."""
    try:
        with os.scandir(folder) as found:
            entries = sorted(
                (entry for entry in found if not entry.name.startswith(".")),
                key=lambda entry: entry.name,
            )
            files = [
                Path(entry.path)
                for entry in entries
                if Path(entry.name).suffix.lower() in SUFFIXES and not entry.is_dir()
            ]
            return files, [Path(entry.path) for entry in entries if entry.is_dir()]
    except OSError as error:
        raise BadDataError(f"Cannot read {folder}: {error.strerror or error}") from None
