"""Several cures, one after the other, and what each brings on samples that none has seen."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from quantscope.cure.best_range import choose_ranges
from quantscope.cure.bias_correction import correct_biases
from quantscope.cure.equalization import equalize
from quantscope.cure.leave_float import leave_float
from quantscope.cure.readings import Readings
from quantscope.cure.results import Cure, DoesNotApplyError
from quantscope.cure.rounding import choose_rounding
from quantscope.data import Samples, SamplesSource, samples_for, shared_rows
from quantscope.edit import Applied, Edit, Editor, describe, edit_to_dict, open_editor
from quantscope.errors import BadConfigError, BadDataError
from quantscope.model import Execution, ModelSource
from quantscope.plain_text import many
from quantscope.progress import Progress, silent
from quantscope.run import (
    Evaluation,
    EvaluationDelta,
    MeasureSource,
    WhatIf,
    compare_evaluations,
    sample_word,
)


class CureFunction(Protocol):
    """A cure with its options chosen."""

    def __call__(
        self,
        model: Readings,
        samples: Samples,
        *,
        edits: Sequence[Edit] = (),
        progress: Progress = silent,
    ) -> Cure: ...


CURES: Mapping[str, CureFunction] = {
    "leave float": leave_float,
    "equalization": equalize,
    "best range": choose_ranges,
    "rounding": choose_rounding,
    "bias correction": correct_biases,
}
"""The cures in the order in which a course takes them: each one's ground is laid by those before.

Weights are rescaled before ranges are chosen for them, a range before the integers that count in
it, and the means come last, for all else moves them.
"""


@dataclass(frozen=True, eq=False)
class Step:
    """One cure of a course, and the score with all edits up to it.

    `added` is this score minus the one before the cure, `in_all` minus the unedited model's, sample
    by sample.
    """

    cure: Cure
    evaluation: Evaluation
    added: EvaluationDelta
    in_all: EvaluationDelta


@dataclass(frozen=True, eq=False)
class Course:
    """Cures that were taken one after the other; `applied` is the model with all their edits.

    `not_applied` are those that had nothing to do, by their kind, with the reason. `base` is the
    unedited model's evaluation and `floats` the float original's, of the same samples.
    """

    applied: Applied = field(repr=False)
    base: Evaluation
    floats: EvaluationDelta | None
    steps: tuple[Step, ...]
    not_applied: Mapping[str, str]

    @property
    def edits(self) -> tuple[Edit, ...]:
        return self.applied.edits

    @property
    def loss(self) -> float | None:
        """How much the float original's score is better than the unedited model's."""
        if self.floats is None or self.floats.delta is None:
            return None
        # `floats` is the edited model minus the float one.
        first, second = self.base.score, self.floats.second.score
        if first.value is None or second.value is None:
            return None
        return _better(first.higher_is_better, float(second.value) - float(first.value))

    def recovered(self, step: Step) -> float | None:
        """Give the share of the loss that came back by then; None where nothing was lost."""
        loss = self.loss
        if loss is None or loss <= 0:
            return None
        score = step.evaluation.score
        gained = _better(score.higher_is_better, float(score.value) - float(self.base.score.value))
        return gained / loss

    def to_dict(self) -> dict[str, Any]:
        return {
            "base": self.base.to_dict(),
            "float": None if self.floats is None else self.floats.second.to_dict(),
            "steps": [
                {
                    "cure": step.cure.to_dict(),
                    "evaluation": step.evaluation.to_dict(),
                    "added": step.added.to_dict(),
                    "in_all": step.in_all.to_dict(),
                    "recovered": self.recovered(step),
                }
                for step in self.steps
            ],
            "not_applied": dict(self.not_applied),
            "edits": [{**edit_to_dict(edit), "in_words": describe(edit)} for edit in self.edits],
        }


def take_course(
    model: ModelSource | Editor,
    cures: Mapping[str, CureFunction],
    calibration: SamplesSource,
    samples: SamplesSource,
    *,
    edits: Sequence[Edit] = (),
    float_model: ModelSource | None = None,
    measure: MeasureSource | None = None,
    execution: Execution = "reference",
    allow_same_samples: bool = False,
    progress: Progress = silent,
) -> Course:
    """Take cures in their order, each on what those before it made, and measure after each.

    `calibration` are the samples that cures look at, `samples` those that scores are of; the same
    ones are refused, unless `allow_same_samples`. `edits` are in force before the first cure. One
    that does not apply is left out with its reason; if none does, that is raised.
    """
    if not cures:
        raise BadConfigError("No cure is named; give at least one")
    editor = open_editor(model, float_model)
    looked_at = samples_for(editor.model, calibration)
    judged_by = samples_for(editor.model, samples)
    if not allow_same_samples:
        check_apart(looked_at, judged_by)
    readings = Readings(editor, looked_at)
    what_if = WhatIf(editor, judged_by, measure=measure, execution=execution, quick=len(judged_by))
    applied = editor.apply(edits)
    effect = what_if.effect_of(applied, full=True, progress=progress)
    base = effect.against_base.second
    steps: list[Step] = []
    refused: dict[str, str] = {}
    for kind, cure in cures.items():
        try:
            found = cure(readings, looked_at, edits=applied.edits, progress=progress)
        except DoesNotApplyError as error:
            refused[kind] = str(error)
            continue
        applied = editor.apply([*applied.edits, *found.edits])
        before = effect.evaluation
        effect = what_if.effect_of(applied, full=True, progress=progress)
        added = compare_evaluations(effect.evaluation, before)
        steps.append(Step(found, effect.evaluation, added, effect.against_base))
    if not steps:
        raise DoesNotApplyError("; ".join(refused.values()))
    return Course(applied, base, effect.find_against_float(progress), tuple(steps), refused)


def check_apart(calibration: Samples, samples: Samples) -> None:
    """Refuse to judge cures by the samples that they were made to fit."""
    if shared := shared_rows(calibration, samples):
        word = sample_word(calibration)
        raise BadDataError(
            f"{shared:,} of the {many(len(calibration), word)} of {calibration.name} are among "
            f"those that scores are of ({samples.name}): a cure fits the samples it was made from; "
            f"give others, or allow it with --allow-same-data"
        )


def _better(higher_is_better: bool, difference: float) -> float:
    return difference if higher_is_better else -difference
