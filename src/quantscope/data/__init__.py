"""Samples: what a model is fed, with labels or without, and how it is fed with them.

- `samples.py` is the noun; `loading.py` makes it of what a person gave, or did not give.
- `cifar10/` comes with quantscope, `npz.py` reads arrays by the inputs' names, `pictures/` decodes
  folders of pictures, `random_rows/` makes rows where nobody has any.
- `intake.py` turns rows into the arrays that a model's inputs take.
- `calibration.py` chooses calibration sets, from training images only; `shared_rows.py` tells
  whether two sets have rows in common.

A new kind of data is a function that gives `Samples`, and a line in `load`.
"""

from quantscope.data.calibration import balanced_order, calibration_set
from quantscope.data.cifar10 import (
    LOCK,
    DataInfo,
    SetInfo,
    cache_folder,
    describe,
    fetch,
    fits_cifar10,
    load_calibration_pool,
    load_full,
    load_sample,
    locked,
)
from quantscope.data.intake import (
    Batch,
    Feeds,
    Intake,
    check_batch,
    check_samples,
    check_size,
    fill_up,
    rows_of,
    take_rows,
)
from quantscope.data.loading import SamplesSource, load, samples_for, takes_cifar10, usual_data
from quantscope.data.npz import load_npz
from quantscope.data.pictures import load_pictures
from quantscope.data.random_rows import random_samples
from quantscope.data.samples import LazyRows, Samples, digest_of, stratify
from quantscope.data.shared_rows import shared_rows
from quantscope.data.wishes import (
    PictureWishes,
    RowWishes,
    parse_numbers,
    parse_shape,
    parse_size,
)

__all__ = [
    "LOCK",
    "Batch",
    "DataInfo",
    "Feeds",
    "ImageSet",
    "Intake",
    "LazyRows",
    "PictureWishes",
    "RowWishes",
    "Samples",
    "SamplesSource",
    "SetInfo",
    "balanced_order",
    "cache_folder",
    "calibration_set",
    "check_batch",
    "check_samples",
    "check_size",
    "describe",
    "digest_of",
    "fetch",
    "fill_up",
    "fits_cifar10",
    "load",
    "load_calibration_pool",
    "load_full",
    "load_npz",
    "load_pictures",
    "load_sample",
    "locked",
    "parse_numbers",
    "parse_shape",
    "parse_size",
    "random_samples",
    "rows_of",
    "samples_for",
    "shared_rows",
    "stratify",
    "take_rows",
    "takes_cifar10",
    "usual_data",
]

ImageSet = Samples
"""The name of `Samples` while they were labelled images and nothing else."""
