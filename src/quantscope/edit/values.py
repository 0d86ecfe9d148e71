"""This module keeps the float values of constants, rounds them, and edits single integers."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantscope.arithmetic import (
    QuantParams,
    best_params,
    minmax_params,
    quantize,
    storage_dtype,
)
from quantscope.edit.edits import FlipBit, SetChannel, SetInteger, SetIntegers
from quantscope.edit.packed import unpack_integers
from quantscope.edit.parse import describe
from quantscope.edit.wiring import QdqGraph
from quantscope.errors import BadConfigError
from quantscope.model import Pairing, QuantTensor

Array = NDArray[Any]

TAKEN_AS_FLOAT = "what the integers stand for is taken as the float values"


class FloatValues:
    """Float constants by the tensor's name; what is not known is dequantized, and remembered.

    A file that quantizes a float constant while it runs has the float values itself. `factors` are
    those that a file says its constants were multiplied with, which the float model's were not.
    """

    def __init__(
        self, graph: QdqGraph, pairing: Pairing | None, factors: Mapping[str, Array]
    ) -> None:
        self._graph, self._factors = graph, factors
        self._pairs = {} if pairing is None else pairing.by_name
        self._float_model = None if pairing is None else pairing.float_model
        self._known: dict[str, Array] = {}
        self._dequantized: set[str] = set()
        self._unrounded: dict[str, int] = {}
        self._ranged: dict[tuple[str, QuantParams, bool], QuantParams] = {}

    def of(self, tensor: QuantTensor) -> Array:
        """Give the float values of a stored tensor, read-only."""
        return self.named(tensor.name, tensor.values, tensor.float_name)

    def named(
        self, name: str, dequantized: Callable[[], Array], float_name: str | None = None
    ) -> Array:
        """Give the float values by name, read-only, in the type of the dequantized ones.

        `float_name` is the float constant in the file itself, where it has one.
        """
        if name not in self._known:
            found = self._look_up(name, float_name)
            quantized = dequantized()
            # Values of another shape, or with NaN or infinity, cannot be rounded to these integers.
            if found is None or found.shape != quantized.shape or not np.isfinite(found).all():
                self._dequantized.add(name)
                found = quantized
            found = np.asarray(found, quantized.dtype)
            found.setflags(write=False)
            self._known[name] = found
        return self._known[name]

    def rescaled(self, tensor: QuantTensor, factors: Mapping[str, Array]) -> Array:
        """Give the float values of a stored tensor times its factors, if it is among those."""
        real = self.of(tensor)
        return rescale(real, factors.get(tensor.name))

    def ranged(
        self, tensor: QuantTensor, params: QuantParams, factors: Mapping[str, Array], *, best: bool
    ) -> QuantParams:
        """Give parameters over the best range of a stored tensor's float values, or all of them."""
        if tensor.name in factors:
            choose = best_params if best else minmax_params
            return choose(self.rescaled(tensor, factors), params)
        key = tensor.name, params, best
        if key not in self._ranged:
            choose = best_params if best else minmax_params
            self._ranged[key] = choose(self.of(tensor), params)
        return self._ranged[key]

    def count_unrounded(self, tensor: QuantTensor) -> int:
        """Count the stored integers that are not the float values rounded to the nearest.

        A quantizer that learns its rounding leaves such integers.
        """
        if tensor.name not in self._unrounded:
            nearest = quantize(self.of(tensor), tensor.params)
            self._unrounded[tensor.name] = int(np.count_nonzero(nearest != tensor.integers()))
        return self._unrounded[tensor.name]

    def notes(self, names: Iterator[str]) -> Iterator[str]:
        """Say in one line which of `names` have no known float values; nothing if all have."""
        missing = sorted(self._dequantized.intersection(names))
        if not missing:
            return
        shown = ", ".join(missing[:3]) + (f" and {len(missing) - 3} more" * (len(missing) > 3))
        why = (
            "No float model is known"
            if self._float_model is None
            else f"{self._float_model} has no counterpart"
        )
        yield f"{why} for {shown}: {TAKEN_AS_FLOAT}"

    def all_notes(self) -> tuple[str, ...]:
        """Say in one line which tensors of all that were asked for have no known float values."""
        return tuple(self.notes(iter(self._dequantized)))

    def _look_up(self, name: str, float_name: str | None) -> Array | None:
        stored = self._graph.array(float_name) if float_name else None
        if stored is not None:
            return stored
        pair = self._pairs.get(name)
        found = None if pair is None else pair.float_values()
        factor = self._factors.get(name)
        is_same_rank = found is not None and factor is not None and found.ndim == factor.ndim
        return rescale(found, factor) if found is not None and is_same_rank else found


def rescale(real: Array, factor: Array | None) -> Array:
    """Multiply float values in float64, and round once to their type."""
    return real if factor is None else np.asarray(real * factor, real.dtype)


IntegerEdit = SetInteger | SetChannel | SetIntegers | FlipBit


def round_anew(integers: Array, old: QuantParams, new: QuantParams, real: Array) -> Array:
    """Round the float values where the parameters moved; give a new array.

    Channels whose parameters stay keep their integers, which need not be plainly rounded.
    """
    if (old.dtype, old.ends) != (new.dtype, new.ends):
        return quantize(real, new)
    moved = (old.scale != new.scale) | (old.zero_point != new.zero_point)
    fresh = integers.copy()
    where = np.broadcast_to(new.expand(moved, integers.shape), integers.shape)
    fresh[where] = quantize(real, new)[where]
    return fresh


def with_edits(
    integers: Array,
    params: QuantParams,
    edits: Sequence[IntegerEdit],
    *,
    axis: int,
    note: Callable[[str], None],
) -> Array:
    """Make the edits one after the other, on a copy; `axis` counts the channels.

    Raises one line for an integer that the bits in use do not hold.
    """
    found = integers.astype(np.int64)
    for edit in edits:
        before = found.copy()
        match edit:
            case SetInteger(_, index, value):
                found[index] = value
            case SetChannel(_, channel, values):
                part = np.moveaxis(found, axis, 0)
                part[channel] = np.reshape(values, part[channel].shape if np.ndim(values) else ())
            case SetIntegers(_, packed):
                found[...] = unpack_integers(packed, found.size).reshape(found.shape)
            case FlipBit(_, index, bit):
                found[index] = _flip(int(found[index]), bit, params)
        if found.min() < params.qmin or found.max() > params.qmax:
            raise BadConfigError(
                f"Cannot be, with {params.bits} bits ({params.qmin} to {params.qmax}): "
                f"{describe(edit)}"
            )
        if (before == found).all():
            note(f"Changes nothing, it is so already: {describe(edit)}")
    # ml_dtypes' small types are reached by int32, as in `quantize`.
    return np.asarray(found.astype(np.int32).astype(storage_dtype(params.dtype)))


def _flip(value: int, bit: int, params: QuantParams) -> int:
    """Flip one bit of an integer's two's complement pattern, of as many bits as are in use."""
    bits = params.bits
    pattern = (value % (1 << bits)) ^ (1 << bit)
    is_negative = params.qmin < 0 and pattern >= 1 << (bits - 1)
    return pattern - (1 << bits) if is_negative else pattern
