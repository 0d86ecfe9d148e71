"""Read which configurations a study has, from a TOML file or a preset.

A file has a base that every configuration starts from, grids whose every combination is a
configuration, and single ones:

    [base]
    calibration_images = 256

    [grid]                               # or several, each as [[grid]]
    activations = ["int8", "uint8"]
    per_channel = [true, false]

    [[config]]
    activations = "uint8"
    reduce_range = true

    [[config]]
    framework = "torch"
    observer = "histogram"

The keys are those of `PtqConfig`, and `int8_kernels`, which sets onnxruntime's
`session.qdqisint8allowed` for the runtime execution. A combination of a grid that is impossible is
left out and listed; a single configuration that is impossible is an error.
"""

import itertools
import math
import re
import reprlib
import tomllib
import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from quantscope.errors import BadConfigError
from quantscope.files import read_bytes
from quantscope.quantize import LayerOverride, PtqConfig


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


Values = Mapping[str, Any]
INT8_KERNELS = "int8_kernels"
_MOST_BYTES = 2**18
"""The limit of a file; 10,000 single configurations would be more, but grids say it in a line."""

# A dotted key is a table for each of its parts; no study nests twenty of them.
_DEEP_KEY = re.compile(r"(?<![\w-])(?:[\w-]++\s*+\.\s*+){20}")
_MOST_CONFIGS = 10_000
SECTIONS = ("base", "grid", "config")


@dataclass(frozen=True)
class StudyConfig:
    """A quantization, and how the runtime is to execute it."""

    ptq: PtqConfig
    int8_kernels: bool | None = None

    def label(self) -> str:
        option = {None: "", True: " · int8 kernels on", False: " · int8 kernels off"}
        return self.ptq.label() + option[self.int8_kernels]

    def to_dict(self) -> dict[str, Any]:
        return self.ptq.to_dict() | {INT8_KERNELS: self.int8_kernels}

    @classmethod
    def from_dict(cls, values: Values) -> "StudyConfig":
        _check_types(values, _hints())
        own = dict(values)
        return cls(int8_kernels=own.pop(INT8_KERNELS, None), ptq=PtqConfig.from_dict(own))


@dataclass(frozen=True)
class StudyPlan:
    """The configurations of a study, each once; `skipped` says what a grid could not have."""

    name: str
    configs: tuple[StudyConfig, ...]
    skipped: tuple[str, ...] = ()


def read_plan(path: Path) -> StudyPlan:
    """Read the configurations of a TOML file."""
    wanted = "a study's TOML file, or --preset ptq"
    content = read_bytes(path, wanted, kind=BadConfigError, most_bytes=_MOST_BYTES)
    try:
        text = content.decode("utf-8")
        document = None if _DEEP_KEY.search(text) else tomllib.loads(text)
    except RecursionError:
        document = None
    except ValueError as error:  # of TOML, or of text that is not UTF-8
        raise BadConfigError(f"{path} is not a TOML file: {error}") from None
    if document is None:
        raise BadConfigError(f"{path} is nested too deep; give {wanted}")
    try:
        return plan_from(document, name=path.name)
    except BadConfigError as error:
        raise BadConfigError(f"{path}: {error}") from None


def plan_from(document: Values, *, name: str) -> StudyPlan:
    """Read the configurations of a TOML document as it was parsed."""
    for key in document:
        if key not in SECTIONS:
            raise BadConfigError(f"there is no section '{key}'; there are: {', '.join(SECTIONS)}")
    base = _table(document.get("base", {}), "[base]")
    _check_keys(base, "[base]")
    grids = _tables(document.get("grid", []), "[grid]")
    singles = _tables(document.get("config", []), "[[config]]")
    _check_count(grids, singles)
    configs: list[StudyConfig] = []
    skipped: list[str] = []
    for number, grid in enumerate(grids, start=1):
        for values in _combinations(grid, f"[grid] {number}"):
            try:
                configs.append(StudyConfig.from_dict({**base, **values}))
            except BadConfigError as error:
                text = ", ".join(f"{key} = {value}" for key, value in values.items())
                skipped.append(f"{text}: {error}")
    for number, values in enumerate(singles, start=1):
        _check_keys(values, f"[[config]] {number}")
        try:
            configs.append(StudyConfig.from_dict({**base, **values}))
        except BadConfigError as error:
            raise BadConfigError(f"[[config]] {number}: {error}") from None
    if not configs:
        why = f": {skipped[0]}" if skipped else "; add a [grid] or [[config]]"
        raise BadConfigError(f"it has no possible configuration{why}")
    return StudyPlan(name, tuple(dict.fromkeys(configs)), tuple(skipped))


def preset(name: str) -> StudyPlan:
    """Give a study that comes with the package."""
    if name != "ptq":
        raise BadConfigError(f"There is no preset '{name}'; there is: ptq")
    return plan_from(PTQ, name="preset ptq")


# The whole product would be 288 rows for onnxruntime alone, most of which say nothing new: the
# type, method and granularity are crossed, and what else there is varies around them.
PTQ: dict[str, Any] = {
    "base": {"calibration_images": 256},
    "grid": [
        {
            "activations": ["int8", "uint8"],
            "calibration": ["minmax", "entropy", "percentile"],
            "per_channel": [False, True],
        },
        {
            "format": ["qoperator"],
            "activations": ["int8", "uint8"],
            "per_channel": [False, True],
        },
        {
            "activations": ["int8"],
            "calibration": ["minmax", "entropy", "percentile"],
            "calibration_images": [100, 256, 512],
        },
        {
            "reduce_range": [True],
            "activations": ["int8", "uint8"],
            "per_channel": [False, True],
        },
        # Entropy has nothing to search with onnxruntime's own 128 bins.
        {
            "calibration": ["entropy"],
            "histogram_bins": [2048],
            "activations": ["int8", "uint8"],
        },
        {"int8_kernels": [True], "activations": ["int8"], "per_channel": [False, True]},
        {
            "framework": ["torch"],
            "activations": ["int8", "uint8"],
            "observer": ["minmax", "moving-average", "histogram"],
            "symmetric_activations": [False, True],
        },
    ],
}


def _table(value: object, what: str) -> Values:
    if not isinstance(value, dict):
        raise BadConfigError(f"{what} must be a table of options")
    return value


def _tables(value: object, what: str) -> list[Values]:
    entries = value if isinstance(value, list) else [value]
    return [_table(entry, what) for entry in entries]


def _check_count(grids: list[Values], singles: list[Values]) -> None:
    sizes = [[len(v) for v in grid.values() if isinstance(v, list)] for grid in grids]
    count = sum(map(math.prod, sizes)) + len(singles)
    if count > _MOST_CONFIGS:
        raise BadConfigError(
            f"it has {count:,} configurations; a study has at most {_MOST_CONFIGS:,}"
        )


def _combinations(grid: Values, what: str) -> Iterator[Values]:
    """Give every combination of a grid's values."""
    _check_keys(grid, what)
    for key, values in grid.items():
        if not isinstance(values, list) or not values:
            raise BadConfigError(
                f"{what}: {key} must be a list of values, not {reprlib.repr(values)}"
            )
        for value in values:  # a wrong type is a slip, not an impossible combination
            _check_types({key: value}, _hints())
    for values in itertools.product(*grid.values()):
        yield dict(zip(grid, values, strict=True))


def _hints() -> dict[str, Any]:
    return get_type_hints(PtqConfig) | {INT8_KERNELS: bool | None}


def _check_keys(values: Values, what: str) -> None:
    from quantscope.quantize import closest

    known = [field.name for field in fields(PtqConfig)] + [INT8_KERNELS]
    for key in values:
        if key not in known:
            raise BadConfigError(f"{what} has no option '{key}'; {closest(key, known)}")


def _check_types(values: Values, hints: Mapping[str, Any]) -> None:
    """Refuse types that a text file can hold but a dataclass does not expect."""
    for key, value in values.items():
        if key == "overrides":
            for override in _list_of_tables(value):
                _check_types(override, get_type_hints(LayerOverride))
        elif key in hints and not fits(value, hints[key]):
            raise BadConfigError(
                f"{key} is {reprlib.repr(value)}; it must be {_describe(hints[key])}"
            )


def _list_of_tables(value: object) -> Iterable[Values]:
    if not isinstance(value, list | tuple) or not all(isinstance(entry, dict) for entry in value):
        raise BadConfigError("overrides must be a list of tables, each with the name of its layer")
    return value


def _describe(hint: Any) -> str:
    if get_origin(hint) in (Union, types.UnionType):
        parts = [part for part in get_args(hint) if part is not type(None)]
        return " or ".join(_describe(part) for part in parts)
    if get_origin(hint) is Literal:
        return f"one of: {', '.join(map(str, get_args(hint)))}"
    names = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}
    return names.get(hint, str(hint))
