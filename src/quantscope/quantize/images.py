"""Choose calibration rows, and give them in the shapes and types that a model takes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from quantscope.data import Batch, Intake, Samples, balanced_order, calibration_set, fits_cifar10
from quantscope.errors import BadConfigError, BadDataError
from quantscope.model import Port, show_shape
from quantscope.quantize.config import PtqConfig

MAX_BATCH = 32
INPUT_BYTES_A_BATCH = 1 << 19  # every activation of a batch is in memory at once


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
    if len(ports) == 1 and fits_cifar10((ports[0].shape or ())[1:], ports[0].dtype):
        return
    shown = ", ".join(f"{port.name!r} {port.dtype} {show_shape(port.shape)}" for port in ports[:3])
    more = f" and {len(ports) - 3} more" if len(ports) > 3 else ""
    arrays = "an array for each of them" if len(ports) > 1 else "rows of them"
    raise BadDataError(
        f"{model} takes {shown}{more}, so CIFAR-10's images cannot calibrate it; give {arrays} "
        f"with --calibration-data FILE.npz, or --calibration-data random"
    )


@dataclass(frozen=True)
class CalibrationRows:
    """The rows of a calibration as the model takes them; made, it has said what does not fit."""

    samples: Samples
    intake: Intake

    def __post_init__(self) -> None:
        fixed, count = self.intake.fixed_batch, len(self.samples)
        if fixed and count % fixed:
            raise BadConfigError(
                f"{self.intake.model} takes {fixed} rows at once, and {count} calibration rows do "
                f"not divide by that; choose a multiple of {fixed}"
            )
        self.intake.feeder(self.samples)

    def __len__(self) -> int:
        return len(self.samples)

    def first(self) -> Batch:
        """Give the least that the model takes: one row, or its fixed batch."""
        return next(self.intake.batches(self.samples, 1))

    def batches(self, most: int = MAX_BATCH) -> Iterator[Batch]:
        """Give all rows, no more than `most` at once where the model leaves the choice."""
        # Open dimensions count as 1 in what the model says.
        numbers = sum(prod(array.shape[1:]) for array in self.samples.arrays.values())
        row_bytes = max(self.intake.row_bytes, 4 * numbers)
        size = min(MAX_BATCH, INPUT_BYTES_A_BATCH // row_bytes, most)
        return self.intake.batches(self.samples, max(1, size))
