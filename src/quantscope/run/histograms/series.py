"""Count one tensor: its float and quantized values, and the float ones rounded to 8 bits."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from quantscope.arithmetic import QuantParams, dequantize, params_from_range, quantize
from quantscope.errors import BadConfigError
from quantscope.model import QuantTensor
from quantscope.model.pairing import TensorPair
from quantscope.run.compare import CLIP_TOLERANCE
from quantscope.run.histograms.counts import (
    Grid,
    StepCounts,
    count_integers,
    count_nothing,
    count_values,
)
from quantscope.run.histograms.results import Histogram, Series, SeriesName, fit_bins

Array = NDArray[Any]
EightBits = Literal["int8", "uint8"]

OWN = "as the file has it"
_EIGHT_BITS: tuple[EightBits, ...] = ("int8", "uint8")
_WIDEST = 16
_STEPS_OF_FLOAT_TYPES = 256


@dataclass(frozen=True)
class Tally:
    """The counts of one series so far; sums of them are those of both batches.

    `min` and `max` are inf and -inf while there is no finite value.
    """

    steps: StepCounts
    min: float = np.inf
    max: float = -np.inf
    below: int = 0
    above: int = 0
    not_finite: int = 0
    codes: Array | None = None
    zeros: int = 0

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(
            self.steps + other.steps,
            min(self.min, other.min),
            max(self.max, other.max),
            self.below + other.below,
            self.above + other.above,
            self.not_finite + other.not_finite,
            None if self.codes is None or other.codes is None else self.codes + other.codes,
            self.zeros + other.zeros,
        )


@dataclass(frozen=True)
class Counting:
    """The way in which one tensor is counted.

    `rounded` are the 8-bit parameters that its float values are rounded with, and where they come
    from. The tensor's own type keeps the parameters of the file. The other is given the same range,
    as quantizers usually do: int8 symmetric (zero-point 0, -127 to 127), uint8 with a zero-point
    wherever the range puts it. So an asymmetric int8 tensor is the same in uint8, and a ReLU's
    output has half as many steps in int8.
    """

    tensor: QuantTensor
    pair: TensorPair | None
    grid: Grid
    rounded: dict[EightBits, tuple[QuantParams, str]]
    no_float: str | None = None

    def count(self, floats: Array | None, integers: Array | None) -> dict[SeriesName, Tally]:
        """Count one batch. The float values may lie in another shape, in the same order."""
        found: dict[SeriesName, Tally] = {}
        params = self.tensor.params
        if floats is not None:
            if integers is not None and floats.shape != integers.shape:
                floats = floats.reshape(integers.shape)
            found["float"] = self._of_floats(floats, params)
            for name, (chosen, _) in self.rounded.items():
                found[name] = self._of_rounded(floats, chosen)
        if integers is not None:
            found["quantized"] = self._of_integers(integers, params)
        return found

    def _of_floats(self, floats: Array, params: QuantParams) -> Tally:
        below, above = _outside(floats, params)
        finite = _finite(floats)
        if not finite.size:
            return Tally(count_nothing(self.grid), not_finite=floats.size)
        return Tally(
            count_values(finite, self.grid),
            *_ends(finite),
            below,
            above,
            floats.size - finite.size,
            zeros=finite.size - int(np.count_nonzero(finite)),
        )

    def _of_rounded(self, floats: Array, params: QuantParams) -> Tally:
        below, above = _outside(floats, params)
        lost = floats.size - _finite(floats).size
        codes = None
        if params.is_per_tensor:
            codes = _codes(_finite(floats), params)
            # At most 256 distinct values: count those instead of dequantizing every one.
            values = dequantize(np.arange(params.qmin, params.qmax + 1), params)
            seen = values[codes > 0]
            steps = count_values(seen, self.grid, codes[codes > 0])
        else:
            seen = dequantize(quantize(floats, params, precision="float32"), params)
            seen = seen[np.isfinite(floats)] if lost else seen
            steps = count_values(seen, self.grid)
        return Tally(steps, *_ends(seen), below, above, lost, codes)

    def _of_integers(self, integers: Array, params: QuantParams) -> Tally:
        if params.is_per_tensor and params.is_integer:
            zero_point = int(params.zero_point)
            whole = integers.astype(np.int8) if params.bits < 8 else integers
            ends = dequantize(np.array([whole.min(), whole.max()]), params)
            return Tally(count_integers(whole, zero_point, self.grid), *_ends(ends))
        values = _finite(dequantize(integers, params))
        lost = integers.size - values.size
        return Tally(count_values(values, self.grid), *_ends(values), not_finite=lost)

    def histogram(self, tallies: dict[SeriesName, Tally], bins: int) -> Histogram:
        """Make the histogram of what was counted, with at most `bins` bins."""
        order: list[SeriesName] = [n for n in ("float", "quantized", *_EIGHT_BITS) if n in tallies]
        # The empty series makes the bins cover the representable range where no value lies.
        parts = [tallies[name].steps for name in order] + [count_nothing(self.grid)]
        first, width, counts = fit_bins(parts, bins)
        series = [
            self._series(name, tallies[name], c) for name, c in zip(order, counts[:-1], strict=True)
        ]
        low, high = self.tensor.params.representable_range
        return Histogram(
            name=self.tensor.name,
            float_name=None if self.pair is None else self.pair.float_name,
            layer=_layer(self.tensor),
            role=self.tensor.role,
            params=self.tensor.params,
            low=float(low.min()),
            high=float(high.max()),
            grid=self.grid,
            low_bin=-first,
            steps_per_bin=width,
            series=tuple(series),
            no_float=self.no_float,
        )

    def _series(self, name: SeriesName, tally: Tally, counts: Array) -> Series:
        params, rule = None, "the float network's values"
        if name == "quantized":
            params, rule = self.tensor.params, OWN
        elif name != "float":
            params, rule = self.rounded[name]
        # Quantized values lie in the range whatever happens; what is clipped are float values.
        has_clipping = name != "quantized"
        return Series(
            name=name,
            rule=rule,
            params=params,
            counts=counts,
            min=tally.min if np.isfinite(tally.min) else None,
            max=tally.max if np.isfinite(tally.max) else None,
            below=tally.below if has_clipping else None,
            above=tally.above if has_clipping else None,
            not_finite=tally.not_finite,
            codes=tally.codes,
            zeros=tally.zeros,
        )


def choose_counting(
    tensor: QuantTensor,
    pair: TensorPair | None,
    no_float: str | None = None,
    *,
    floats: Array | None = None,
) -> Counting:
    """Choose bins and 8-bit parameters for a tensor.

    `floats` are a constant's float values: then the other type spreads over them. `no_float` is
    the reason why there is no `pair`.
    """
    params = tensor.params
    if params.bits > _WIDEST:
        raise BadConfigError(
            f"{tensor.name} has {params.bits} bits, far more steps than bins could show; ask for "
            f"an activation or a weight"
        )
    rounded: dict[EightBits, tuple[QuantParams, str]] = {}
    if pair is not None:
        for name in _EIGHT_BITS:
            own = params.dtype == name
            rounded[name] = (params, OWN) if own else _other(name, params, floats)
    return Counting(tensor, pair, _grid(params), rounded, no_float)


def _grid(params: QuantParams) -> Grid:
    """Give the tensor's own steps, or the widest of its channels; 256 steps for float types."""
    low, high = params.representable_range
    if params.is_integer and params.is_per_tensor:
        zero_point = int(params.zero_point)
        step = np.float32(params.scale)
        return Grid(step, params.qmin - zero_point, params.qmax - zero_point)
    if params.is_integer:
        step = np.float32(params.step.max())
    else:
        step = np.float32((high.max() - low.min()) / _STEPS_OF_FLOAT_TYPES)
    return Grid(step, int(np.rint(low.min() / step)), int(np.rint(high.max() / step)))


def _other(dtype: EightBits, params: QuantParams, floats: Array | None) -> tuple[QuantParams, str]:
    """Choose parameters of a type that is not the tensor's own, and say over which range."""
    low, high = params.representable_range
    where = "the same range"
    axis = params.axis
    # Blocks have no axis that 8-bit parameters could go along: one range for all.
    if params.block_size:
        low, high, axis = low.min(), high.max(), None
    if floats is not None:
        where = "the float values"
        if axis is None:
            low, high = floats.min(), floats.max()
        else:
            others = tuple(i for i in range(floats.ndim) if i != axis % floats.ndim)
            low, high = floats.min(axis=others), floats.max(axis=others)
    each = "" if axis is None else " of each channel"
    chosen = params_from_range(low, high, dtype, symmetric=dtype == "int8", axis=axis)
    kind = "symmetric" if dtype == "int8" else "asymmetric"
    return chosen, f"{kind} over {where}{each}"


def _codes(floats: Array, params: QuantParams) -> Array:
    """Count the values that become each integer of the type, the smallest first."""
    with np.errstate(over="ignore"):
        codes = floats.astype(np.float32, copy=False) / np.float32(params.scale)
    np.rint(codes, out=codes)
    zero_point = int(params.zero_point)
    np.clip(codes, params.qmin - zero_point, params.qmax - zero_point, out=codes)
    codes -= params.qmin - zero_point
    # Eight bits at most: counted from the smallest, each code fits a byte.
    return np.bincount(codes.ravel().astype(np.uint8), minlength=params.qmax - params.qmin + 1)


def _outside(floats: Array, params: QuantParams) -> tuple[int, int]:
    """Count the values below and above the representable range, as a comparison does."""
    scale = params.scale.astype(np.float32)
    ends = [scale * (q - params.zero_point).astype(np.float32) for q in (params.qmin, params.qmax)]
    low, high = np.minimum(*ends), np.maximum(*ends)
    beyond = (high - low) * np.float32(CLIP_TOLERANCE)
    low, high = low - beyond, high + beyond
    below = above = 0
    with np.errstate(invalid="ignore"):
        # Most batches have none, which their extremes tell in a fraction of the time.
        if not floats.size or not floats.min() >= low.max():
            below = int(np.count_nonzero(floats < params.expand(np.asarray(low), floats.shape)))
        if not floats.size or not floats.max() <= high.min():
            above = int(np.count_nonzero(floats > params.expand(np.asarray(high), floats.shape)))
    return below, above


def _finite(values: Array) -> Array:
    """Give the finite values, flat where some are not; the array itself where all are."""
    if values.size and np.isfinite(values.min()) and np.isfinite(values.max()):
        return values
    return values[np.isfinite(values)]


def _ends(values: Array) -> tuple[float, float]:
    return (float(values.min()), float(values.max())) if values.size else (np.inf, -np.inf)


def _layer(tensor: QuantTensor) -> str | None:
    return tensor.producer or (
        tensor.consumers[0] if tensor.has_data and tensor.consumers else None
    )
