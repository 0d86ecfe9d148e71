"""Fill a row of an input with values that its network can make sense of."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantscope.data.random_rows.numbers import bell, raw, smooth
from quantscope.data.random_rows.shapes import PICTURE_CHANNELS, PICTURE_RANK
from quantscope.model import InputUse, Port

Array = NDArray[Any]

_SHORTEST_WAVEFORM = 128
_SMALL_IDS = 10
_RATES, _RATE = ("sr", "sample_rate", "sampling_rate"), 16_000
_STATES = ("state", "hidden", "cache", "past", "h0", "c0", "memory")


@dataclass(frozen=True)
class Filling:
    """The values that an input is filled with, in `words`, and how."""

    kind: str
    words: str
    number: float = 0
    """The number of a constant; one more than the largest of ids."""


def choose_filling(
    port: Port, shape: tuple[int, ...], use: InputUse, lengths: Mapping[str, tuple[int, ...]]
) -> Filling:
    """Choose by what the graph does with an input, then by its type and shape, last by its name.

    `lengths` are the shapes of all inputs, of which an input may say the length.
    """
    dtype, name = np.dtype(port.dtype), port.name.lower()
    if use.ids_below is not None:
        kind, words = ("places", "places") if "position" in name else ("ids", "ids")
        return Filling(kind, f"{words} below {use.ids_below:,}", use.ids_below)
    if dtype.kind == "b" or "mask" in name:
        return Filling("constant", "ones", 1)
    if dtype.kind in "iu" and dtype.itemsize > 1:
        others = [row[0] for other, row in lengths.items() if row and other != port.name]
        return _whole_numbers(name, shape, use, max(others, default=0))
    if _is_picture(shape):
        return Filling("surface", "smooth pictures")
    if dtype.kind in "iu":
        return Filling("bytes", "any numbers of its type")
    return _fractions(name, shape)


def _whole_numbers(name: str, shape: tuple[int, ...], use: InputUse, longest: int) -> Filling:
    if use.compared_with:
        number = use.compared_with[0]
        return Filling("constant", f"{number:g}, which it is compared with", number)
    if name in _RATES:
        return Filling("constant", f"the sample rate {_RATE:,}", _RATE)
    if not shape and "len" in name and longest:
        return Filling("constant", f"the length {longest}", longest)
    return Filling("ids", f"whole numbers below {_SMALL_IDS}", _SMALL_IDS)


def _fractions(name: str, shape: tuple[int, ...]) -> Filling:
    if any(part in name for part in _STATES):
        return Filling("state", "small numbers around 0")
    if _is_waveform(shape):
        return Filling("surface", "smooth lines")
    return Filling("bell", "numbers around 0")


def fill_row(
    port: Port, shape: tuple[int, ...], filling: Filling, use: InputUse, keys: tuple[int, ...]
) -> Array:
    """Make one row; equal `keys` make equal rows."""
    dtype, count = np.dtype(port.dtype), int(np.prod(shape))
    if filling.kind == "constant":
        return np.full(shape, filling.number, dtype)
    if filling.kind == "places":
        length = shape[-1] if shape else 1
        return np.broadcast_to(np.arange(length) % int(filling.number), shape).astype(dtype)
    if filling.kind == "ids":
        return (raw(keys, count) % np.uint64(filling.number)).astype(dtype).reshape(shape)
    if filling.kind == "bytes":
        return raw(keys, count).astype(np.uint8).view(dtype).reshape(shape)
    values = _surface(keys, shape) if filling.kind == "surface" else bell(keys, count) / 3
    values = values.reshape(shape)
    if dtype.kind in "iu":
        ends = np.iinfo(dtype)
        middle, half = (ends.max + ends.min) / 2, (ends.max - ends.min) / 2
        return np.rint(middle + half * values).astype(dtype)
    if use.lowest is not None and use.highest is not None:
        middle, half = (use.highest + use.lowest) / 2, (use.highest - use.lowest) / 2
    else:
        # Normalized pictures reach from about -2 to 2, as many other inputs do.
        middle, half = 0.0, 1.0 if filling.kind == "state" else 2.0
    return (middle + half * values).astype(dtype)


def _surface(keys: tuple[int, ...], shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Draw each channel of a picture, or line, on its own."""
    if len(shape) != PICTURE_RANK:
        return smooth(keys, tuple(size for size in shape if size > 1))
    channels_first = shape[0] in PICTURE_CHANNELS
    count, sides = (shape[0], shape[1:]) if channels_first else (shape[2], shape[:2])
    planes = [smooth((*keys, 100 + channel), sides) for channel in range(count)]
    return np.stack(planes, axis=0 if channels_first else -1)


def _is_picture(shape: tuple[int, ...]) -> bool:
    return len(shape) == PICTURE_RANK and (
        shape[0] in PICTURE_CHANNELS or shape[2] in PICTURE_CHANNELS
    )


def _is_waveform(shape: tuple[int, ...]) -> bool:
    sizes = [size for size in shape if size > 1]
    return len(sizes) == 1 and sizes[0] >= _SHORTEST_WAVEFORM
