"""This module reads what quantscope wrote into a file about how it was made."""

from collections.abc import Mapping
from typing import Any

from quantscope.files import parse_json

PROVENANCE_KEY = "quantscope.provenance"
"""The key in an ONNX file's metadata and among a .pt2 file's extra files; its value is JSON."""

_MOST_CHARACTERS = 2_000_000


def recorded_facts(metadata: Mapping[str, str]) -> dict[str, Any] | None:
    """Give what a file's metadata says; None if nothing, or nothing that is a JSON object."""
    text = metadata.get(PROVENANCE_KEY, "")
    if len(text) > _MOST_CHARACTERS:
        return None
    try:
        found = parse_json(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
