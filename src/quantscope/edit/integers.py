"""This module rounds stored integers anew where their parameters moved, then sets single ones."""

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


def round_anew(integers: Array, old: QuantParams, new: QuantParams, real: Array) -> Array:
    """Round the float values where the parameters moved; give a new array.

    Channels whose parameters stay keep their integers, which need not be plainly rounded.
    """
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
    """Make the edits one after the other, on a copy; `axis` counts the channels."""
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
                found[index] = _flip(int(found[index]), bit, dtype)
        if (before == found).all():
            note(f"Changes nothing, it is so already: {describe(edit)}")
    # ml_dtypes' small types are reached by int32, as in `quantize`.
    return np.asarray(found.astype(np.int32).astype(storage_dtype(dtype)))


def _flip(value: int, bit: int, dtype: str) -> int:
    """Flip one bit of an integer's two's complement pattern."""
    bits = bits_of(dtype)
    pattern = (value % (1 << bits)) ^ (1 << bit)
    is_negative = not dtype.startswith("u") and pattern >= 1 << (bits - 1)
    return pattern - (1 << bits) if is_negative else pattern
