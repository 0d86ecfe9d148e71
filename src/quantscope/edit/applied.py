"""What edits made of a model, and how it becomes a file."""

import hashlib
import json
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import onnx

from quantscope import __version__
from quantscope.edit.edits import Edit
from quantscope.edit.edits_json import edit_to_dict
from quantscope.errors import BadModelError
from quantscope.files import check_outputs, write_whole
from quantscope.model import QuantParams
from quantscope.model.network import Role
from quantscope.model.onnx import check_model
from quantscope.model.provenance import PROVENANCE_KEY, recorded_facts

ChangeKind = Literal["edit", "shared", "bias follows"]


@dataclass(frozen=True)
class Change:
    """A tensor that is not what it was.

    `kind` "edit": an edit names it; "shared": it has its parameters or its numbers in common with
    one; "bias follows": its input or weights moved. `before` and `after` are None
    where it is not quantized.
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
class Applied:
    """An edited model. `proto` is QDQ and the caller's to keep, not to change.

    `lifted`: the file is QOperator and was stated as QDQ first. `notes` are plain lines.
    """

    proto: onnx.ModelProto = field(repr=False, compare=False)
    base_digest: str
    edits: tuple[Edit, ...]
    changes: tuple[Change, ...]
    warnings: tuple[EditWarning, ...]
    notes: tuple[str, ...]
    lifted: bool
    sources: tuple[Path, ...] = field(repr=False)

    def to_bytes(self) -> bytes:
        """The file's bytes: the same for the same model, edits and versions."""
        try:
            return bytes(self.proto.SerializeToString(deterministic=True))
        except ValueError:  # protobuf's limit
            raise BadModelError(
                "The edited model is larger than 2 GB and cannot be one file"
            ) from None

    def save(self, path: Path | str) -> str:
        """Write the model whole and give its sha256; never over a model that it was made from."""
        path = Path(path)
        check_outputs([path], reads=self.sources)
        check_model(path, self.proto)
        content = self.to_bytes()
        write_whole(path, content)
        return hashlib.sha256(content).hexdigest()


def set_provenance(
    proto: onnx.ModelProto,
    *,
    base_digest: str,
    edits: tuple[Edit, ...],
    lifted: bool,
    float_digest: str | None,
) -> None:
    """Say in the model what it was made from; what its metadata said before stays."""
    entry = next((e for e in proto.metadata_props if e.key == PROVENANCE_KEY), None)
    said = {PROVENANCE_KEY: entry.value if entry is not None else "{}"}
    known = recorded_facts(said)
    facts = {"unreadable": said[PROVENANCE_KEY]} if known is None else known
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
    if entry is None:
        entry = proto.metadata_props.add()
        entry.key = PROVENANCE_KEY
    entry.value = json.dumps(facts, sort_keys=True, ensure_ascii=False, allow_nan=False)


@cache
def _versions() -> dict[str, str]:
    return {"quantscope": __version__} | {name: version(name) for name in ("onnx", "numpy")}
