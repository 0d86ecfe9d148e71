"""Find who is harmed: by variants that were evaluated, or by the configurations of a study."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from quantscope.errors import BadDataError
from quantscope.files import write_whole
from quantscope.model import Execution
from quantscope.run import Evaluation, Score
from quantscope.study.harm.answers import Answers, Floats
from quantscope.study.harm.results import Harm
from quantscope.study.results import Measured, StudyResult, StudyScore


def find_harm(floats: Evaluation, variants: Mapping[str, Evaluation]) -> Harm:
    """Compare every variant with the float model, sample by sample; all on the same samples."""
    if not variants:
        raise BadDataError("Nobody is harmed by nothing: give at least one variant")
    for name, found in variants.items():
        if found.data_digest != floats.data_digest:
            raise BadDataError(
                f"{name} was measured on {found.data}, the float model on {floats.data}; measure "
                f"both on the same samples"
            )
    first = next(iter(variants.values()))
    told = floats.classes is not None and all(v.classes is not None for v in variants.values())
    classes = floats.classes if told else None
    losses = None
    if not told:
        base = floats.scored
        losses = np.array(
            [
                _loss(v.score.per_sample, None if base is None else base.per_sample, v.score)
                for v in variants.values()
            ]
        )
    answers = Answers(
        variants=tuple(variants),
        indices=floats.indices,
        names=() if classes is None else classes.names,
        labels=None if classes is None else classes.targets,
        margins=None if classes is None else classes.margins,
        floats=None if classes is None else np.array([classes.predictions] * len(variants)),
        answers=np.array([v.predictions for v in variants.values()]) if told else None,
        losses=losses,
    )
    return answers.harm(
        model=floats.model,
        digest=floats.digest,
        execution=first.execution,
        data=floats.data,
        data_digest=floats.data_digest,
        sample_word=floats.sample_word,
        measure=first.score.measure,
        unit=first.score.unit,
        higher_is_better=first.score.higher_is_better,
        has_float_score=floats.scored is not None,
        provenance=floats.provenance,
    )


def harm_of_study(result: StudyResult, execution: Execution = "reference") -> Harm | None:
    """Find who is harmed over all configurations of a study; None where none was measured.

    Each configuration is compared with the float model of its own framework. Studies from before
    margins were kept have none.
    """
    rows = [row for row in result.measured if execution in row.executions()]
    base = result.baseline.executions().get(execution)
    if not rows or base is None:
        return None
    found = [row.executions()[execution] for row in rows]
    own = [result.baseline_of(row).executions().get(execution) or base for row in rows]
    told = all(each.predictions for each in (*found, *own))
    losses = None
    if not told:
        if not all(each.per_sample for each in found):
            return None
        losses = np.array(
            [
                _loss(_numbers(one.per_sample), _numbers(f.per_sample), one.score)
                for one, f in zip(found, own, strict=True)
            ]
        )
    kept = result.baseline.facts.get("by_sample") or {}
    margins, labels = kept.get("margins"), kept.get("labels")
    facts = result.baseline.facts["provenance"]
    answers = Answers(
        variants=tuple(row.label for row in rows),
        indices=np.asarray(kept.get("indices") or range(base.images), np.int64),
        names=tuple(kept.get("class_names") or _class_names(base)),
        labels=np.asarray(labels, np.int64) if told and labels else None,
        margins=_numbers(margins) if told and margins else None,
        floats=np.array([each.predictions for each in own]) if told else None,
        answers=np.array([each.predictions for each in found]) if told else None,
        losses=losses,
    )
    return answers.harm(
        model=facts["float_model"]["name"],
        digest=facts["float_model"].get("digest", ""),
        execution=execution,
        data=facts["data"].get("name", ""),
        data_digest=facts["data"].get("digest", ""),
        sample_word=base.sample_word,
        measure=result.score.measure,
        unit=result.score.unit,
        higher_is_better=result.score.higher_is_better,
        has_float_score=result.has_float_score,
        provenance=facts,
    )


def write_harm(harms: Mapping[Execution, Harm], folder: Path) -> None:
    """Write `harm.json`, by the execution."""
    values = {execution: harm.to_dict() for execution, harm in harms.items()}
    text = json.dumps(values, indent=1, allow_nan=False, ensure_ascii=False)
    write_whole(folder / "harm.json", text.encode())


def _loss(found: Floats, floats: Floats | None, score: Score | StudyScore) -> Floats:
    """Give what each sample loses; without a score of the float model, its own, turned around."""
    sign = 1.0 if score.higher_is_better else -1.0
    if floats is None or len(floats) != len(found):
        return -sign * found
    return sign * (floats - found)


def _numbers(values: Sequence[float | None]) -> Floats:
    return np.array([np.nan if value is None else value for value in values], np.float64)


def _class_names(base: Measured) -> tuple[str, ...]:
    return () if base.counted is None else base.counted.classes
