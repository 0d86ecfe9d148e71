"""Labelled images: CIFAR-10 (a bundled sample, the full set on demand) and any `.npz` file.

Calibration sets come from training images only.
"""

from pathlib import Path

from quantscope.data.calibration import balanced_order, calibration_set
from quantscope.data.cifar10 import (
    LOCK,
    DataInfo,
    SetInfo,
    cache_folder,
    describe,
    fetch,
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
    fill_up,
    rows_of,
    take_rows,
)
from quantscope.data.npz import load_npz
from quantscope.data.samples import Samples, digest_of, stratified
from quantscope.errors import BadDataError
from quantscope.files import is_there

__all__ = [
    "LOCK",
    "Batch",
    "DataInfo",
    "Feeds",
    "ImageSet",
    "Intake",
    "Samples",
    "SetInfo",
    "balanced_order",
    "cache_folder",
    "calibration_set",
    "check_batch",
    "check_samples",
    "describe",
    "digest_of",
    "fetch",
    "fill_up",
    "load",
    "load_calibration_pool",
    "load_full",
    "load_npz",
    "load_sample",
    "locked",
    "rows_of",
    "stratified",
    "take_rows",
]

ImageSet = Samples
"""The name of `Samples` while they were labelled images and nothing else."""


def load(spec: str, *, first: int | None = None) -> Samples:
    """Load what every command's --data names: "sample", "full" (the test images), or a .npz file.

    Of a file, no more than the `first` images are read.
    """
    if spec == "sample":
        return load_sample()
    if spec == "full":
        return load_full("test")
    if not spec.endswith(".npz") and not is_there(Path(spec)):
        raise BadDataError(
            f"There is no data '{spec}'; give sample, full or the path of a .npz file"
        )
    return load_npz(spec, first=first)
