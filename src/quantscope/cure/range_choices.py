"""The ranges that a tensor could have, each with the error that it leaves its own values."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantscope.arithmetic import (
    QuantParams,
    RangeError,
    Spread,
    dequantize,
    is_symmetric,
    params_from_range,
    quantize,
    range_error,
    range_errors,
)
from quantscope.cure.readings import Readings
from quantscope.edit import Edit, SetRange, SetScale, SetZeroPoint
from quantscope.errors import BadConfigError
from quantscope.model import QuantTensor
from quantscope.run import BestRanges

Array = NDArray[Any]

SHARES = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
"""The ranges that are tried by their effect, as shares of the values' extremes."""

_WEIGHT_SHARES = (*np.geomspace(0.01, 0.3, 30)[:-1], *np.linspace(0.3, 1.1, 161))
"""A channel has few weights, so its error is a jagged curve: near the extremes the grid is fine."""


@dataclass(frozen=True)
class RangeChoice:
    """A range for a tensor: the edits that set it, and the error that they leave the tensor."""

    edits: tuple[Edit, ...]
    today: float
    rounding: float
    clipping: float
    text: str

    @property
    def gain_db(self) -> float:
        total = self.rounding + self.clipping
        if not total or not self.today:
            return 0.0 if total == self.today else float("inf")
        return float(10 * np.log10(self.today / total))


def range_choices(
    readings: Readings,
    group: Sequence[QuantTensor],
    params: QuantParams,
    counted: BestRanges | None,
    *,
    edits: Sequence[Edit],
    tries: bool,
) -> Iterator[RangeChoice]:
    """Give the range of least squared error first, then, to be tried, shares of the extremes.

    The tensors of a group have their scale in common; `params` are what the first has under
    `edits`.
    """
    if group[0].role == "activation":
        yield from _activation_choices(group, params, counted, tries=tries)
    else:
        yield from _weight_choices(readings, group, params, edits, tries=tries)


def _activation_choices(
    group: Sequence[QuantTensor],
    params: QuantParams,
    counted: BestRanges | None,
    *,
    tries: bool,
) -> Iterator[RangeChoice]:
    assert counted is not None
    known = {each.tensor: each for each in counted.ranges}
    spreads = [known[t.name].spread for t in group if t.name in known]
    if not spreads:
        _ = counted[group[0].name]  # raises with the reason
    spread = Spread.joined(spreads)
    name, symmetric = group[0].name, is_symmetric(group[0].params)
    errors = range_errors(spread, params, symmetric=symmetric)

    def choice(found: RangeError) -> RangeChoice:
        return RangeChoice(
            (SetRange(name, found.low, found.high),),
            errors.today.total,
            found.rounding,
            found.clipping,
            f"[{errors.today.low:.4g}, {errors.today.high:.4g}] becomes "
            f"[{found.low:.4g}, {found.high:.4g}]",
        )

    yield choice(errors.best)
    for share in SHARES if tries else ():
        ends = share * min(spread.lowest, 0.0), share * max(spread.highest, 0.0)
        if ends[0] < ends[1]:
            made = params_from_range(*ends, params.dtype, symmetric=symmetric, ends=params.ends)
            yield choice(range_error(spread, made))


def _weight_choices(
    readings: Readings,
    group: Sequence[QuantTensor],
    params: QuantParams,
    edits: Sequence[Edit],
    *,
    tries: bool,
) -> Iterator[RangeChoice]:
    """Hold the stored values themselves against each range, all channels at a time."""
    tensor = group[0]
    if params.block_size:
        raise BadConfigError("it has a scale for each block, which are not chosen here")
    rows = np.concatenate(
        [_by_channel(readings.editor.float_values(t.name, edits), params) for t in group], axis=1
    )
    symmetric = is_symmetric(tensor.params)
    now = _as_rows(params)
    today = _errors(rows, now)
    low, high = np.minimum(rows.min(axis=1), 0), np.maximum(rows.max(axis=1), 0)

    def at_share(share: float) -> QuantParams:
        return params_from_range(
            low * share, high * share, params.dtype, symmetric=symmetric, axis=0, ends=params.ends
        )

    scale, zero = now.scale.reshape(-1).copy(), now.zero_point.reshape(-1).copy()
    least = [part.copy() for part in today]
    for share in _WEIGHT_SHARES:
        made = at_share(share)
        found = _errors(rows, made)
        better = found[0] + found[1] < least[0] + least[1]
        scale[better], zero[better] = made.scale[better], made.zero_point[better]
        for kept, new in zip(least, found, strict=True):
            kept[better] = new[better]
    ratio = float(np.mean(scale / now.scale.reshape(-1)))
    yield _weight_choice(
        tensor, params, scale, zero, today, least, f"{ratio:.0%} as wide" + _on_average(scale)
    )
    for share in SHARES if tries else ():
        made = at_share(share)
        yield _weight_choice(
            tensor,
            params,
            made.scale,
            made.zero_point,
            today,
            _errors(rows, made),
            f"{share:.0%} of the extremes",
        )


def _weight_choice(
    tensor: QuantTensor,
    params: QuantParams,
    scale: Array,
    zero_point: Array,
    today: Sequence[Array],
    found: Sequence[Array],
    text: str,
) -> RangeChoice:
    scales = tuple(float(np.float32(one)) for one in scale)
    edits: list[Edit] = [SetScale(tensor.name, scales[0] if len(scales) == 1 else scales)]
    if (zero_point != params.zero_point.reshape(-1)).any():
        zeros = tuple(int(one) for one in zero_point)
        edits.append(SetZeroPoint(tensor.name, zeros[0] if len(zeros) == 1 else zeros))
    rounding, clipping = (float(part.mean()) for part in found)
    total = float(sum(part.mean() for part in today))
    return RangeChoice(tuple(edits), total, rounding, clipping, text)


def _errors(rows: Array, params: QuantParams) -> list[Array]:
    """Compute for each row the mean squares that rounding and that clipping add to its values."""
    difference = np.square(dequantize(quantize(rows, params), params).astype(np.float64) - rows)
    low, high = (end.reshape(-1, 1) for end in params.representable_range)
    half = params.step.reshape(-1, 1) / 2
    is_inside = (rows >= low - half) & (rows <= high + half)
    return [np.where(mask, difference, 0).mean(axis=1) for mask in (is_inside, ~is_inside)]


def _by_channel(values: Array, params: QuantParams) -> Array:
    """Give a row for each scale."""
    if params.is_per_tensor or params.axis is None:
        return np.asarray(values, np.float32).reshape(1, -1)
    moved = np.moveaxis(np.asarray(values, np.float32), params.axis, 0)
    return moved.reshape(len(moved), -1)


def _as_rows(params: QuantParams) -> QuantParams:
    """Give the same parameters for an array that has a row for each scale."""
    scale, zero_point = params.scale.reshape(-1), params.zero_point.reshape(-1)
    return QuantParams(scale, zero_point, params.dtype, axis=0, ends=params.ends)


def _on_average(scale: Array) -> str:
    return f" on average ({scale.size} ranges)" if scale.size > 1 else ""
