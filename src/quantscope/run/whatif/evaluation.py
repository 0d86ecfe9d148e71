"""Scores that were found piece by piece, as an evaluation; and which images to look at first."""

from collections.abc import Mapping

import numpy as np

from quantscope.data import ImageSet
from quantscope.errors import BadConfigError, BadDataError
from quantscope.run.evaluate import NO_CLASS, Evaluation, _cross_entropy
from quantscope.run.onnx.sessions import Execution
from quantscope.run.onnx.suffix.runner import Scores


def evaluation_of(
    scores: Scores,
    data: ImageSet,
    *,
    model: str,
    digest: str,
    execution: Execution,
    gives_probabilities: bool,
    provenance: Mapping[str, str],
) -> Evaluation:
    """What `evaluate` makes of these scores."""
    classes = scores.shape[1]
    if data.labels.max() >= classes or data.labels.min() < 0:
        raise BadDataError(
            f"{data.name} has labels {data.labels.min()}..{data.labels.max()}, but "
            f"{model} tells {classes} classes apart (0..{classes - 1})"
        )
    with_nan = np.isnan(scores).any(axis=1)
    names = data.class_names if len(data.class_names) == classes else ()
    return Evaluation(
        model=model,
        digest=digest,
        execution=execution,
        data=data.name,
        data_digest=data.digest,
        labels=data.labels,
        predictions=np.where(with_nan, NO_CLASS, scores.argmax(axis=1)),
        indices=data.indices,
        scores=scores,
        loss=_cross_entropy(scores, data.labels, probabilities=gives_probabilities),
        class_names=names or tuple(str(i) for i in range(classes)),
        provenance=provenance,
    )


def stratified(data: ImageSet, count: int) -> ImageSet:
    """`count` images with the classes in the set's own proportions; the same ones every time."""
    if count < 1:
        raise BadConfigError(f"A quick answer needs at least one image, not {count}")
    if count >= len(data):
        return data
    share = np.empty(len(data))
    for label in np.unique(data.labels):
        rows = np.flatnonzero(data.labels == label)
        share[rows] = (np.arange(len(rows)) + 0.5) / len(rows)
    chosen = np.argsort(share, kind="stable")[:count]
    return data.select(np.sort(chosen))
