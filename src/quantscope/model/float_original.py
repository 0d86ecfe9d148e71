"""This module finds the float model that a quantized one was made from, without being told.

Where none is known, the same network with every quantizer switched off stands in for it.
"""

import hashlib
from collections.abc import Mapping
from functools import cache
from typing import Any

from quantscope.errors import BadConfigError
from quantscope.files import parse_json
from quantscope.model.bundled import bundled_models, float_model_of
from quantscope.model.opened import Model, ModelSource, open_model

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


def find_original(model: Model, given: ModelSource | None = None) -> Model | None:
    """Open the given float model, or the bundled one that `model` says it was made from.

    A given model that cannot be run beside `model` is refused; None means that none is known.
    """
    if given is not None:
        original = open_model(given)
        model.check_original(original)
        return original.write_out_like(model)
    known = model.known_original
    return None if known is None else known.write_out_like(model)


def open_known_original(model: Model) -> Model | None:
    """Open the bundled float model that `model` says it was made from; see `known_original`."""
    bundled = float_model_of(model.path)
    if bundled is not None:
        return open_model(bundled)
    name = model.bundled_float
    return open_model(name) if recorded_digest(model) == _digest(name) else None


def need_original(model: Model, given: ModelSource | None = None) -> Model:
    """Do as `find_original`; where none is known, give the network with every quantizer off.

    That one says in its name what it is. Of PyTorch's files there is none: the error says how to
    give the original.
    """
    original = find_original(model, given)
    if original is not None:
        return original
    if not model.has_stand_in:
        raise unknown_original(model)
    return model.stand_in


def unknown_original(model: Model, how: str = "give it with --float FILE") -> BadConfigError:
    """Make the error for a model whose float original is not known; `how` one can be given."""
    digest = recorded_digest(model)
    if digest is None:
        return BadConfigError(
            f"{model.name} does not say which float model it was made from; {how}"
        )
    return BadConfigError(
        f"{model.name} was made from a float model with SHA-256 {digest[:12]}…, which is not "
        f"bundled; {how}"
    )


def recorded_digest(model: Model) -> str | None:
    """Give the SHA-256 of the float model that a quantized one says it was made from."""
    digest = (recorded_facts(model.metadata) or {}).get("float_model_digest")
    if not isinstance(digest, str):
        return None
    # PyTorch's form of the bundled network; an ONNX file made from it belongs to the ONNX form.
    return _digest(model.bundled_float) if digest == _digest("resnet8-torch") else digest


@cache
def _digest(name: str) -> str:
    return hashlib.sha256(bundled_models()[name].read_bytes()).hexdigest()
