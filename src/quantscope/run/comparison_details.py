"""Gather what a report shows beside a comparison, by running its models once more."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from quantscope.data import Samples
from quantscope.edit import open_subject
from quantscope.errors import BadDataError
from quantscope.model import Model, ModelSource, Network, Pairing, need_original, open_model
from quantscope.progress import Progress, silent
from quantscope.run.compare import Comparison, SideBySide, find_originals, flag_tensors
from quantscope.run.evaluate import EvaluationDelta, compare_evaluations, evaluate
from quantscope.run.histograms import Histograms, histograms

_MOST_HISTOGRAMS = 4


@dataclass(frozen=True)
class ComparisonDetails:
    """A comparison with the networks behind it, for a report that computes nothing itself.

    `network` is the quantized one and `pairing` leads to its float weights. `accuracy` is its
    evaluation minus the float model's; None where there are no classes to count. `histograms` are
    of the few tensors that stand out. The last three are of the second model of a comparison of
    two, whose first is `comparison`.
    """

    comparison: Comparison
    network: Network
    pairing: Pairing
    accuracy: EvaluationDelta | None
    histograms: Histograms
    versions: SideBySide | None = None
    other_network: Network | None = None
    other_accuracy: EvaluationDelta | None = None


def gather_details(
    comparison: Comparison,
    model: ModelSource,
    images: Samples,
    *,
    float_model: ModelSource | None = None,
    versions: SideBySide | None = None,
    other_model: ModelSource | None = None,
    other_float_model: ModelSource | None = None,
    int8_kernels: bool | None = None,
    progress: Progress = silent,
) -> ComparisonDetails:
    """Find out more about a comparison of `model` on `images`.

    `versions` and models are as of `compare_with`. This evaluates the models and their float ones,
    and counts the values of the tensors that stand out.
    """
    models = [open_model(source) for source in (model, other_model) if source is not None]
    given = find_originals(models, (float_model, other_float_model))
    originals = [known or need_original(each) for each, known in zip(models, given, strict=True)]

    def settings(of: Model) -> dict[str, Any]:
        return {
            "execution": comparison.execution,
            "int8_kernels": of.own_int8_kernels(int8_kernels),
            "progress": progress,
        }

    first, original = models[0], originals[0]
    names = worth_a_histogram(comparison)
    values = histograms(first, images, names, float_model=original, **settings(first))
    accuracies = [
        None if comparison.output is None else _accuracy(each, floats_of, images, settings(each))
        for each, floats_of in zip(models, originals, strict=True)
    ]
    return ComparisonDetails(
        comparison=comparison,
        network=first.network,
        pairing=open_subject(first).pair(original),
        accuracy=accuracies[0],
        histograms=values,
        versions=versions,
        other_network=models[1].network if versions is not None else None,
        other_accuracy=accuracies[1] if versions is not None else None,
    )


def _accuracy(
    model: Model, original: Model, images: Samples, settings: dict[str, Any]
) -> EvaluationDelta | None:
    """Evaluate both models; None where the labels are not classes of this model."""
    try:
        first = evaluate(model, images, **settings)
        return compare_evaluations(
            first, evaluate(original, images, **{**settings, "execution": "reference"})
        )
    except BadDataError:
        return None


def worth_a_histogram(comparison: Comparison) -> Sequence[str]:
    """Choose tensors that stand out, else the activation with the lowest SQNR; never biases."""
    marked = flag_tensors(comparison)
    chosen = [t.name for t in comparison.tensors if t.name in marked and t.role != "bias"]
    known = [t for t in comparison.activations if t.sqnr_db is not None]
    lowest = sorted(known, key=lambda tensor: tensor.sqnr_db or 0.0)
    return (chosen or [tensor.name for tensor in lowest[:1]])[:_MOST_HISTOGRAMS]
