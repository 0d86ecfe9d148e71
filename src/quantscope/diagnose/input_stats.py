"""The mean and spread of what a model is fed, channel by channel: how preprocessings are told."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantscope.data import Samples
from quantscope.model import Model
from quantscope.run import open_runnable

Values = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class InputStats:
    """The facts of one input: mean and deviation of each channel, and the ends of all values."""

    mean: Values
    std: Values
    low: float
    high: float


def input_stats(model: Model, samples: Samples) -> Mapping[str, InputStats]:
    """Read all samples as the model gets them, a batch at a time; inputs of floats alone."""
    intake = open_runnable(model, execution="reference").intake
    sums: dict[str, list[Any]] = {}
    for batch in intake.batches(samples, intake.default_batch()):
        for name, array in batch.feeds.items():
            if array.dtype.kind != "f" or array.ndim < 2:
                continue
            rows = array[: batch.samples].astype(np.float64)
            over = tuple(axis for axis in range(rows.ndim) if axis != 1)
            # Rows of features have no channels that a preprocessing would treat alike.
            if rows.ndim == 2:
                rows, over = rows[:, :, None].mean(axis=1, keepdims=True), (0, 2)
            found = [
                rows.size / rows.shape[1],
                rows.sum(axis=over),
                (rows * rows).sum(axis=over),
                float(array[: batch.samples].min()),
                float(array[: batch.samples].max()),
            ]
            kept = sums.get(name)
            if kept is None:
                sums[name] = found
            else:
                added = [a + b for a, b in zip(kept[:3], found[:3], strict=True)]
                sums[name] = [*added, min(kept[3], found[3]), max(kept[4], found[4])]
    return {
        name: InputStats(s / n, np.sqrt(np.maximum(q / n - (s / n) ** 2, 0)), low, high)
        for name, (n, s, q, low, high) in sums.items()
        if np.isfinite(s).all() and np.isfinite(q).all()
    }
