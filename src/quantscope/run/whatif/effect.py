"""The effect of edits on scores and accuracy, as a value with what it is measured against."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from quantscope.edit import Applied, describe, edit_to_dict
from quantscope.errors import BadDataError
from quantscope.model import QuantParams
from quantscope.progress import Progress, silent
from quantscope.run.evaluation import Evaluation
from quantscope.run.evaluation_delta import EvaluationDelta
from quantscope.run.kernels import KernelChange

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Prediction:
    """One image: classes as numbers, -1 where a score is NaN; `scores` are the edited model's.

    `label` is None where there are no labels.
    """

    index: int
    label: int | None
    edited_class: int
    base_class: int
    float_class: int | None
    scores: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Effect:
    """The first answer to a list of edits.

    `against_base` is the edited model minus the unedited one, on the same samples. `unchanged`:
    every output of every sample is what it was.
    """

    evaluation: Evaluation
    against_base: EvaluationDelta
    applied: Applied
    unchanged: bool
    against_float_of: Callable[[Progress], EvaluationDelta | None] = field(repr=False)
    kernels_changed: tuple[KernelChange, ...] | None = None
    """Layers that are executed otherwise than in the unedited model, in runtime execution.

    None where that was not asked for.
    """

    @property
    def against_float(self) -> EvaluationDelta | None:
        """The edited model minus the float one; see `find_against_float`."""
        return self.find_against_float()

    def find_against_float(self, progress: Progress = silent) -> EvaluationDelta | None:
        """Give the edited model minus the float one, which is run when first asked for.

        None where no float model is known, and where the score itself compares with it.
        """
        return self.against_float_of(progress)

    def predictions(self, indices: Sequence[int]) -> tuple[Prediction, ...]:
        """Give the predictions for chosen images, by their index in the full set."""
        evaluation, base = self.evaluation, self.against_base.second
        floats = self.against_float.second if self.against_float else None
        classes = evaluation.classes
        labels = None if classes is None else classes.targets
        row_of = {int(index): row for row, index in enumerate(evaluation.indices)}
        missing = [index for index in indices if index not in row_of]
        if missing:
            raise BadDataError(
                f"Image {missing[0]} is not among the {evaluation.images:,} images that were asked "
                f"about; ask for the full answer, or for one of: "
                f"{', '.join(map(str, list(row_of)[:5]))}"
            )
        return tuple(
            Prediction(
                index=index,
                label=None if labels is None else int(labels[row]),
                edited_class=int(evaluation.predictions[row]),
                base_class=int(base.predictions[row]),
                float_class=None if floats is None else int(floats.predictions[row]),
                scores=tuple(map(float, evaluation.scores[row])),
            )
            for index, row in ((index, row_of[index]) for index in indices)
        )

    def to_dict(self) -> dict[str, Any]:
        """Give plain values for JSON; scores are left out."""
        applied = self.applied
        return {
            "schema_version": SCHEMA_VERSION,
            "base_digest": applied.base_digest,
            "lifted": applied.lifted,
            "edits": [{**edit_to_dict(edit), "in_words": describe(edit)} for edit in applied.edits],
            "changes": [
                {
                    **asdict(change),
                    "before": _params(change.before),
                    "after": _params(change.after),
                }
                for change in applied.changes
            ],
            "warnings": [asdict(warning) for warning in applied.warnings],
            "notes": list(applied.notes),
            "evaluation": self.evaluation.to_dict(),
            "against_base": _delta(self.against_base),
            "against_float": None if self.against_float is None else _delta(self.against_float),
            "kernels_changed": [change._asdict() for change in self.kernels_changed or ()],
            "unchanged": self.unchanged,
        }


def _delta(delta: EvaluationDelta) -> dict[str, Any]:
    return {
        **delta.to_dict(),
        "per_class": [asdict(change) for change in delta.per_class],
        "confusion_change": delta.confusion_change.tolist() if delta.tells_classes else None,
    }


def _params(params: QuantParams | None) -> dict[str, Any] | None:
    if params is None:
        return None
    return {
        "scale": np.asarray(params.scale).tolist(),
        "zero_point": np.asarray(params.zero_point).tolist(),
        "dtype": str(params.dtype),
        "axis": params.axis,
    }
