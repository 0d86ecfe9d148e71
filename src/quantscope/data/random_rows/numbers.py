"""Draw numbers that are the same on every machine and with every version of NumPy.

Only what is exact, or rounded in one way, is used: no `sin`, no `log`, no `normal`, whose last bits
differ between machines and versions.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_TERMS = 4
_OCTAVES = (2, 4, 8, 16)


def raw(keys: tuple[int, ...], count: int) -> NDArray[np.uint64]:
    """Draw 64 bits `count` times; NumPy promises this stream across versions."""
    return np.random.PCG64(keys).random_raw(count)


def uniform(keys: tuple[int, ...], count: int) -> Floats:
    """Draw numbers from 0 to below 1."""
    return (raw(keys, count) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def bell(keys: tuple[int, ...], count: int) -> Floats:
    """Draw numbers near the normal distribution: mean 0, deviation 1, within 3.5."""
    total: Floats = np.zeros(count)
    for part in uniform(keys, _TERMS * count).reshape(_TERMS, count):
        total = total + part
    scaled: Floats = (total - _TERMS / 2) * (12 / _TERMS) ** 0.5
    return scaled


def smooth(keys: tuple[int, ...], shape: tuple[int, ...]) -> Floats:
    """Draw a surface, or line, of several scales, from -1 to 1: large shapes and finer ones."""
    total = np.zeros(shape)
    weight_sum = 0.0
    for place, cells in enumerate(_OCTAVES):
        coarse = tuple(min(cells + 1, size) for size in shape)
        grid = 2 * uniform((*keys, place), int(np.prod(coarse))).reshape(coarse) - 1
        weight = 0.5**place
        total = total + weight * _stretch(grid, shape)
        weight_sum += weight
    # Means of many draws are small; what leaves the range then is cut.
    return np.clip(2 * total / weight_sum, -1, 1)


def _stretch(grid: Floats, shape: tuple[int, ...]) -> Floats:
    """Interpolate linearly along each axis."""
    for axis, size in enumerate(shape):
        held = grid.shape[axis]
        place = np.arange(size) * ((held - 1) / max(size - 1, 1))
        low = np.minimum(place.astype(np.int64), max(held - 2, 0))
        part = (place - low).reshape([-1 if at == axis else 1 for at in range(len(shape))])
        start = np.take(grid, low, axis)
        end = np.take(grid, np.minimum(low + 1, held - 1), axis)
        grid = start + part * (end - start)
    return grid
