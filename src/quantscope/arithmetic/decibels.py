"""Signal to quantization noise in decibels.

The two formulas are one quantity; in the last bit they are not one number.
"""

from math import isfinite, log10
from typing import Any

import numpy as np
from numpy.typing import NDArray

DECIBELS_A_BIT = 20 * log10(2)
"""The worth of each further bit: half the step, so half the error."""


def sqnr_db_of_energies(signal: float, error: float) -> float | None:
    """10 log10(signal / error); None without error, without signal, or where one is not finite."""
    if not (isfinite(signal) and isfinite(error)) or signal <= 0 or error <= 0:
        return None
    return 10 * log10(signal / error)


def sqnr_db_of_values(reference: NDArray[Any], values: NDArray[Any]) -> float | None:
    """20 log10(|f| / |f - q|); None where it is no number: no error, no signal, NaN, infinity."""
    f, q = reference.astype(np.float64), values.astype(np.float64)
    if not (np.isfinite(f).all() and np.isfinite(q).all()):
        return None
    signal, error = float(np.linalg.norm(f)), float(np.linalg.norm(f - q))
    return 20 * float(np.log10(signal / error)) if signal and error else None
