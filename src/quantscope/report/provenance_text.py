"""Say where a model comes from, as its file's metadata has it: readable, and never trusted."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from quantscope.model import PROVENANCE_KEY, Network, recorded_facts
from quantscope.plain_text import elide, printable
from quantscope.report.table import Fact

_MOST_CHARACTERS = 400
_DIGEST = re.compile("[0-9a-f]{64}")
_LABELS = {
    "label": "provenance",
    "float_model_digest": "  float model",
    "config": "  config",
    "calibration": "  calibration",
    "versions": "  versions",
}


def provenance_facts(network: Network) -> tuple[Fact, ...]:
    return tuple(_facts(network))


def _facts(network: Network) -> Iterator[Fact]:
    found = recorded_facts(network.metadata)
    if found is None and PROVENANCE_KEY in network.metadata:
        yield Fact("provenance", "the file has one that does not read as JSON")
    # The facts that this package writes come first, in a fixed order; the others follow as they
    # stand.
    known = [key for key in _LABELS if key in (found or {})]
    for key in dict.fromkeys([*known, *(found or {})]):
        if text := _text((found or {})[key]):
            label = _LABELS.get(key, f"  {elide(printable(key.replace('_', ' ')), 24)}")
            yield Fact(label, elide(text, _MOST_CHARACTERS))
    others = [f"{k} = {v}" for k, v in network.metadata.items() if k != PROVENANCE_KEY]
    if others:
        yield Fact("metadata", elide(printable(", ".join(others)), _MOST_CHARACTERS))


def _text(value: Any) -> str:
    """Write a recorded value:

    `activations int8, per channel`. What is true goes by its name, and what is absent is left out.
    """
    if isinstance(value, Mapping):
        return ", ".join(filter(None, (_entry(key, inner) for key, inner in value.items())))
    if isinstance(value, list):
        return "; ".join(filter(None, map(_text, value)))
    text = "" if value is None else printable(str(value))
    return f"{text[:12]}…" if _DIGEST.fullmatch(text) else text


def _entry(key: str, value: Any) -> str:
    label = printable(key.replace("_", " "))
    if value is True:
        return label
    if value is False:
        return f"not {label}"
    text = _text(value)
    return f"{label} {text}" if text else ""
