"""An edited model: what the edits changed in it, and how it becomes a file."""

import hashlib
import json
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import onnx

from quantscope import __version__
from quantscope.edit.edits import Edit, ScaleChannels
from quantscope.edit.edits_json import edit_from_dict, edit_to_dict
from quantscope.edit.subject import Written
from quantscope.errors import BadConfigError
from quantscope.files import check_outputs, write_whole
from quantscope.model import PROVENANCE_KEY, QuantParams, Role, recorded_facts

ChangeKind = Literal["edit", "shared", "bias follows"]


@dataclass(frozen=True)
class Change:
    """A tensor that is not what it was.

    `kind` is "edit" if an edit names it, "shared" if it has its parameters or its numbers in common
    with one that an edit names, "bias follows" if its input or weights moved. `before` and `after`
    are None where it is not quantized.
    """

    tensor: str
    role: Role
    kind: ChangeKind
    before: QuantParams | None
    after: QuantParams | None
    integers_changed: int = 0


@dataclass(frozen=True)
class EditWarning:
    """Something that a person should accept before they go on."""

    tensor: str
    text: str


@dataclass(frozen=True)
class Preview:
    """A preview of what edits would do to a model, which is not made; fields as in `Applied`."""

    changes: tuple[Change, ...]
    warnings: tuple[EditWarning, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Applied:
    """An edited model, and what the edits did. `notes` are plain lines.

    `lifted` says that the file is QOperator and was stated as QDQ first. `sources` are the files
    that the model comes from, which are never written over.
    """

    written: Written = field(repr=False, compare=False)
    base_digest: str
    edits: tuple[Edit, ...]
    changes: tuple[Change, ...]
    warnings: tuple[EditWarning, ...]
    notes: tuple[str, ...]
    lifted: bool
    sources: tuple[Path, ...] = field(repr=False)

    @property
    def proto(self) -> onnx.ModelProto:
        """The ONNX model as QDQ: the caller's to keep, not to change."""
        return self.written.proto

    def to_bytes(self) -> bytes:
        """Give the file's bytes, which are the same for the same model, edits and versions."""
        return self.written.to_bytes()

    @cached_property
    def digest(self) -> str:
        """The sha256 of the file that it would be."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    def save(self, path: Path | str) -> str:
        """Write the model whole and give its sha256; never over a model that it was made from."""
        path = Path(path)
        check_outputs([path], reads=self.sources)
        self.written.check(path)
        content = self.to_bytes()
        write_whole(path, content)
        return hashlib.sha256(content).hexdigest()


def state_edits(
    said: str | None,
    *,
    base_digest: str,
    edits: tuple[Edit, ...],
    lifted: bool,
    float_digest: str | None,
) -> str:
    """Give, as JSON, what a model was made from; what its file `said` of that before is kept.

    An earlier list of edits stays under `earlier`, and text that is no JSON under `unreadable`.
    """
    before = "{}" if said is None else said
    known = recorded_facts({PROVENANCE_KEY: before})
    facts: dict[str, Any] = {"unreadable": before} if known is None else dict(known)
    made: dict[str, Any] = {
        "base_digest": base_digest,
        "edits": [edit_to_dict(edit) for edit in edits],
        "versions": dict(_versions()),
    }
    if lifted:
        made["lifted_from"] = "qoperator"
    if "edited" in facts:
        made["earlier"] = facts["edited"]
    facts["edited"] = made
    if float_digest is not None:
        facts.setdefault("float_model_digest", float_digest)
    return json.dumps(facts, sort_keys=True, ensure_ascii=False, allow_nan=False)


def recorded_rescaling(said: str | None) -> tuple[ScaleChannels, ...]:
    """Give the edits by which a file says that its channels were rescaled, the first ones first."""
    facts = recorded_facts({PROVENANCE_KEY: said or "{}"}) or {}
    found: list[ScaleChannels] = []
    made = facts.get("edited")
    while isinstance(made, dict):
        given = made.get("edits")
        stated = [_rescaling(each) for each in (given if isinstance(given, list) else ())]
        found = [*(edit for edit in stated if edit is not None), *found]
        made = made.get("earlier")
    return tuple(found)


def _rescaling(given: Any) -> ScaleChannels | None:
    """Read one edit of a file; what is of another kind, or cannot be read, is None."""
    try:
        edit = edit_from_dict(given)
    except BadConfigError:
        return None
    return edit if isinstance(edit, ScaleChannels) else None


# Looking a version up reads the package's metadata from disk, and every list of edits asks.
@cache
def _versions() -> dict[str, str]:
    return {"quantscope": __version__} | {name: version(name) for name in ("onnx", "numpy")}
