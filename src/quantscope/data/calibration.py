"""Choose calibration sets: training images only, as many of one class as of another."""

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from quantscope.data.cifar10 import load_calibration_pool, load_full
from quantscope.data.samples import Labels, Samples
from quantscope.errors import BadDataError


def balanced_order(labels: npt.NDArray[np.integer[Any]], *, seed: int) -> Labels:
    """Shuffle all rows so that every prefix has class counts that differ by one at most.

    That holds as long as no class has run out of rows.
    """
    # NumPy promises the stream of a bit generator across versions, not that of `permutation`.
    keys = np.random.PCG64(seed).random_raw(len(labels))
    shuffled = np.argsort(keys, kind="stable")
    turn = np.empty(len(labels), dtype=np.int64)
    for label in np.unique(labels):
        rows = shuffled[labels[shuffled] == label]
        turn[rows] = np.arange(len(rows))
    return np.lexsort((keys, turn)).astype(np.int64)


def calibration_set(size: int, seed: int = 0) -> Samples:
    """Choose training images by class; class counts differ by at most one.

    Up to the bundled pool's size it comes from the pool, even where the full set is present, so
    that a size and a seed mean the same images on every machine; a larger one needs the full
    training set. From the same pool, a smaller set is a prefix of a larger one of the same seed.
    """
    if size < 1:
        raise BadDataError(f"A calibration set needs at least 1 image; {size:,} were asked for")
    if seed < 0:
        raise BadDataError(f"A calibration seed is 0 or more, not {seed}")
    if size > 50_000:
        raise BadDataError(
            f"A calibration set of {size:,} images was asked for, but CIFAR-10 has 50,000 "
            "training images; choose 50,000 or fewer"
        )
    pool = load_calibration_pool()
    if size > len(pool):
        try:
            pool = load_full("train")
        except BadDataError as error:
            raise BadDataError(
                f"A calibration set of {size:,} images is more than the {len(pool):,} bundled "
                f"ones. {error}"
            ) from None
    chosen = pool.select(balanced_order(pool.labels, seed=seed)[:size])
    return replace(chosen, name=f"{pool.name}, {size:,} images, seed {seed}")
