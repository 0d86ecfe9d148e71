"""This module turns edits into plain values for JSON, and back, checked."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from quantscope.edit.edits import (
    RANGE_RULES,
    Edit,
    FlipBit,
    Off,
    OffRole,
    On,
    OnRole,
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

_KINDS: dict[str, type[Edit]] = {
    "set scale": SetScale,
    "set zero-point": SetZeroPoint,
    "set range": SetRange,
    "set bits": SetBits,
    "set integer": SetInteger,
    "set channel": SetChannel,
    "set integers": SetIntegers,
    "shift bias": ShiftBias,
    "scale channels": ScaleChannels,
    "flip bit": FlipBit,
    "off": Off,
    "on": On,
    "off role": OffRole,
    "on role": OnRole,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}


def edit_to_dict(edit: Edit) -> dict[str, Any]:
    """Give an edit as plain values: its kind under `edit`, and the fields that are set."""
    found: dict[str, Any] = {"edit": _NAMES[type(edit)]}
    for field in dataclasses.fields(edit):
        value = getattr(edit, field.name)
        is_usual = isinstance(edit, SetBits) and value == "keep"
        if value is not None and not is_usual:
            found[field.name] = list(value) if isinstance(value, tuple) else value
    return found


def edit_from_dict(given: Any) -> Edit:
    """Make an edit of what a person's JSON holds; raise one line for what is missing or wrong."""
    if not isinstance(given, Mapping):
        raise BadConfigError(f"An edit is an object with a kind, not {_shown(given)}")
    kind = given.get("edit")
    made = _KINDS.get(kind) if isinstance(kind, str) else None
    if made is None:
        raise BadConfigError(f"No edit is called {kind!r}; there are: {', '.join(_KINDS)}")
    names = {field.name: field for field in dataclasses.fields(made)}
    unknown = sorted(set(given) - {*names, "edit"})
    if unknown:
        raise BadConfigError(f"The edit '{kind}' has no {unknown[0]!r}; it has: {', '.join(names)}")
    values: dict[str, Any] = {}
    for name, field in names.items():
        if name in given:
            values[name] = _checked(str(kind), name, given[name])
        elif field.default is dataclasses.MISSING:
            raise BadConfigError(f"The edit '{kind}' needs {name!r}, which is missing")
    if made is SetScale and len(values) != 2:  # the tensor, and one of the two
        raise BadConfigError("The edit 'set scale' needs either 'scale' or 'factor'")
    return made(**values)


def _checked(kind: str, name: str, value: Any) -> Any:
    """Give a field's value in the type that the edit has; refuse it with what was found."""
    wanted, good = _FIELDS[name]
    result = tuple(value) if isinstance(value, list) else value
    if not good(result) or (name == "values" and kind == "set scale"):
        raise BadConfigError(f"{name!r} of the edit '{kind}' is {wanted}, not {_shown(value)}")
    return result


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)  # True is an int in Python


def _is_number(value: Any) -> bool:
    return _is_int(value) or isinstance(value, float)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _all(check: Any) -> Any:
    return lambda value: isinstance(value, tuple) and bool(value) and all(map(check, value))


def _or_all(check: Any) -> Any:
    return lambda value: check(value) or _all(check)(value)


def _is_range(value: Any) -> bool:
    return value in RANGE_RULES or (_all(_is_number)(value) and len(value) == 2)


_FIELDS: dict[str, tuple[str, Any]] = {
    "tensor": ("a tensor's name", _is_text),
    "target": ("a layer's or tensor's name", _is_text),
    "first": ("a layer's name", _is_text),
    "second": ("a layer's name", _is_text),
    "factors": ("a list of numbers", _all(_is_number)),
    "role": ("'weights' or 'activations'", lambda value: value in ("weights", "activations")),
    "scale": ("a number or a list of numbers", _or_all(_is_number)),
    "factor": ("a number", _is_number),
    "lo": ("a number", _is_number),
    "hi": ("a number", _is_number),
    "zero_point": ("a whole number or a list of them", _or_all(_is_int)),
    "index": ("a list of whole numbers", _all(_is_int)),
    "value": ("a whole number", _is_int),
    "channel": ("a whole number", _is_int),
    "values": ("a whole number or a list of them", _or_all(_is_int)),
    "packed": ("packed integers, as text", _is_text),
    "by": ("a list of numbers", _all(_is_number)),
    "bit": ("a whole number", _is_int),
    "bits": ("a whole number", _is_int),
    "range": ("'keep', 'minmax', 'best' or two numbers", _is_range),
}


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
