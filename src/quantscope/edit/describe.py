"""This module puts an edit in one plain line."""

from collections.abc import Sequence

from quantscope.edit.edits import (
    Edit,
    FlipBit,
    Off,
    OffRole,
    On,
    OnRole,
    SetChannel,
    SetInteger,
    SetRange,
    SetScale,
    SetZeroPoint,
)

_SHOWN = 3


def describe(edit: Edit) -> str:  # noqa: PLR0911 -- one for each kind
    """Say what an edit does, as in `scale of stem.out times 2`; long lists are cut short."""
    match edit:
        case SetScale(tensor, None, float() | int() as factor):
            return f"scale of {tensor} times {factor:g}"
        case SetScale(tensor, scale, _):
            return f"scale of {tensor} = {_numbers(scale)}"
        case SetZeroPoint(tensor, zero_point):
            return f"zero-point of {tensor} = {_numbers(zero_point)}"
        case SetRange(tensor, lo, hi):
            return f"range of {tensor} = [{lo:g}, {hi:g}]"
        case SetInteger(tensor, index, value):
            return f"integer {_place(index)} of {tensor} = {value}"
        case SetChannel(tensor, channel, values):
            return f"integers of channel {channel} of {tensor} = {_numbers(values)}"
        case FlipBit(tensor, index, bit):
            return f"bit {bit} of integer {_place(index)} of {tensor} flipped"
        case Off(target):
            return f"{target} not quantized"
        case On(target):
            return f"{target} quantized again"
        case OffRole(role):
            return f"all {role} not quantized"
        case OnRole(role):
            return f"all {role} quantized again"


def _numbers(values: float | Sequence[float] | None) -> str:
    if not isinstance(values, Sequence):
        return "nothing" if values is None else f"{values:g}"
    shown = ", ".join(f"{value:g}" for value in values[:_SHOWN])
    more = f", and {len(values) - _SHOWN} more" if len(values) > _SHOWN else ""
    return f"({shown}{more})"


def _place(index: Sequence[int]) -> str:
    return "[" + ", ".join(map(str, index)) + "]"
