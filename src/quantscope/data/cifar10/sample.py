"""Load the images that come with the package: a test sample and a pool for calibration."""

import json
from functools import cache
from importlib.resources import files

import numpy as np
import numpy.typing as npt
from PIL import Image

from quantscope.data.cifar10.facts import CLASS_NAMES
from quantscope.data.samples import Samples

SHEET_COLUMNS = 25


def sheet_from_images(images: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Lay NCHW images side by side, `SHEET_COLUMNS` a row, as one RGB picture.

    Neighbouring pixels stay neighbours, which PNG packs better than one image a row.
    """
    grid = images.reshape(-1, SHEET_COLUMNS, 3, 32, 32).transpose(0, 3, 1, 4, 2)
    return np.ascontiguousarray(grid.reshape(-1, SHEET_COLUMNS * 32, 3))


def images_from_sheet(sheet: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    grid = sheet.reshape(-1, 32, SHEET_COLUMNS, 32, 3).transpose(0, 2, 4, 1, 3)
    return np.ascontiguousarray(grid.reshape(-1, 3, 32, 32))


def _load(name: str) -> Samples:
    folder = files("quantscope.data") / "bundled"
    facts = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    with (folder / f"{name}.png").open("rb") as stream, Image.open(stream) as picture:
        images = images_from_sheet(np.asarray(picture))
    labels = np.array(facts["labels"], dtype=np.int64)
    indices = np.array(facts["indices"], dtype=np.int64)
    for array in (images, labels, indices):
        array.flags.writeable = False  # the loaded set is shared by all callers
    return Samples.of_images(
        name=name,
        images=images,
        labels=labels,
        indices=indices,
        class_names=CLASS_NAMES,
        layout="nchw-pixels",
    )


@cache
def load_sample() -> Samples:
    """Load the 1,000 bundled test images, 100 of each class. Read-only and shared."""
    return _load("cifar10-test-sample")


@cache
def load_calibration_pool() -> Samples:
    """Load the 1,000 bundled training images, 100 of each class. Read-only and shared."""
    return _load("cifar10-train-sample")
