"""Stored integers: rounded anew where their parameters moved, then set one by one."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantscope.arithmetic.affine import quantize
from quantscope.arithmetic.params import QuantParams, bits_of, storage_dtype
from quantscope.edit.describe import describe
from quantscope.edit.edits import FlipBit, SetChannel, SetInteger

Array = NDArray[Any]
IntegerEdit = SetInteger | SetChannel | FlipBit


def rounded_anew(integers: Array, old: QuantParams, new: QuantParams, real: Array) -> Array:
    """Channels whose parameters stay keep their integers, which need not be plainly rounded."""
    moved = (old.scale != new.scale) | (old.zero_point != new.zero_point)
    fresh = integers.copy()
    where = np.broadcast_to(new.expand(moved, integers.shape), integers.shape)
    fresh[where] = quantize(real, new)[where]
    return fresh


def with_edits(
    integers: Array,
    dtype: str,
    edits: Sequence[IntegerEdit],
    *,
    axis: int,
    note: Callable[[str], None],
) -> Array:
    """The edits one after the other; `axis` counts the channels."""
    found = integers.astype(np.int64)
    for edit in edits:
        before = found.copy()
        match edit:
            case SetInteger(_, index, value):
                found[index] = value
            case SetChannel(_, channel, values):
                part = np.moveaxis(found, axis, 0)
                part[channel] = np.reshape(values, part[channel].shape if np.ndim(values) else ())
            case FlipBit(_, index, bit):
                found[index] = _flipped(int(found[index]), bit, dtype)
        if (before == found).all():
            note(f"Changes nothing, it is so already: {describe(edit)}")
    return np.asarray(found.astype(np.int32).astype(storage_dtype(dtype)))


def _flipped(value: int, bit: int, dtype: str) -> int:
    bits = bits_of(dtype)
    pattern = (value % (1 << bits)) ^ (1 << bit)
    is_negative = not dtype.startswith("u") and pattern >= 1 << (bits - 1)
    return pattern - (1 << bits) if is_negative else pattern
