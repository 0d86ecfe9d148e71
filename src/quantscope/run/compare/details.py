"""What there is to know of a comparison beside itself, by running its models once more."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quantscope.data import ImageSet
from quantscope.edit.torch.floats import paired_with
from quantscope.errors import BadDataError
from quantscope.model import Network, Pairing, pair, read_network
from quantscope.progress import Progress, silent
from quantscope.run.classifier import TORCH_SUFFIXES
from quantscope.run.compare.reading import flagged
from quantscope.run.compare.results import Comparison
from quantscope.run.compare.side_by_side import SideBySide, float_models
from quantscope.run.evaluate import PairedDelta, evaluate, paired
from quantscope.run.histograms.histograms import histograms
from quantscope.run.histograms.results import Histograms
from quantscope.zoo import find_model

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
    accuracy: PairedDelta | None
    histograms: Histograms
    versions: SideBySide | None = None
    other_network: Network | None = None
    other_accuracy: PairedDelta | None = None


def gather_details(
    comparison: Comparison,
    model: str | Path,
    images: ImageSet,
    *,
    float_model: str | Path | None = None,
    versions: SideBySide | None = None,
    other_model: str | Path | None = None,
    other_float_model: str | Path | None = None,
    int8_kernels: bool | None = None,
    progress: Progress = silent,
) -> ComparisonDetails:
    """Find out more about a comparison of `model` on `images`.

    `versions` and models are as of `compare_with`. This evaluates the models and their float ones,
    and counts the values of the tensors that stand out.
    """
    networks = [read_network(find_model(name)) for name in (model, other_model) if name is not None]
    given = float_models(networks, (float_model, other_float_model))
    originals = [_original(*each) for each in zip(networks, given, strict=True)]

    def settings(network: Network) -> dict[str, Any]:
        return {
            "execution": comparison.execution,
            "int8_kernels": None if _is_torch(network) else int8_kernels,
            "progress": progress,
        }

    network, original = networks[0], originals[0]
    floats = None if _is_torch(network) else read_network(original)
    names = worth_a_histogram(comparison)
    values = histograms(network.path, images, names, float_model=original, **settings(network))
    accuracies = [
        None
        if comparison.output is None
        else _accuracy(each.path, floats_of, images, settings(each))
        for each, floats_of in zip(networks, originals, strict=True)
    ]
    return ComparisonDetails(
        comparison=comparison,
        network=network,
        pairing=paired_with(network, original) if floats is None else pair(floats, network),
        accuracy=accuracies[0],
        histograms=values,
        versions=versions,
        other_network=networks[1] if versions is not None else None,
        other_accuracy=accuracies[1] if versions is not None else None,
    )


def _is_torch(network: Network) -> bool:
    return network.path.suffix in TORCH_SUFFIXES


def _original(network: Network, given: Path | None) -> Path:
    if given is not None:
        return given
    from quantscope.run.torch.compare import float_program_of

    return float_program_of(network, None)


def _accuracy(
    path: Path, original: Path, images: ImageSet, settings: dict[str, Any]
) -> PairedDelta | None:
    """None where the labels are not classes of this model."""
    try:
        first = evaluate(path, images, **settings)
        return paired(first, evaluate(original, images, **{**settings, "execution": "reference"}))
    except BadDataError:
        return None


def worth_a_histogram(comparison: Comparison) -> Sequence[str]:
    """Tensors that stand out, else the activation with the lowest SQNR; biases have none."""
    marked = flagged(comparison)
    chosen = [t.name for t in comparison.tensors if t.name in marked and t.role != "bias"]
    known = [t for t in comparison.activations if t.sqnr_db is not None]
    lowest = sorted(known, key=lambda tensor: tensor.sqnr_db or 0.0)
    return (chosen or [tensor.name for tensor in lowest[:1]])[:_MOST_HISTOGRAMS]
