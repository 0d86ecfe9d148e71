"""The sums beside a paired activation: which there are, their names, and when they exist.

Every sum is a number for each sample and channel. What a sum is made from is written here once; a
framework implements `Reducer`, with values of its own kind: ONNX gives names of a graph that it
writes, PyTorch gives tensors.

Always     signal, error                     energies of f and of q - f
Full       quantized_signal, local_error     energies of q, and of f through its quantizer less f
           float_sum, quantized_sum, float_min, float_max, quantized_min, quantized_max
           clipped_high, clipped_low         how many of f are beyond the range; no clipped_low
                                             where nothing can be below
           not_zero                          how many of f are not zero
           (sums and energies of f and q are of their distances from a pivot then: `pivots.py`)
Sources    inherited, weights, clipping      a - f, b - a, c - b (`sources.py`), each times the
                                             error; no weights where a is b
           kernel                            q less what the file states, times the error; where
                                             kernels that ship made q
           first_minus_second                the layer with only its first input quantized less
                                             that with only its second, times the error; two inputs
           inherited:0, inherited:1 ...      what each further input adds to a - f, times the
                                             error; more than two inputs
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from quantscope.arithmetic import QuantParams
from quantscope.model import Network, QuantTensor, activation_channel_axis

ValueT = TypeVar("ValueT")

ENERGIES = ("signal", "error", "quantized_signal", "local_error")
FLOAT_ENDS = ("float_min", "float_max")
LOWEST = ("float_min", "quantized_min")
HIGHEST = ("float_max", "quantized_max")
OF_VALUES = (*ENERGIES, "float_sum", "quantized_sum", *LOWEST, *HIGHEST)
"""Sums of the two values themselves, not of pieces that only the sources need."""
CLIPPED = ("clipped_low", "clipped_high")
COUNTS = (*CLIPPED, "not_zero")
PARTS = ("inherited", "weights", "clipping", "kernel")
"""The pieces of the error that are measured; rounding is what they leave."""
_FIRST_MINUS_SECOND = "first_minus_second"


class Reducer(Protocol[ValueT]):
    """A paired activation in both networks, and how its values are reduced to sums.

    The values are laid out alike; `f` is the float network's, `q` the quantized one's.
    """

    @property
    def f(self) -> ValueT: ...

    @property
    def q(self) -> ValueT: ...

    @property
    def error(self) -> ValueT:
        """Give q - f."""

    @property
    def never_below(self) -> bool:
        """Say whether f cannot be below the range; see `nothing_is_below`."""

    @property
    def float_min(self) -> ValueT: ...

    @property
    def float_max(self) -> ValueT: ...

    def least(self, value: ValueT) -> ValueT: ...

    def largest(self, value: ValueT) -> ValueT: ...

    def total(self, value: ValueT) -> ValueT: ...

    def less_pivot(self, value: ValueT, least: ValueT, most: ValueT) -> ValueT:
        """Give value - max(least, 0) - min(most, 0), these of each sample and channel."""

    def energy(self, value: ValueT) -> ValueT:
        """Sum the squares."""

    def dot(self, one: ValueT, other: ValueT) -> ValueT:
        """Sum the products of one - other with the error."""

    def local_error(self) -> ValueT:
        """Give what this quantizer alone does to f: f through it, less f."""

    def count_not_zero(self) -> ValueT: ...

    def count_below(self) -> ValueT: ...

    def count_above(self) -> ValueT: ...

    def clipping(self, b: ValueT) -> ValueT:
        """Give the sum of what cutting b to the range does to the error."""


def nothing_is_below(low: NDArray[Any], *, is_relu: bool) -> bool:
    """Say whether a float value cannot be below a range that begins at `low`, as behind a ReLU."""
    return is_relu and bool((low <= 0).all())


def energy_sums(reducer: Reducer[ValueT]) -> dict[str, ValueT]:
    """Give what the SQNR needs, where nothing else is asked for."""
    return {"signal": reducer.energy(reducer.f), "error": reducer.energy(reducer.error)}


def value_sums(reducer: Reducer[ValueT]) -> dict[str, ValueT]:
    """Give all that is said of the two values, but for those beyond the range."""
    q = reducer.q
    ends = reducer.least(q), reducer.largest(q)
    float_rest = reducer.less_pivot(reducer.f, reducer.float_min, reducer.float_max)
    quantized_rest = reducer.less_pivot(q, *ends)
    return {
        "signal": reducer.energy(float_rest),
        "error": reducer.energy(reducer.error),
        "quantized_signal": reducer.energy(quantized_rest),
        "float_sum": reducer.total(float_rest),
        "quantized_sum": reducer.total(quantized_rest),
        "float_min": reducer.float_min,
        "float_max": reducer.float_max,
        "quantized_min": ends[0],
        "quantized_max": ends[1],
        "local_error": reducer.energy(reducer.local_error()),
        "not_zero": reducer.count_not_zero(),
    }


def clipped_sums(reducer: Reducer[ValueT], b: ValueT | None) -> dict[str, ValueT]:
    """Give what is beyond the range; `b` is None where the error is not taken apart."""
    sums = {"clipped_high": reducer.count_above()}
    if not reducer.never_below:
        sums["clipped_low"] = reducer.count_below()
    if b is not None:
        sums["clipping"] = reducer.clipping(b)
    return sums


def source_sums(
    reducer: Reducer[ValueT],
    *,
    a: ValueT,
    b: ValueT,
    steps: Sequence[ValueT],
    inputs: int,
    stated: ValueT | None = None,
) -> dict[str, ValueT]:
    """Give all sources but clipping, which is among the sums of what is beyond the range.

    `a` is the very same object as `b` where the layer has no weights. `steps` are its variants, as
    `Pieces.steps` has them, of a layer with so many `inputs`. `stated` is what the file states
    where kernels that ship made q.
    """
    differences = {"inherited": (a, reducer.f)}
    if a is not b:
        differences["weights"] = (b, a)
    if stated is not None:
        differences["kernel"] = (reducer.q, stated)
    if inputs == 2:
        first, second = steps
        differences[_FIRST_MINUS_SECOND] = (first, second)
    elif inputs > 2:
        added = zip([*steps, a], [reducer.f, *steps], strict=True)
        differences |= dict(zip(_inherited_sums(inputs), added, strict=True))
    return {name: reducer.dot(*pair) for name, pair in differences.items()}


def source_names(inputs: int) -> tuple[str, ...]:
    """Give the sums that the sources of a layer with so many inputs may have."""
    return (*PARTS, _FIRST_MINUS_SECOND, *_inherited_sums(inputs))


def share_by_input(share: Mapping[str, float], leaves: Sequence[str]) -> dict[str, float]:
    """Divide what is inherited among the inputs of a layer, `leaves`; `share` is by sum."""
    if len(leaves) == 1:
        return {leaves[0]: share["inherited"]}
    if len(leaves) == 2:
        both, difference = share["inherited"], share[_FIRST_MINUS_SECOND]
        return {leaves[0]: (both + difference) / 2, leaves[1]: (both - difference) / 2}
    sums = _inherited_sums(len(leaves))
    return {leaf: share.get(name, 0.0) for leaf, name in zip(leaves, sums, strict=True)}


def _inherited_sums(inputs: int) -> tuple[str, ...]:
    return tuple(f"inherited:{number}" for number in range(inputs))


CLIP_TOLERANCE = 1e-6
"""The fraction of a range by which a value may lie outside and not count as clipped.

Float32 may put a value at the very end outside.
"""


@dataclass(frozen=True)
class Layout:
    """The axes that are summed over, which leaves images and channels.

    `shape` is the one that they are axes of, empty for the tensor's own; `behind` counts its axes
    after that of the channels.
    """

    over: tuple[int, ...]
    shape: tuple[int, ...] = ()
    behind: int = 1


def layout_of(network: Network, tensor: QuantTensor) -> Layout:
    axis, shape = activation_channel_axis(network, tensor), tensor.shape
    if shape is None:
        return Layout(over=(2,), shape=(0, 1, -1))
    if len(shape) < 2:
        return Layout(over=(2,), shape=(1, 1, -1))
    # Channels along the first axis: images cannot be told apart, and count as one.
    if axis == 0:
        width = shape[0]
        return Layout(over=(2,), shape=(1, width if isinstance(width, int) else 1, -1))
    if len(shape) == 2 and axis == 1:
        return Layout(over=(2,), shape=(0, 0, -1))  # no axis is left to sum over
    over = tuple(at for at in range(1, len(shape)) if at != axis)
    return Layout(over, behind=0 if axis is None else len(shape) - 1 - axis)


def ends_of(params: QuantParams, layout: Layout) -> tuple[np.ndarray, np.ndarray]:
    """Give the representable range, computed as DequantizeLinear does, so its ends are inside."""
    scale = params.scale.astype(np.float32)
    with np.errstate(over="ignore"):  # a range may reach beyond float32
        ends = [
            scale * (q - params.zero_point).astype(np.float32) for q in (params.qmin, params.qmax)
        ]
    if scale.ndim == 1:
        ends = [end.reshape(-1, *[1] * layout.behind) for end in ends]
    low, high = np.minimum(*ends), np.maximum(*ends)
    return np.asarray(low, np.float32), np.asarray(high, np.float32)
