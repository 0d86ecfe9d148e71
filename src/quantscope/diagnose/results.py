"""The results of a diagnosis: what the loss is made of, what was found, what each try brought."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isnan
from typing import Any, Literal

from quantscope.data import Samples
from quantscope.edit import Edit, describe, edit_to_dict
from quantscope.run import Origin, Score, ScoreDelta

SCHEMA_VERSION = 1

FINDINGS_PAGE = "docs/findings.md"

CostOf = Literal["tensors", "kernels", "class", "nothing"]
"""The number that a finding's cost is measured by.

"tensors": what comes back with those left float. "kernels": what lies between the stated arithmetic
and the kernels that ship. "class": what comes back with the samples of its classes answered as
the float model does. "nothing": it costs no accuracy.
"""


@dataclass(frozen=True)
class Place:
    """One place where something was found: a tensor or a layer, and the numbers that say so.

    `seen` is a clause for people, `numbers` the same for machines.
    """

    where: str
    seen: str
    numbers: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Remedy:
    """A change that can be tried: edits of the model, or a new quantization.

    `what` is an order in words. `options` are fields of `PtqConfig`, `calibration` are other
    samples to calibrate with, `cure` one of `quantscope.cure.CURES`, whose edits are found when it
    is tried, for `cure_targets` or the whole model; `command` is what a person
    types where that says more than `what`. A remedy with none of them is advice.
    """

    what: str
    edits: tuple[Edit, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    command: str = ""
    calibration: Samples | None = None
    cure: str = ""
    cure_targets: tuple[str, ...] = ()

    @property
    def is_quantization(self) -> bool:
        """Say whether the float model is quantized anew."""
        return bool(self.options) or self.calibration is not None

    @property
    def can_be_tried(self) -> bool:
        return bool(self.edits or self.cure) or self.is_quantization

    def to_dict(self) -> dict[str, Any]:
        return {
            "what": self.what,
            "edits": [{**edit_to_dict(edit), "in_words": describe(edit)} for edit in self.edits],
            "options": dict(self.options),
            "command": self.command,
            "cure": self.cure,
            "cure_targets": list(self.cure_targets),
            "calibration": None if self.calibration is None else self.calibration.name,
        }


@dataclass(frozen=True, eq=False)
class Gain:
    """The gain of a change: the changed score minus the score as it is, sample by sample.

    `sqnr_change_db` is how much it raises the SQNR of the outputs against the float model's; None
    where one of the two has none.
    """

    delta: ScoreDelta
    sqnr_change_db: float | None

    @property
    def value(self) -> float:
        """How much better the score is, whichever way is better; 0 where no sample tells."""
        found = self.delta.delta
        if isnan(found):
            return 0.0
        return found if self.delta.first.higher_is_better else -found

    @property
    def is_sure(self) -> bool:
        """Say whether the interval of the difference leaves out zero."""
        ends = self.delta.interval_95
        return ends is not None and (ends[0] > 0 or ends[1] < 0)

    @property
    def helps(self) -> bool:
        """Say whether the score is better, and surely so."""
        return self.is_sure and self.value > 0

    def to_dict(self) -> dict[str, Any]:
        return {
            **self.delta.to_dict(),
            "sqnr_change_db": self.sqnr_change_db,
            "is_sure": self.is_sure,
            "helps": self.helps,
        }


@dataclass(frozen=True, eq=False)
class Attempt:
    """A remedy that was tried alone, or all that helped together; or why it was not.

    `recovered` is the share of the whole loss that came back; None where nothing was lost.
    """

    remedy: Remedy
    gain: Gain | None
    score: Score | None
    recovered: float | None
    execution: str
    not_tried: str = ""

    @property
    def helps(self) -> bool:
        return self.gain is not None and self.gain.helps

    def to_dict(self) -> dict[str, Any]:
        return {
            "remedy": self.remedy.to_dict(),
            "score": None if self.score is None else self.score.to_dict(),
            "gain": None if self.gain is None else self.gain.to_dict(),
            "recovered": self.recovered,
            "execution": self.execution,
            "helps": self.helps,
            "not_tried": self.not_tried,
        }


@dataclass(frozen=True, eq=False)
class Finding:
    """Something that is wrong, where, what it costs, and what can be tried.

    `kind` is also the anchor of its explanation in docs/findings.md. `tensors` are those whose
    quantization it is about. `cost` is None until it was measured, and where it costs no accuracy.
    """

    kind: str
    title: str
    why: str
    places: tuple[Place, ...]
    remedies: tuple[Remedy, ...]
    tensors: tuple[str, ...] = ()
    cost_of: CostOf = "tensors"
    labels: tuple[int, ...] = ()
    """The classes that it is about, where it is about classes."""
    cost: Gain | None = None
    attempts: tuple[Attempt, ...] = ()

    @property
    def link(self) -> str:
        return f"{FINDINGS_PAGE}#{self.kind}"

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "title": self.title,
            "why": self.why,
            "link": self.link,
            "places": [
                {"where": p.where, "seen": p.seen, "numbers": dict(p.numbers)} for p in self.places
            ],
            "tensors": list(self.tensors),
            "labels": list(self.labels),
            "cost_of": self.cost_of,
            "cost": None if self.cost is None else self.cost.to_dict(),
            "remedies": [remedy.to_dict() for remedy in self.remedies],
            "attempts": [attempt.to_dict() for attempt in self.attempts],
        }


@dataclass(frozen=True, eq=False)
class LayerShare:
    """A layer, or an input, that holds part of the loss.

    `gain` is what comes back with its quantization off. `own_sqnr_db` is its output's signal over
    the error that the layer itself adds to what it inherits; None where that is not known.
    """

    layer: str
    op_type: str
    gain: Gain
    own_sqnr_db: float | None

    def to_dict(self) -> dict[str, Any]:
        return {
            "layer": self.layer,
            "op_type": self.op_type,
            "gain": self.gain.to_dict(),
            "own_sqnr_db": self.own_sqnr_db,
        }


@dataclass(frozen=True, eq=False)
class Account:
    """The parts of the loss. `floats`, `quantized` and `runtime` are scores.

    `quantized` is the arithmetic that the file states. Each `Gain` is against it, of the same
    samples: `loss` is what the float model has more; `weights_off`, `activations_off` and
    `both_off` say what comes back with those float; `kernels` what those that ship change. `layers`
    come with the one that holds most first; of `layers_in_all` only so many were measured.
    """

    floats: Score
    quantized: Score
    runtime: Score | None
    loss: Gain
    weights_off: Gain
    activations_off: Gain
    both_off: Gain
    kernels: Gain | None
    layers: tuple[LayerShare, ...]
    layers_in_all: int
    kernels_of: str = "this CPU"
    """Whose kernels `runtime` ran on, or was predicted for."""

    @property
    def would_do(self) -> int | None:
        """How many samples would tell this loss from chance; None where these do, or none can.

        The interval shrinks with the root of their number, and shall end before zero.
        """
        loss, ends = self.loss.delta.delta, self.loss.delta.interval_95
        if self.loss.is_sure or ends is None or self.loss.value <= 0:
            return None
        reach = loss - ends[0] if loss > 0 else ends[1] - loss
        return int(self.loss.delta.samples * (reach / loss) ** 2) + 1

    def to_dict(self) -> dict[str, Any]:
        return {
            "float": self.floats.to_dict(),
            "quantized": self.quantized.to_dict(),
            "runtime": None if self.runtime is None else self.runtime.to_dict(),
            "runtime_of": self.kernels_of,
            "loss": self.loss.to_dict(),
            "weights_off": self.weights_off.to_dict(),
            "activations_off": self.activations_off.to_dict(),
            "both_off": self.both_off.to_dict(),
            "kernels": None if self.kernels is None else self.kernels.to_dict(),
            "layers": [layer.to_dict() for layer in self.layers],
            "layers_in_all": self.layers_in_all,
            "samples_that_would_do": self.would_do,
        }


@dataclass(frozen=True, eq=False)
class Diagnosis(Origin):
    """The findings of a quantized model, what each of them costs, and what was tried.

    `findings` are ranked by what they cost. `together` is what all remedies that helped bring at
    once; None where fewer than two did, and where nothing was tried.
    """

    images: int
    sample_word: str
    calibration: str | None
    account: Account
    findings: tuple[Finding, ...]
    was_tried: bool
    together: Attempt | None
    notes: tuple[str, ...]
    provenance: Mapping[str, str]

    def to_dict(self) -> dict[str, Any]:
        return {
            "schema_version": SCHEMA_VERSION,
            "model": self.model,
            "digest": self.digest,
            "float_model": self.float_model,
            "float_digest": self.float_digest,
            "execution": self.execution,
            "data": self.data,
            "data_digest": self.data_digest,
            "images": self.images,
            "calibration": self.calibration,
            "account": self.account.to_dict(),
            "findings": [finding.to_dict() for finding in self.findings],
            "was_tried": self.was_tried,
            "together": None if self.together is None else self.together.to_dict(),
            "notes": list(self.notes),
            "provenance": dict(self.provenance),
        }
