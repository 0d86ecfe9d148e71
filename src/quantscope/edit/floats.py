"""This module finds the float weights and biases that integers are rounded from, and reads once."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantscope.arithmetic.affine import quantize
from quantscope.edit.wiring import QdqGraph
from quantscope.model import Pairing, QuantTensor

Array = NDArray[Any]


class FloatValues:
    """Float constants by the tensor's name; what is not known is dequantized, and remembered.

    A file that quantizes a float constant while it runs has the float values itself.
    """

    def __init__(self, graph: QdqGraph, pairing: Pairing | None) -> None:
        self._graph = graph
        self._pairs = {} if pairing is None else pairing.by_name
        self._float_model = None if pairing is None else pairing.float_model
        self._known: dict[str, Array] = {}
        self._dequantized: set[str] = set()
        self._unrounded: dict[str, int] = {}

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

    def unrounded(self, tensor: QuantTensor) -> int:
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
        yield f"{why} for {shown}: what the integers stand for is taken as the float values"

    def _look_up(self, name: str, float_name: str | None) -> Array | None:
        stored = self._graph.array(float_name) if float_name else None
        if stored is not None:
            return stored
        pair = self._pairs.get(name)
        return None if pair is None else pair.float_values()
