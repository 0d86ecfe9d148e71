"""The values of this room: a cure, what it did where, and what it left out."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from quantscope.cure.layer_errors import LayerError
from quantscope.edit import Edit, describe, edit_to_dict
from quantscope.errors import QuantscopeError


class DoesNotApplyError(QuantscopeError):
    """A cure has nothing to do in a model; the line says why."""


@dataclass(frozen=True)
class Treated:
    """A layer or tensor that a cure changes: `what` is a clause for people, `numbers` the same."""

    where: str
    what: str
    numbers: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return {"where": self.where, "what": self.what, "numbers": dict(self.numbers)}


@dataclass(frozen=True)
class LeftOut:
    """A layer or tensor that a cure does not change, and why."""

    where: str
    why: str


@dataclass(frozen=True, eq=False)
class Cure:
    """Edits that shall help, what they do in words, and the layers' errors before and after.

    `in_force` are the edits that were there before, which `before` and `after` include; `edits` are
    what the cure adds. Errors are those of the calibration samples, in the arithmetic that the file
    states; what a cure brings on other samples a `Step` of a `Course` says.
    """

    kind: str
    model: str
    digest: str
    float_model: str
    calibration: str
    calibration_digest: str
    samples: int
    explanation: str
    edits: tuple[Edit, ...]
    in_force: tuple[Edit, ...]
    treated: tuple[Treated, ...]
    left_out: tuple[LeftOut, ...]
    before: tuple[LayerError, ...]
    after: tuple[LayerError, ...]
    notes: tuple[str, ...] = ()
    provenance: Mapping[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "model": self.model,
            "digest": self.digest,
            "float_model": self.float_model,
            "calibration": self.calibration,
            "calibration_digest": self.calibration_digest,
            "samples": self.samples,
            "explanation": self.explanation,
            "edits": [{**edit_to_dict(edit), "in_words": describe(edit)} for edit in self.edits],
            "edits_in_force_before": len(self.in_force),
            "treated": [each.to_dict() for each in self.treated],
            "left_out": {each.where: each.why for each in self.left_out},
            "before": [each.to_dict() for each in self.before],
            "after": [each.to_dict() for each in self.after],
            "notes": list(self.notes),
            "provenance": dict(self.provenance),
        }
