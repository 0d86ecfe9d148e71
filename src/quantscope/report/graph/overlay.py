"""Find the numbers of a result, layer by layer, by which a drawing is coloured."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from quantscope.errors import BadConfigError, BadDataError
from quantscope.files import read_json
from quantscope.model import Network
from quantscope.plain_text import elide, printable

_UNITS = {
    "_db": "dB",
    "_bytes": "bytes",
    "_bits": "bits",
    "_fraction": "fraction of 1",
    "_points": "points",
    "_percent": "%",
    "_ms": "ms",
    "_seconds": "s",
}
_MOST_COLUMNS = 16
_DEEPEST = 6

_Row = Mapping[str, Any]


@dataclass(frozen=True)
class Overlay:
    """One number for each layer by its name; None where the result has null for it."""

    metric: str
    unit: str
    values: Mapping[str, float | None]


def read_overlay(path: Path, network: Network, metric: str | None) -> Overlay:
    """Read the column `metric` of the lists in a JSON file whose rows name layers or tensors."""
    content = read_json(path, "the result of a command's --json")
    return make_overlay(content, network, metric, source=path.name)


def make_overlay(content: Any, network: Network, metric: str | None, *, source: str) -> Overlay:
    """Find the column `metric` in the JSON content of a result.

    Rows have a `layer`, or a `name` of a layer or of one of its tensors. With several rows for a
    layer the one of its output counts, else the first. Without `metric` there must be a single
    column.
    """
    tables = list(_tables(content, _DEEPEST))
    if not tables:
        raise BadDataError(
            f"{source} holds no list of objects with a `layer` or a `name`; "
            "give the result of a command's --json"
        )
    columns = list(dict.fromkeys(name for table in tables for name in _columns(table)))
    if metric is None:
        if len(columns) != 1:
            raise BadConfigError(f"Say which column colours, with --metric; {_listed(columns)}")
        metric = columns[0]
    if metric not in columns:
        raise BadConfigError(f"No numbers {metric!r} in {source}; {_listed(columns)}")
    table = next(table for table in tables if metric in _columns(table))
    values = _values(table, network, metric)
    if not any(value is not None for value in values.values()):
        first = elide(printable(str(table[0].get("layer") or table[0].get("name"))), 60)
        raise BadDataError(
            f"{source} has {metric!r} for no layer of {network.path.name}; its first row is "
            f"{first!r}"
        )
    return Overlay(metric, _unit(metric), values)


def _tables(content: Any, deepest: int) -> Iterator[Sequence[_Row]]:
    """Find the lists whose rows name something, at most `deepest` levels down."""
    if isinstance(content, list):
        rows = [row for row in content if isinstance(row, dict) and _names(row)]
        if rows:
            yield rows
            return
    inner = content.values() if isinstance(content, dict) else content
    if isinstance(content, dict | list) and deepest:
        for value in inner:
            yield from _tables(value, deepest - 1)


def _names(row: _Row) -> bool:
    return isinstance(row.get("layer"), str) or isinstance(row.get("name"), str)


def _columns(table: Sequence[_Row]) -> dict[str, None]:
    return {name: None for row in table for name, value in _numbers(row) if value is not None}


def _numbers(row: _Row, prefix: str = "", deepest: int = 3) -> Iterator[tuple[str, float | None]]:
    """Give numbers by column, those of nested objects as `params.scale`.

    NaN and infinity are None.
    """
    for name, value in row.items():
        if value is None:
            yield prefix + name, None
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield prefix + name, _finite(value)
        elif isinstance(value, dict) and deepest:
            yield from _numbers(value, f"{prefix}{name}.", deepest - 1)


def _finite(value: float) -> float | None:
    try:
        number = float(value)
    # JSON has integers of any size.
    except OverflowError:
        return None
    return number if isfinite(number) else None


def _values(table: Sequence[_Row], network: Network, metric: str) -> dict[str, float | None]:
    """Choose a value for each layer: that of its output's row, else the first."""
    layers = {layer.name for layer in network.layers}
    outputs = {o.quant.name for layer in network.layers for o in layer.outputs if o.quant}
    # A row may name a tensor: an activation counts for its maker, a constant for its first reader.
    owners = {
        tensor.name: tensor.producer or tensor.consumers[0]
        for tensor in network.tensors
        if tensor.producer or (tensor.role != "activation" and tensor.consumers)
    }
    values: dict[str, float | None] = {}
    settled: set[str] = set()
    for row in table:
        numbers = dict(_numbers(row))
        if metric not in numbers:
            continue
        name, layer = (_text(row.get(key)) for key in ("name", "layer"))
        owner = layer if layer in layers else (name if name in layers else owners.get(name))
        if owner is None or owner in settled:
            continue
        is_output = name in outputs
        if is_output or owner not in values:
            values[owner] = numbers[metric]
        if is_output:
            settled.add(owner)
    return values


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _unit(metric: str) -> str:
    return next((unit for suffix, unit in _UNITS.items() if metric.endswith(suffix)), "")


def _listed(columns: Sequence[str]) -> str:
    if not columns:
        return "it holds no numbers"
    shown = ", ".join(elide(printable(name), 40) for name in columns[:_MOST_COLUMNS])
    more = len(columns) - _MOST_COLUMNS
    return f"there are: {shown}" + (f" and {more} more" if more > 0 else "")
