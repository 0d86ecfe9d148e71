"""Draw what each bit buys: scores by the bits of weights and activations."""

import numpy as np
from matplotlib.figure import Figure

from quantscope.plain_text import many
from quantscope.report.bits_text import width_text
from quantscope.report.figures.style import (
    SMALL,
    ThemeName,
    dress,
    ink_over,
    new_figure,
    note,
    nothing_to_show,
    plain,
    theme_of,
)
from quantscope.report.wording import format_rounded
from quantscope.study.bits import BitMap

_TITLE = "What the bits buy"


def bit_heatmap(result: BitMap, *, theme: ThemeName = "light") -> Figure:
    """Draw the score of every pair of widths, shaded from the worst to the best.

    Where the paired interval against the float network holds 0, the number is in bold: nothing
    says that those bits cost anything.
    """
    known = [cell.score for cell in result.cells if cell.score is not None]
    if not known:
        return nothing_to_show(_TITLE, "No pair of widths has a score.", theme=theme)
    is_share = result.unit == "share"
    factor = 100 if is_share else 1
    figure = new_figure(1.9 + 0.42 * len(result.weights), width=7.2, theme=theme)
    axes = dress(
        figure.add_subplot(),
        title=_TITLE,
        x="bits of the activations",
        y="bits of the weights",
    )
    scores = [[cell.score for cell in cells] for _, cells in result.rows()]
    numbers = np.array([[np.nan if s is None else factor * s for s in row] for row in scores])
    colours = theme_of(axes).amount if result.higher_is_better else theme_of(axes).amount.reversed()
    low, high = factor * min(known), factor * max(known)
    mesh = axes.pcolormesh(
        numbers, cmap=colours, vmin=low, vmax=high, edgecolors=theme_of(axes).paper, linewidth=1
    )
    for row, (_, cells) in enumerate(result.rows()):
        for column, cell in enumerate(cells):
            ends = cell.delta_interval_95
            is_free = ends is not None and ends[0] <= 0 <= ends[1]
            share = (
                0.5
                if cell.score is None or high == low
                else (factor * cell.score - low) / (high - low)
            )
            axes.text(
                column + 0.5,
                row + 0.5,
                "–" if cell.score is None else format_rounded(factor * cell.score, ".1f"),
                ha="center",
                va="center",
                fontsize=SMALL,
                fontweight="bold" if is_free else "normal",
                color=ink_over(colours(share)),
            )
    axes.set_xticks(np.arange(len(result.activations)) + 0.5, map(width_text, result.activations))
    axes.set_yticks(np.arange(len(result.weights)) + 0.5, map(width_text, result.weights))
    axes.tick_params(length=0)
    bar = figure.colorbar(mesh, ax=axes, shrink=0.9)
    unit = "%" if is_share else result.unit
    bar.set_label(
        f"{result.measure}{f' ({unit})' if unit else ''}", fontsize=SMALL, color=theme_of(axes).ink
    )
    bar.ax.tick_params(labelsize=SMALL, colors=theme_of(axes).ink, length=2)
    bar.outline.set_visible(False)
    note(
        figure,
        f"{plain(result.model, 50)}, {result.execution} execution, "
        f"{many(result.samples, result.sample_word)} of {plain(result.data, 40)}. Bold: the 95 % "
        f"interval of the difference to the float network, on the same "
        f"{result.sample_word}s, holds 0.",
    )
    return figure
