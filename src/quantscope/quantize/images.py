"""Choose calibration rows, and give them in the shapes and types that a model takes."""

from collections.abc import Iterator

import numpy as np

from quantscope.data import Feeds, Intake, Samples, balanced_order, calibration_set
from quantscope.errors import BadConfigError, BadDataError
from quantscope.quantize.config import PtqConfig

MAX_BATCH = 32
INPUT_BYTES_A_BATCH = 1 << 19  # every activation of a batch is in memory at once


def choose_images(config: PtqConfig, given: Samples | None) -> Samples:
    """Choose CIFAR-10 training images, or given ones, by the config's count and seed."""
    count, seed = config.calibration_images, config.calibration_seed
    if given is None:
        return calibration_set(count, seed)
    if count > len(given):
        raise BadDataError(
            f"{count:,} calibration images were asked for, but {given.name} has {len(given):,}; "
            f"use --calibration-images {len(given)}"
        )
    if count == len(given):
        return given
    if given.targets is None:
        order = np.random.default_rng(seed).permutation(len(given))
    else:
        order = balanced_order(given.targets, seed=seed)
    return given.select(order[:count])


def batches(samples: Samples, intake: Intake) -> Iterator[Feeds]:
    """Give the rows as the model takes them, by batches; what does not fit is said at once."""
    fixed = intake.fixed_batch
    if fixed and len(samples) % fixed:
        raise BadConfigError(
            f"{intake.model} takes {fixed} rows at once, and {len(samples)} calibration rows do "
            f"not divide by that; choose a multiple of {fixed}"
        )
    size = fixed or max(1, min(MAX_BATCH, INPUT_BYTES_A_BATCH // max(intake.row_bytes, 1)))
    feed = intake.feeder(samples)
    starts = range(0, len(samples), size)
    return (feed(start, min(start + size, len(samples))) for start in starts)
