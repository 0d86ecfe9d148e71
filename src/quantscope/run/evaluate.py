"""Evaluate a model: run it on samples, and count what its answers are worth."""

import numpy as np

from quantscope.data import Samples, SamplesSource, samples_for
from quantscope.errors import BadConfigError, BadModelError
from quantscope.model import Execution, Model, ModelSource, need_original, open_model
from quantscope.plain_text import many
from quantscope.progress import Progress, silent
from quantscope.run.classes import class_scores, find_classes, labels_of, tells_classes
from quantscope.run.deviations import deviations, divergences, match_floats
from quantscope.run.evaluation import AgainstFloat, Evaluation
from quantscope.run.evaluation_delta import EvaluationDelta, compare_evaluations
from quantscope.run.measure import (
    MEASURES,
    Measure,
    Outputs,
    Score,
    find_measure,
    pick_measure,
    score,
)
from quantscope.run.outputs import Answers, gather_outputs, sample_word
from quantscope.run.runnable import Runnable, Scores, open_runnable

__all__ = [
    "Evaluation",
    "EvaluationDelta",
    "MeasureSource",
    "classify",
    "compare_evaluations",
    "evaluate",
    "evaluate_float",
    "evaluate_outputs",
    "one_row_each",
]

MeasureSource = Measure | str
"""A measure, or what --measure names: top1, agreement, signal, noise, FILE.py:FUNCTION."""


def evaluate(
    model: ModelSource | Runnable,
    data: SamplesSource,
    *,
    measure: MeasureSource | None = None,
    float_model: ModelSource | None = None,
    floats: Evaluation | None = None,
    execution: Execution | None = None,
    batch: int | None = None,
    int8_kernels: bool | None = None,
    threads: int = 0,
    progress: Progress = silent,
) -> Evaluation:
    """Run a model on every sample of `data` and count its answers.

    `measure` None means what the samples allow: top-1 against labels, agreement with the float
    model where there are none, the signal-to-noise ratio of the outputs for what is no classifier.
    A measure that needs the float model takes `floats`, an evaluation of it on the same samples, or
    runs `float_model`; where neither is given the known original, or else the network with every
    quantizer off.

    `execution` None means runtime where the model has it. A `Runnable` is run as it was opened.
    Outputs that are large together lie in a temporary file, so memory stays bounded.
    """
    runnable = (
        model
        if isinstance(model, Runnable)
        else open_runnable(model, execution=execution, int8_kernels=int8_kernels, threads=threads)
    )
    data = samples_for(runnable.model, data)
    wanted = find_measure(measure) if isinstance(measure, str) else measure
    answers = gather_outputs(runnable, data, batch=batch, progress=progress)
    chosen = wanted or _pick(answers, data, runnable)
    no_score = ""
    if floats is None and (chosen.needs_floats or float_model is not None):
        try:
            floats = evaluate_float(
                runnable, data, float_model=float_model, threads=threads, progress=progress
            )
        except (BadConfigError, BadModelError) as error:
            # Unasked, what the model gives is still worth to be seen.
            if wanted is not None or float_model is not None:
                raise
            no_score = str(error)
    return evaluate_outputs(
        answers, data, runnable, measure=chosen, floats=floats, no_score=no_score
    )


def evaluate_float(
    runnable: Runnable,
    data: Samples,
    *,
    measure: MeasureSource | None = None,
    float_model: ModelSource | None = None,
    threads: int = 0,
    batch: int | None = None,
    int8_kernels: bool | None = None,
    progress: Progress = silent,
) -> Evaluation:
    """Run the float model that `runnable` is measured against: the given, the known, or a stand-in.

    It runs in the same execution where it has that. By a measure that compares with the float model
    it has no score of its own.
    """
    if runnable.model.is_float and float_model is None:
        raise BadConfigError(
            f"{runnable.name} is a float model, and nothing is known to compare it with: give "
            f"labels with --data FILE.npz, or quantize it: {runnable.model.quantize_command}"
        )
    original = _float_of(runnable.model, float_model)
    floats = open_runnable(
        original,
        execution=runnable.execution if runnable.execution in original.executions else None,
        int8_kernels=original.own_int8_kernels(int8_kernels),
        threads=threads,
    )
    answers = gather_outputs(
        floats,
        data,
        batch=batch,
        progress=lambda _, done, total: progress("Evaluating the float model", done, total),
    )
    own = "it is the float model itself"
    return evaluate_outputs(answers, data, floats, measure=measure, no_score=own)


def evaluate_outputs(
    outputs: Outputs | Answers,
    data: Samples,
    runnable: Runnable,
    *,
    measure: MeasureSource | None = None,
    floats: Evaluation | None = None,
    name: str = "",
    digest: str = "",
    no_score: str = "",
) -> Evaluation:
    """Judge outputs of `runnable`, or of a model made from it with a name and digest of its own.

    `outputs` have a row for each sample. `floats` is the float model's evaluation on the same
    samples; without it a measure that needs it gives no score, for which `no_score` may say why.
    """
    answers = outputs if isinstance(outputs, Answers) else Answers(outputs)
    model = name or runnable.name
    probabilities = runnable.gives_probabilities
    asked = find_measure(measure) if isinstance(measure, str) else measure
    chosen = asked or _pick(answers, data, runnable)
    judged = chosen == MEASURES["top1"] or _may_tell_classes(answers, data, runnable)
    classes = (
        find_classes(answers.outputs, data, model=model, probabilities=probabilities)
        if judged
        else None
    )
    theirs: Outputs | None = None
    if floats is not None:
        theirs = match_floats(
            answers.outputs, floats.outputs, model=model, float_model=floats.model
        )
    found: Score | None = None
    if chosen.needs_floats and theirs is None:
        no_score = no_score or f"{chosen.name} needs the float model; give it with --float FILE"
    else:
        found = score(chosen, answers.outputs, data, theirs)
        no_score = ""
    return Evaluation(
        model=model,
        digest=digest or runnable.digest,
        execution=runnable.execution,
        data=data.name,
        data_digest=data.digest,
        indices=data.indices,
        outputs=answers.outputs,
        scored=found,
        classes=classes,
        provenance=runnable.provenance,
        no_score=no_score,
        left_out=answers.left_out,
        against_float=None
        if floats is None or theirs is None
        else _against(answers.outputs, theirs, floats, data, probabilities=probabilities),
        is_stand_in=runnable.model.is_stand_in,
        is_random=data.is_random,
        sample_word=sample_word(data),
    )


def _pick(answers: Answers, data: Samples, runnable: Runnable) -> Measure:
    return pick_measure(answers.outputs, data, probabilities=runnable.gives_probabilities)


def _may_tell_classes(answers: Answers, data: Samples, runnable: Runnable) -> bool:
    """Say whether classes can be shown beside another measure: labels, if any, are of them."""
    scores, labels = class_scores(answers.outputs), labels_of(data)
    if scores is not None and labels is not None:
        return bool(labels.min() >= 0 and labels.max() < scores.shape[1])
    return tells_classes(answers.outputs, data, probabilities=runnable.gives_probabilities)


def _float_of(model: Model, given: ModelSource | None) -> Model:
    """Open the float model to be measured against; where none is given or known, a stand-in."""
    if given is None:
        return need_original(model)
    original = open_model(given)
    model.check_original(original)
    return original


def _against(
    outputs: Outputs,
    floats: Outputs,
    evaluated: Evaluation,
    data: Samples,
    *,
    probabilities: bool,
) -> AgainstFloat:
    """Compare with the float model's outputs, which go by the same names."""
    kl: float | None = None
    mine, theirs = class_scores(outputs), class_scores(floats)
    if tells_classes(outputs, data, probabilities=probabilities) and not (
        mine is None or theirs is None
    ):
        kl = float(divergences(theirs, mine, probabilities=probabilities).mean())
    return AgainstFloat(
        model=evaluated.model,
        digest=evaluated.digest,
        is_stand_in=evaluated.is_stand_in,
        kl_nats=kl if kl is not None and np.isfinite(kl) else None,
        outputs=deviations(outputs, floats, data.indices),
    )


def classify(
    runnable: Runnable, data: Samples, *, batch: int | None = None, progress: Progress = silent
) -> Scores:
    """Give one row of scores for each sample."""
    intake = runnable.intake
    intake.check_batch(batch)
    size = batch or intake.default_batch()
    ends = ((start, min(start + size, len(data))) for start in range(0, len(data), size))
    parts: list[Scores] = []
    done = 0
    for feeds, rows, count in intake.pieces(data, ends):
        parts.append(one_row_each(runnable.scores(feeds), rows, runnable.name)[:count])
        done += count
        progress("Evaluating", done, len(data))
    return np.concatenate(parts)


def one_row_each(scores: Scores, rows: int, model: str) -> Scores:
    """Take an output as scores [rows, classes], or refuse it: the model is no classifier."""
    if scores.ndim > 2 and scores[0].size == scores.shape[1]:  # [N,10,1,1], left by a pooling
        scores = scores.reshape(len(scores), -1)
    if scores.ndim != 2 or len(scores) != rows:
        raise BadModelError(
            f"{model} is not a classifier: for {many(rows, 'image')} its output "
            f"has shape {list(scores.shape)}, expected [{rows}, classes]"
        )
    return scores
