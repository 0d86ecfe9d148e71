"""This module reads the constants of layers, and tells how alike two are after quantization."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantscope.arithmetic import dequantize, quantize
from quantscope.errors import BadModelError
from quantscope.model.network import Layer, Network, Operand
from quantscope.model.opened import Model, open_model
from quantscope.model.pairing.kinds import LINEAR
from quantscope.model.stored import MOST_NUMBERS, StoredConstants

Array = NDArray[Any]

_ROWS, _COLUMNS = 64, 512  # about so many rows and columns of a large weight are compared
_FEWEST_COLUMNS = 4  # up to a factor, any two channels of one number are the same


@dataclass(frozen=True)
class Sample:
    """Some of a weight's numbers, one row an output channel, taken alike from equal `shape`s."""

    shape: tuple[int, ...]
    rows: Array


@dataclass(frozen=True, eq=False)
class Constants:
    """The constants that a network's file stores, read when they are asked for.

    PyTorch's files store float weights where it does not look; theirs are None.
    """

    network: Network
    opened: StoredConstants | None = None
    """The constants of that network's file, where it is open; otherwise the file is opened."""
    _samples: dict[str, Sample | None] = field(default_factory=dict, repr=False)

    @cached_property
    def _stored(self) -> StoredConstants | None:
        if self.opened is not None or not self.network.keeps_constants:
            return self.opened
        model = open_model(self.network.path)
        if model.digest != self.network.digest:
            raise BadModelError(
                f"{self.network.path.name} has changed since it was read; read it again"
            )
        return model.stored_constants

    @property
    def _known(self) -> Mapping[str, Array]:
        return {} if self._stored is None else self._stored.known

    def is_data(self, operand: Operand) -> bool:
        """Say whether its values depend on what the model is fed; those of shapes alone do not."""
        return operand.role == "activation" and operand.name not in self._known

    def data(self, layer: Layer) -> tuple[Operand, ...]:
        """Give what a layer computes with that is no constant, nor known from shapes."""
        return tuple(operand for operand in layer.inputs if self.is_data(operand))

    def fixed(self, layer: Layer) -> tuple[Operand, ...]:
        """Give a layer's constants, with what is known from shapes."""
        return tuple(operand for operand in layer.inputs if not self.is_data(operand))

    def array(self, operand: Operand) -> Array | None:
        """Give a constant as the layer reads it, dequantized; None if computed or not at hand."""
        if operand.role == "activation":
            return self._known.get(operand.name)
        if operand.quant is not None and operand.quant.has_data:
            integers = operand.quant.values()
            stored = self._stored
            return integers if stored is None else stored.laid_out(operand.name, integers)
        if self._stored is None:
            return None
        quant = operand.quant
        if quant is None or quant.float_name is None:
            return self._stored.laid_out(operand.name)
        # The file quantizes a float constant while it runs, so its reader sees rounded values.
        given = self._stored.laid_out(quant.float_name)
        return None if given is None else dequantize(quantize(given, quant.params), quant.params)

    def weight_sample(self, layer: Layer, kind: str) -> Sample | None:
        """Sample a layer's weight, once; None where it is not at hand, or not finite."""
        if layer.name not in self._samples:
            self._samples[layer.name] = self._weight_sample(layer, kind)
        return self._samples[layer.name]

    def _weight_sample(self, layer: Layer, kind: str) -> Sample | None:
        weight = next((o for o in layer.inputs if o.role == "weight"), None)
        array = self.array(weight) if weight is not None else None
        if array is None or array.ndim < 2 or not np.isfinite(array).all():
            return None
        # Whatever the layout, the first axis shall count the output channels.
        if kind == LINEAR and not layer.attributes.get("transB", 0):
            array = array.swapaxes(-1, -2)
        if kind == LINEAR and array.ndim > 2:
            array = array.reshape(-1, array.shape[-1])
        if kind == "ConvTranspose":
            array = array.swapaxes(0, 1)
        flat = array.reshape(array.shape[0], -1)
        row, column = max(1, flat.shape[0] // _ROWS), max(1, flat.shape[1] // _COLUMNS)
        return Sample(array.shape, flat[::row, ::column].astype(np.float64))

    def small(self, operand: Operand) -> Array | None:
        """Read a setting or the constant of an elementwise layer, if it is few numbers."""
        if prod(dim for dim in operand.shape or () if isinstance(dim, int)) > MOST_NUMBERS:
            return None
        found = self.array(operand)
        return None if found is None or found.dtype.kind not in "iufb" else found


def constants_of(model: Model, network: Network | None = None) -> Constants:
    """Give the constants of an opened model, whose file is not opened again for them.

    `network` is what was read of it where that is not the model's own: weights alone have none.
    """
    return Constants(network or model.network, model.stored_constants)


def weight_likeness(a: Sample, b: Sample) -> float | None:
    """Compute the likeness of two weights; None where there is nothing to compare."""
    if a.shape != b.shape:
        return None
    found = float(weight_likenesses([a], [b])[0, 0])
    return None if np.isnan(found) else found


def weight_likenesses(some: Sequence[Sample], others: Sequence[Sample]) -> Array:
    """Compute the cosine of the channels, each up to a factor, as a folded BatchNormalization is.

    All are of one shape; the result has a row for each of `some` and a column for each of `others`.
    It is from 0 to 1, and NaN where there is nothing to compare. Channels count by their size in
    both. Where a channel is a handful of numbers it is the cosine of the whole.
    """
    a, b = (np.stack([sample.rows for sample in each]) for each in (some, others))
    if a.shape[2] < _FEWEST_COLUMNS:
        a, b = (each.reshape(len(each), 1, -1) for each in (a, b))
    # With channels first, one product of matrices a channel is all there is to do.
    a, b = a.transpose(1, 0, 2), b.transpose(1, 2, 0)
    products = np.abs(np.matmul(a, b)).sum(axis=0)
    sizes = np.matmul(np.linalg.norm(a, axis=2).T, np.linalg.norm(b, axis=1))
    unknown = np.full_like(products, np.nan)
    similar: Array = np.divide(products, sizes, out=unknown, where=sizes > 0)
    return similar


def same_constants(a: Array, b: Array) -> bool | None:
    """Tell whether constants are equal but for rounding; None if their sizes cannot be compared."""
    if a.size != b.size and min(a.size, b.size) != 1:
        return None
    one, two = (np.broadcast_to(x.reshape(-1), max(a.size, b.size)).astype(float) for x in (a, b))
    if not (np.isfinite(one).all() and np.isfinite(two).all()):
        return bool((one == two).all())
    size = max(float(np.linalg.norm(one)), float(np.linalg.norm(two)))
    # A tenth, since one of the two may be rounded to 8 bits or fewer.
    return bool(np.linalg.norm(one - two) <= 0.1 * size)


def as_plus_or_times(constants: Constants, layer: Layer, constant: Array) -> Array:
    """Take x - c as x + (-c), and x / c as x * (1 / c), since one file may have either."""
    if len(constants.data(layer)) != 1 or not constants.is_data(layer.inputs[0]):
        return constant
    if layer.op_type == "Sub":
        return np.negative(constant.astype(np.float64))
    if layer.op_type == "Div" and (constant != 0).all():
        return np.reciprocal(constant.astype(np.float64))
    return constant
