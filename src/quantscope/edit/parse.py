"""This module reads edits as a person types them after `--set`, `--range` and `--off`."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from quantscope.edit.edits import (
    Edit,
    EditedRole,
    FlipBit,
    Off,
    OffRole,
    On,
    OnRole,
    RangeRule,
    ScaleChannels,
    SetBits,
    SetChannel,
    SetInteger,
    SetIntegers,
    SetRange,
    SetScale,
    SetZeroPoint,
    ShiftBias,
)
from quantscope.errors import BadConfigError

_ROLES: dict[str, EditedRole] = {"weights": "weights", "activations": "activations"}
_SET = "TENSOR.scale=NUMBER, TENSOR.scale=xFACTOR or TENSOR.zero_point=INTEGER"


def parse_set(text: str) -> SetScale | SetZeroPoint:
    """Read `stem.out.scale=0.1`, `stem.out.scale=x2` (a factor) or `stem.out.zero_point=3`.

    Several numbers, one per channel, are separated by commas.
    """
    place, equals, value = (part.strip() for part in text.rpartition("="))
    tensor, _, what = place.rpartition(".")
    if not equals or not tensor or what not in ("scale", "zero_point"):
        raise BadConfigError(f"{text!r} is not something to set; give {_SET}")
    if what == "zero_point":
        whole = _numbers(text, value, int, "a whole number")
        return SetZeroPoint(tensor, whole[0] if len(whole) == 1 else whole)
    if value.startswith(("x", "*")):
        (factor,) = _numbers(text, value[1:], float, "a factor", count=1)
        return SetScale(tensor, factor=factor)
    numbers = _numbers(text, value, float, "a number")
    return SetScale(tensor, numbers[0] if len(numbers) == 1 else numbers)


def parse_range(text: str) -> SetRange:
    """Read `stem.out=-1,3.5`: the low end, then the high one."""
    tensor, equals, value = (part.strip() for part in text.rpartition("="))
    if not equals or not tensor:
        raise BadConfigError(f"{text!r} is not a range; give TENSOR=LOW,HIGH")
    low, high = _numbers(text, value, float, "a number", count=2)
    return SetRange(tensor, low, high)


def parse_bits(text: str, rule: RangeRule = "keep") -> SetBits:
    """Read `stem.weight=4`, `weights=6` or `all=5`: what, and how many bits it shall have.

    `rule` says how its range is chosen.
    """
    target, equals, value = (part.strip() for part in text.rpartition("="))
    if not equals or not target:
        raise BadConfigError(f"{text!r} is not a number of bits; give TARGET=BITS")
    (bits,) = _numbers(text, value, int, "a whole number", count=1)
    return SetBits(target.removeprefix("all "), bits, rule)


def parse_off(text: str) -> Off | OffRole:
    """Read what to switch off: all `weights` or `activations`, or else a layer or a tensor.

    `all weights` is the same as `weights`.
    """
    target = text.strip()
    if not target:
        raise BadConfigError("Nothing is named to switch off; give a layer, a tensor or 'weights'")
    role = _ROLES.get(target.removeprefix("all "))
    return Off(target) if role is None else OffRole(role)


def parse_on(text: str) -> On | OnRole:
    """Read what to switch on again, named as for `parse_off`."""
    match parse_off(text):
        case OffRole(role):
            return OnRole(role)
        case Off(target):
            return On(target)


Number = TypeVar("Number", int, float)


def _numbers(
    text: str, value: str, read: Callable[[str], Number], kind: str, *, count: int | None = None
) -> tuple[Number, ...]:
    found: list[Number] = []
    for part in value.split(","):
        try:
            found.append(read(part.strip()))
        except ValueError:
            raise BadConfigError(f"{part.strip()!r} in {text!r} is not {kind}") from None
    if count is not None and len(found) != count:
        numbers = "number" if count == 1 else "numbers"
        raise BadConfigError(f"{text!r} needs {count} {numbers} and has {len(found)}")
    return tuple(found)


_SHOWN = 3


def describe(edit: Edit) -> str:  # noqa: PLR0911, PLR0912 -- one for each kind
    """Say what an edit does, as in `scale of stem.out times 2`; long lists are cut short."""
    match edit:
        case SetScale(tensor, None, float() | int() as factor):
            return f"scale of {tensor} times {factor:g}"
        case SetScale(tensor, scale, _):
            return f"scale of {tensor} = {_numbers_text(scale)}"
        case SetZeroPoint(tensor, zero_point):
            return f"zero-point of {tensor} = {_numbers_text(zero_point)}"
        case SetRange(tensor, lo, hi):
            return f"range of {tensor} = [{lo:g}, {hi:g}]"
        case SetBits(target, bits, rule):
            return f"{target} with {bits} bits{_range_text(rule)}"
        case SetInteger(tensor, index, value):
            return f"integer {_place(index)} of {tensor} = {value}"
        case SetChannel(tensor, channel, values):
            return f"integers of channel {channel} of {tensor} = {_numbers_text(values)}"
        case SetIntegers(tensor):
            return f"all integers of {tensor} set"
        case ShiftBias(tensor, by):
            return f"{tensor} plus {_numbers_text(by)}"
        case ScaleChannels(first, second, factors):
            return f"channels from {first} to {second} divided by {_numbers_text(factors)}"
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


def _range_text(rule: RangeRule | tuple[float, float]) -> str:
    if isinstance(rule, tuple):
        return f" over [{rule[0]:g}, {rule[1]:g}]"
    return {"keep": "", "minmax": " over all values", "best": " over the best range"}[rule]


def _numbers_text(values: float | Sequence[float] | None) -> str:
    if not isinstance(values, Sequence):
        return "nothing" if values is None else f"{values:g}"
    shown = ", ".join(f"{value:g}" for value in values[:_SHOWN])
    more = f", and {len(values) - _SHOWN} more" if len(values) > _SHOWN else ""
    return f"({shown}{more})"


def _place(index: Sequence[int]) -> str:
    return "[" + ", ".join(map(str, index)) + "]"
