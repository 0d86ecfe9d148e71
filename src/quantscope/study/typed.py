"""Check whether what a text file holds is what a type says."""

import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints


def fits(value: object, hint: Any) -> bool:  # noqa: PLR0911 - one for each kind of type
    """Tell whether a value is of a type, and so is all that is in it."""
    origin, parts = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if origin in (Union, types.UnionType):
        return any(fits(value, part) for part in parts)
    if origin is Literal:
        return value in parts
    if origin is tuple:
        return isinstance(value, tuple) and _elements_fit(value, parts)
    if origin in (dict, Mapping):
        return isinstance(value, Mapping) and all(
            fits(key, parts[0]) and fits(held, parts[1]) for key, held in value.items()
        )
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if not isinstance(value, hint):
        return False
    return not is_dataclass(hint) or _fields_fit(value)


def _elements_fit(value: tuple[Any, ...], parts: tuple[Any, ...]) -> bool:
    if parts[1:] == (...,):
        return all(fits(element, parts[0]) for element in value)
    return len(value) == len(parts) and all(map(fits, value, parts))


def _fields_fit(value: Any) -> bool:
    hints = get_type_hints(type(value))
    return all(fits(getattr(value, part.name), hints[part.name]) for part in fields(value))
