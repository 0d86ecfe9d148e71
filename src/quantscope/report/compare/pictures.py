"""Draw the figures of a comparison's page: each in both themes, and told in words too."""

from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from matplotlib.figure import Figure

from quantscope.model import Network, Pairing, residuals
from quantscope.report.figures import (
    ThemeName,
    activation_histogram,
    channel_error,
    confusion_difference,
    error_sources,
    per_class_change,
    residual_branches,
    scales_along,
    sqnr_along,
    svg_bytes,
    weight_histograms,
    weight_ranges,
)
from quantscope.report.html import text_html
from quantscope.run import EvaluationDelta
from quantscope.run.compare import Comparison, SideBySide, TensorComparison
from quantscope.run.histograms import Histogram


class Picture(NamedTuple):
    """A figure for each theme, and a sentence on what it shows for who cannot see it.

    A fact that a reader must know stands in the figure itself.
    """

    draw: Callable[[ThemeName], Figure]
    in_words: str


def figures_html(pictures: Iterable[Picture]) -> str:
    """Draw the pictures for a reader whose system is light and for one whose system is dark."""
    return '<div class="figures">' + "".join(map(_figure, pictures)) + "</div>"


def _figure(picture: Picture) -> str:
    light = picture.draw("light")
    # A CSS pixel is a 96th of an inch.
    width, height = (round(96 * inches) for inches in light.get_size_inches())
    sources = {"light": svg_bytes(light), "dark": svg_bytes(picture.draw("dark"))}
    data = {
        name: f"data:image/svg+xml;base64,{b64encode(svg).decode()}"
        for name, svg in sources.items()
    }
    return (
        f'<figure><picture><source media="(prefers-color-scheme: dark)" srcset="{data["dark"]}">'
        f'<img alt="{text_html(picture.in_words)}" width="{width}" height="{height}" '
        f'style="max-width: {round(1.35 * width)}px" src="{data["light"]}"></picture></figure>'
    )


def pictures_along(
    comparison: Comparison,
    network: Network | None,
    pairing: Pairing | None,
    other: Comparison | None,
    versions: SideBySide | None,
) -> Iterator[Picture]:
    """Draw what happens from the first layer to the last, the second model's beside the first's."""
    names = (comparison.model, other.model) if other is not None else None
    known = None if versions is None else {a.name: b for a, b in matched_tensors(versions)}
    yield Picture(
        lambda theme: sqnr_along(comparison, other, labels=names, counterparts=known, theme=theme),
        "How much of the signal is left at each activation, and what its own quantizer would leave "
        "if nothing before it were quantized.",
    )
    for each in (comparison,) if other is None else (comparison, other):
        yield Picture(
            # The default binds `each` now: the picture is drawn after the loop has gone on.
            lambda theme, each=each: error_sources(each, per_input=True, theme=theme),  # type: ignore[misc]
            f"{each.model}: each activation's error taken apart. Grey was there before, colours "
            f"are born in the layer.",
        )
    if network is not None:
        joins = residuals(network)
        if joins:
            yield Picture(
                lambda theme: residual_branches(joins, comparison, theme=theme),
                "Where branches meet: whose step is finer than the sum's loses bits; the error of "
                "the sum by the branch through which it came.",
            )
        yield Picture(
            lambda theme: scales_along(network, theme=theme),
            "The value of one step at every activation, and over the channels of every weight.",
        )
        yield Picture(
            lambda theme: weight_ranges(network, pairing, theme=theme),
            "The range of every layer's weights.",
        )


def pictures_of_classes(accuracy: EvaluationDelta) -> Iterator[Picture]:
    """Draw what quantization does to each class."""
    yield Picture(
        lambda theme: per_class_change(accuracy, theme=theme),
        "Images of each class that only the quantized, and only the float model gets right.",
    )
    yield Picture(
        lambda theme: confusion_difference(accuracy, theme=theme),
        "The quantized model's confusion minus the float model's.",
    )


def channel_picture(tensor: TensorComparison, network: Network | None) -> Picture:
    """Draw the error of each channel, on the quantizer's scales where the network is given."""
    params = network.tensor(tensor.name).params if network is not None else None
    return Picture(
        lambda theme: channel_error(tensor, params=params, theme=theme),
        f"The channels of {tensor.name}.",
    )


def histogram_picture(histogram: Histogram) -> Picture:
    """Draw how the values of a weight or an activation are spread."""
    if histogram.role == "weight":
        return Picture(
            lambda theme: weight_histograms(histogram, theme=theme),
            f"{histogram.name} as float, int8 and uint8, in the same bins.",
        )
    return Picture(
        lambda theme: activation_histogram(histogram, log=True, theme=theme),
        f"The values of {histogram.name} in both networks, in the same bins, what the quantizer "
        f"can represent and what it clips.",
    )


def matched_tensors(versions: SideBySide) -> list[tuple[TensorComparison, TensorComparison]]:
    """Pair the tensors of both versions that stand for one another, where both were compared."""
    both = [(row.first.error, row.second.error) for row in versions.rows]
    return [(a, b) for a, b in both if a is not None and b is not None]
