"""Turn a person's gestures into changes of the edits in force: a new list each time.

A list of edits stays short: of one tensor it holds at most its bits, and a scale (or a factor on
all channels) and a zero-point, or a range, which is both. What was touched last stands last, so
that it counts where tensors share their parameters.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from quantscope.app.editing.history import Edits
from quantscope.arithmetic import QuantParams
from quantscope.edit import (
    Edit,
    EditedRole,
    Off,
    OffRole,
    On,
    OnRole,
    SetBits,
    SetRange,
    SetScale,
    SetZeroPoint,
)
from quantscope.errors import BadConfigError
from quantscope.model import QuantTensor

Named = SetScale | SetZeroPoint | SetRange


def edits_after(
    step: Mapping[str, Any], edits: Edits, tensor: QuantTensor, now: QuantParams
) -> Edits:
    """Give the edits after a slider's or a field's step.

    `step` is one of `QParam.edit`, `now` what the edits have made of the tensor's parameters.
    """
    value = step.get("value")
    match step["what"]:
        case "scale":
            after = set_scale(edits, tensor, now, _number(value))
        case "zero_point":
            after = set_zero_point(edits, tensor, now, _whole(value, "A zero-point"))
        case "range":
            after = set_range(edits, tensor, _number(step["lo"]), _number(step["hi"]))
        case "bits":
            after = set_bits(edits, tensor, now, _whole(value, "A number of bits"))
        case "factor":
            after = set_factor(edits, tensor, _number(value))
        case "channel":
            after = set_channel(edits, tensor, now, int(step["channel"]), _number(value))
        case _:
            after = reset(edits, tensor)
    return after


def _number(given: Any) -> float:
    """Read what a slider or a field sent; a field sends what was typed."""
    try:
        return float(given)
    except (TypeError, ValueError):
        raise BadConfigError(f"{given!r} is not a number; type one such as 0.05") from None


def _whole(given: Any, what: str) -> int:
    value = _number(given)
    if not value.is_integer():
        raise BadConfigError(f"{what} is a whole number, not {given}")
    return int(value)


def set_scale(edits: Edits, tensor: QuantTensor, now: QuantParams, scale: float) -> Edits:
    """One scale for the whole tensor; `now` is what the edits have made of its parameters."""
    parted = _part_ranges(edits, tensor, now)
    rest = _without(parted, tensor, SetScale)
    if tensor.params.is_per_tensor and _are_equal((scale,), tensor.params):
        return rest
    return (*rest, SetScale(tensor.name, scale))


def set_zero_point(edits: Edits, tensor: QuantTensor, now: QuantParams, zero_point: int) -> Edits:
    """One zero-point for the whole tensor, or for each of its channels."""
    rest = _without(_part_ranges(edits, tensor, now), tensor, SetZeroPoint)
    if (tensor.params.zero_point == zero_point).all():
        return rest
    return (*rest, SetZeroPoint(tensor.name, zero_point))


def set_range(edits: Edits, tensor: QuantTensor, lo: float, hi: float) -> Edits:
    """Scale and zero-point follow, so earlier ones have nothing left to say."""
    return (*_without_range(edits, tensor), SetRange(tensor.name, lo, hi))


def set_bits(edits: Edits, tensor: QuantTensor, now: QuantParams, bits: int) -> Edits:
    """Other bits for the range that is in force.

    Channels keep the scales that were set for them, for an edit of bits has one range only.
    """
    mine = tuple(edit for edit in edits if _is_own(edit, tensor))
    rest = tuple(edit for edit in edits if edit not in mine)
    # Edits of a layer or a role may have narrowed the tensor as well, which its own bits then undo.
    as_it_was = bits == tensor.params.bits and not any(isinstance(e, SetBits) for e in rest)
    if not tensor.params.is_per_tensor:
        scales = tuple(edit for edit in mine if not isinstance(edit, SetBits))
        return (*rest, *scales) if as_it_was else (*rest, SetBits(tensor.name, bits), *scales)
    if all(isinstance(edit, SetBits) and edit.range == "keep" for edit in mine):
        return rest if as_it_was else (*rest, SetBits(tensor.name, bits))
    lo, hi = (float(end) for end in now.representable_range)
    wanted = SetRange(tensor.name, lo, hi) if as_it_was else SetBits(tensor.name, bits, (lo, hi))
    return (*rest, wanted)


def set_factor(edits: Edits, tensor: QuantTensor, factor: float) -> Edits:
    """On the scales of all channels, on top of what was set for one of them."""
    rest = tuple(edit for edit in edits if not _is_factor(edit, tensor))
    return rest if factor == 1 else (*rest, SetScale(tensor.name, factor=factor))


def factor_of(edits: Edits, tensor: QuantTensor) -> float:
    found = 1.0
    for edit in edits:
        if isinstance(edit, SetScale) and _is_factor(edit, tensor):
            found *= edit.factor or 1.0
    return found


def set_channel(
    edits: Edits, tensor: QuantTensor, now: QuantParams, channel: int, scale: float
) -> Edits:
    """The scale of one channel, the factor on all of them included."""
    edits = _part_ranges(edits, tensor, now)
    factor = factor_of(edits, tensor)
    scales = list(channel_scales(edits, tensor))
    scales[channel] = scale / factor
    rest = _without(edits, tensor, SetScale)
    if not _are_equal(scales, tensor.params):
        rest = (*rest, SetScale(tensor.name, tuple(scales)))
    return set_factor(rest, tensor, factor)


def channel_scales(edits: Edits, tensor: QuantTensor) -> tuple[float, ...]:
    """Give the scale of each channel, before a factor on all of them."""
    for edit in reversed(edits):
        if isinstance(edit, SetScale) and edit.tensor == tensor.name and edit.scale is not None:
            given = np.broadcast_to(np.asarray(edit.scale, np.float64), tensor.params.scale.shape)
            return tuple(map(float, given.ravel()))
    return tuple(map(float, tensor.params.scale.ravel()))


def reset(edits: Edits, tensor: QuantTensor) -> Edits:
    """Bits, scale, zero-point and range as the model has them; switches and integers stay."""
    return tuple(edit for edit in edits if not _is_own(edit, tensor))


def switch(
    edits: Edits, target: str, *, on: bool, is_off: Callable[[Edits], Iterable[bool]]
) -> Edits:
    """A tensor or layer switched. `is_off` says, for each of its parts, what a list makes of it."""
    rest = tuple(edit for edit in edits if edit not in (Off(target), On(target)))
    if on:
        return (*rest, On(target)) if any(is_off(rest)) else rest
    return rest if all(is_off(rest)) else (*rest, Off(target))


def switch_role(
    edits: Edits, role: EditedRole, *, on: bool, is_off: Callable[[Edits], Iterable[bool]]
) -> Edits:
    """All weights, or all activations."""
    rest = tuple(edit for edit in edits if edit not in (OffRole(role), OnRole(role)))
    if on:
        return (*rest, OnRole(role)) if any(is_off(rest)) else rest
    return rest if all(is_off(rest)) else (*rest, OffRole(role))


def _part_ranges(edits: Edits, tensor: QuantTensor, now: QuantParams) -> Edits:
    """A range as the scale and the zero-point that it gave, so that one of them can move."""
    if not any(isinstance(edit, SetRange) and edit.tensor == tensor.name for edit in edits):
        return edits
    rest = _without_range(edits, tensor)
    if not np.array_equal(now.scale, tensor.params.scale):
        scales = tuple(map(float, now.scale.ravel()))
        rest = (*rest, SetScale(tensor.name, scales[0] if len(set(scales)) == 1 else scales))
    if not np.array_equal(now.zero_point, tensor.params.zero_point):
        points = tuple(map(int, now.zero_point.ravel()))
        rest = (*rest, SetZeroPoint(tensor.name, points[0] if len(set(points)) == 1 else points))
    return rest


def _are_equal(scales: Sequence[float], params: QuantParams) -> bool:
    with np.errstate(over="ignore"):
        return np.array_equal(np.asarray(scales, np.float32), params.scale.ravel())


def _is_factor(edit: Edit, tensor: QuantTensor) -> bool:
    return isinstance(edit, SetScale) and edit.tensor == tensor.name and edit.factor is not None


def _is_own(edit: Edit, tensor: QuantTensor) -> bool:
    """Say whether an edit gives this one tensor bits, scale, zero-point or range."""
    if isinstance(edit, SetBits):
        return edit.target == tensor.name
    return isinstance(edit, Named) and edit.tensor == tensor.name


def _without_range(edits: Edits, tensor: QuantTensor) -> Edits:
    return _without(edits, tensor, SetScale, SetZeroPoint, SetRange)


def _without(edits: Edits, tensor: QuantTensor, *kinds: type[Named]) -> Edits:
    return tuple(e for e in edits if not (isinstance(e, kinds) and e.tensor == tensor.name))
