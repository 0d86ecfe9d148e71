"""Draw what the bits of each layer alone buy: small multiples, a curve a tensor."""

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from quantscope.plain_text import many
from quantscope.report.figures.style import (
    QUANTIZED,
    SMALL,
    WEIGHTS,
    ThemeName,
    dress,
    new_figure,
    note,
    nothing_to_show,
    plain,
    theme_of,
)
from quantscope.study.bits import BitCurve, BitCurves

_TITLE = "The bits of each layer alone"
_ACROSS = 5
_STYLES = {"weights": (WEIGHTS, "o"), "activations": (QUANTIZED, "s")}


def bit_curves_figure(result: BitCurves, *, theme: ThemeName = "light") -> Figure:
    """Draw the score against the bits, in a panel for each layer, on one scale for all."""
    layers = list(dict.fromkeys(curve.layer for curve in result.curves))
    if not layers:
        return nothing_to_show(_TITLE, "No tensor's bits can be set.", theme=theme)
    down = -(-len(layers) // _ACROSS)
    across = min(_ACROSS, len(layers))
    figure = new_figure(1.2 + 1.45 * down, theme=theme)
    panels = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False)
    factor = 100 if result.unit == "share" else 1
    for place, axes in enumerate(panels.flat):
        if place >= len(layers):
            axes.set_axis_off()
            continue
        dress(axes, title="", grid="y")
        axes.set_title(
            plain(layers[place], 22), loc="left", fontsize=SMALL, color=theme_of(axes).ink
        )
        axes.axhline(factor * result.base, color=theme_of(axes).faint, linewidth=0.8, zorder=1)
        for curve in result.curves:
            if curve.layer == layers[place]:
                _draw(axes, curve, factor)
    handles: dict[str, Artist] = {}
    for axes in panels.flat:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    unit = "%" if result.unit == "share" else result.unit
    figure.supylabel(
        f"{result.measure}{f' ({unit})' if unit else ''}", fontsize=SMALL, color=figure.theme.ink
    )
    figure.suptitle(
        _TITLE, x=0.01, ha="left", fontsize=11, fontweight="bold", color=figure.theme.ink
    )
    figure.legend(
        handles.values(),
        handles.keys(),
        loc="outside upper right",
        ncols=2,
        frameon=False,
        fontsize=SMALL,
        labelcolor=figure.theme.ink,
    )
    note(
        figure,
        f"{plain(result.model, 50)}, {result.execution} execution, "
        f"{many(result.samples, result.sample_word)} of {plain(result.data, 40)}. Across: bits of "
        f"the tensor; all others as they are. The line is the network as it is.",
    )
    return figure


def _draw(axes: Axes, curve: BitCurve, factor: int) -> None:
    colour, marker = _STYLES[curve.role]
    bits = [point.bits for point in curve.points]
    scores = [factor * point.score for point in curve.points]
    axes.plot(
        bits,
        scores,
        color=colour,
        marker=marker,
        markersize=3,
        linewidth=1.2,
        label=curve.role,
        zorder=3,
    )
    axes.set_xticks(bits)
