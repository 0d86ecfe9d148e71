"""Measure the error between a layer's float and quantized output, and how much of it is a shift."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantscope.arithmetic import sqnr_db_of_energies

Array = NDArray[Any]


@dataclass(frozen=True)
class LayerError:
    """The error of a layer's output before its quantizer, as mean squares over all values.

    `signal` is that of the float output. `shift` is the part of `error` that every sample has in
    common, channel by channel: the squared difference of the means; the rest scatters about it.
    """

    layer: str
    signal: float
    error: float
    shift: float

    @property
    def sqnr_db(self) -> float | None:
        """Signal over error; None where one of them is zero."""
        return sqnr_db_of_energies(self.signal, self.error)

    @property
    def scatter(self) -> float:
        return max(self.error - self.shift, 0.0)

    @property
    def shift_share(self) -> float:
        """The share of the error that is a shift; 0 where there is no error."""
        return self.shift / self.error if self.error > 0 else 0.0

    def to_dict(self) -> Mapping[str, Any]:
        return {
            "layer": self.layer,
            "sqnr_db": self.sqnr_db,
            "signal": self.signal,
            "error": self.error,
            "shift": self.shift,
            "scatter": self.scatter,
        }


class ErrorSums:
    """Adds up one layer's errors, batch by batch, in float64; nothing else is kept."""

    def __init__(self, layer: str, axis: int) -> None:
        self._layer, self._axis = layer, axis
        self._count = 0
        self._signal = self._error = 0.0
        self._shift: Array | None = None

    def add(self, floats: Array, quantized: Array) -> None:
        """Add the values of some samples: the same ones of both networks."""
        difference = np.asarray(quantized, np.float64) - floats
        over = tuple(at for at in range(difference.ndim) if at != self._axis % difference.ndim)
        sums = difference.sum(axis=over)
        self._shift = sums if self._shift is None else self._shift + sums
        self._signal += float(np.square(floats, dtype=np.float64).sum())
        self._error += float(np.square(difference).sum())
        self._count += difference.size

    def result(self) -> LayerError:
        count = max(self._count, 1)
        shift = np.zeros(1) if self._shift is None else self._shift
        means = shift / (count / shift.size)
        return LayerError(
            self._layer, self._signal / count, self._error / count, float(np.square(means).mean())
        )
