"""Choose calibration rows, and give them in the shapes and types that a model takes."""

from collections.abc import Iterator, Sequence

import numpy as np

from quantscope.data import Feeds, Intake, Samples, balanced_order, calibration_set
from quantscope.errors import BadConfigError, BadDataError
from quantscope.model import Port, show_shape
from quantscope.quantize.config import PtqConfig

MAX_BATCH = 32
INPUT_BYTES_A_BATCH = 1 << 19  # every activation of a batch is in memory at once


_IMAGE_SHAPES = ((3, 32, 32), (32, 32, 3))


def choose_images(
    config: PtqConfig, given: Samples | None, *, model: str, ports: Sequence[Port]
) -> Samples:
    """Choose given rows, or CIFAR-10's training images, by the config's count and seed.

    Without any, a model whose `ports` do not take such images is refused.
    """
    count, seed = config.calibration_images, config.calibration_seed
    if given is None:
        _check_takes_images(model, ports)
        return calibration_set(count, seed)
    if count > len(given):
        raise BadDataError(
            f"{count:,} calibration rows were asked for, but {given.name} has {len(given):,}; "
            f"use --calibration-images {len(given)}"
        )
    if count == len(given):
        return given
    if given.targets is None:
        order = np.random.default_rng(seed).permutation(len(given))
    else:
        order = balanced_order(given.targets, seed=seed)
    return given.select(order[:count])


def _check_takes_images(model: str, ports: Sequence[Port]) -> None:
    """Refuse to calibrate a model with CIFAR-10's images that was not made for them."""
    if len(ports) == 1 and ports[0].dtype != "int8" and (ports[0].shape or ())[1:] in _IMAGE_SHAPES:
        return
    shown = ", ".join(f"{port.name!r} {port.dtype} {show_shape(port.shape)}" for port in ports[:3])
    more = f" and {len(ports) - 3} more" if len(ports) > 3 else ""
    arrays = "an array for each of them" if len(ports) > 1 else "rows of them"
    raise BadDataError(
        f"{model} takes {shown}{more}, so CIFAR-10's images cannot calibrate it; give {arrays} "
        f"with --calibration-data FILE.npz, or --calibration-data random"
    )


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
