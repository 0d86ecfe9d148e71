"""Draw what layers cost together: a matrix of pairs, and each layer's fair share."""

import numpy as np
from matplotlib.figure import Figure

from quantscope.plain_text import many
from quantscope.report.figures.style import (
    QUANTIZED,
    SMALL,
    ThemeName,
    dress,
    ink_on,
    new_figure,
    note,
    nothing_to_show,
    plain,
    theme_of,
)
from quantscope.report.interactions_text import counted_unit, counted_value
from quantscope.report.wording import format_signed
from quantscope.run import Estimate
from quantscope.study.interactions import Interactions, Shapley

_PAIRS, _SHARES = "What two layers cost together beyond alone", "Each layer's share of the loss"
_MOST_NUMBERS = 20
"""The most layers whose cells have room for numbers; with more, colours alone are drawn."""


def pair_matrix(result: Interactions, *, theme: ThemeName = "light") -> Figure:
    """Draw every pair's cost beyond its parts; what is bold stands out among all pairs.

    Below the diagonal only, which is empty: a layer's cost alone has another size.
    """
    values = {
        (pair.second, pair.first): counted_value(result, found.value)
        for pair in result.pairs
        if (found := result.counted(pair)) is not None
    }
    if not values:
        return nothing_to_show(_PAIRS, "No pair of layers has a number.", theme=theme)
    names = result.layers
    rows, columns = names[1:], names[:-1]
    cells = np.array([[values.get((r, c), np.nan) for c in columns] for r in rows])
    limit = max(map(abs, values.values())) or 1.0
    figure = new_figure(2.2 + 0.34 * len(rows), theme=theme)
    axes = dress(figure.add_subplot(), title=_PAIRS)
    # More cost is a loss, and has its colour.
    mesh = axes.pcolormesh(
        -cells,
        cmap=theme_of(axes).change,
        vmin=-limit,
        vmax=limit,
        edgecolors=theme_of(axes).paper,
        linewidth=1,
    )
    named = {(pair.second, pair.first) for pair in result.pairs if pair.kind}
    if len(rows) <= _MOST_NUMBERS:
        for (row, column), value in values.items():
            axes.text(
                columns.index(column) + 0.5,
                rows.index(row) + 0.5,
                format_signed(round(value, 1 if limit >= 1 else 3)),
                ha="center",
                va="center",
                fontsize=SMALL - 1,
                fontweight="bold" if (row, column) in named else "normal",
                color=ink_on(-value, limit, theme_of(axes)),
            )
    axes.set_xticks(
        np.arange(len(columns)) + 0.5,
        [plain(name, 20) for name in columns],
        rotation=45,
        ha="right",
    )
    axes.set_yticks(np.arange(len(rows)) + 0.5, [plain(name, 24) for name in rows])
    axes.invert_yaxis()
    axes.tick_params(length=0)
    bar = figure.colorbar(mesh, ax=axes, shrink=0.9)
    bar.set_label(counted_unit(result), fontsize=SMALL, color=theme_of(axes).ink)
    bar.ax.yaxis.set_major_formatter(lambda value, _: format_signed(-round(value, 6)))
    bar.ax.tick_params(labelsize=SMALL, colors=theme_of(axes).ink, length=2)
    bar.outline.set_visible(False)
    bar.ax.invert_yaxis()
    where = {
        "enable": "quantized in the float network",
        "disable": "switched off in the quantized network",
    }[result.mode]
    note(
        figure,
        f"{plain(result.model, 50)}, {result.execution} execution, "
        f"{many(result.images, result.sample_word)} of {plain(result.data, 40)}; pairs {where}. "
        f"Above zero two layers aggravate each other, below they compensate. Bold: p < 0.05 for "
        f"all {len(result.pairs)} pairs (Holm).",
    )
    return figure


def shapley_shares(result: Shapley, *, theme: ThemeName = "light") -> Figure:
    """Draw every layer's share, the largest on top, with two standard errors of the orders."""
    ranked = [
        (share, found, error)
        for share in result.ranked()
        for found, error in [
            (share.loss, share.loss_standard_error)
            if result.by_score
            else (share.noise, share.noise_standard_error)
        ]
        if found is not None
    ]
    if not ranked:
        return nothing_to_show(_SHARES, "No layer's share has a number.", theme=theme)
    figure = new_figure(1.7 + 0.27 * len(ranked), theme=theme)
    unit = counted_unit(result)
    axes = dress(figure.add_subplot(), title=_SHARES, x=f"share, in {unit}", grid="x")
    values = [counted_value(result, found.value) for _, found, _ in ranked]
    reach = [2 * counted_value(result, error or 0.0) for _, _, error in ranked]
    places = range(len(ranked))
    axes.barh(places, values, xerr=reach, color=QUANTIZED, ecolor=theme_of(axes).ink, height=0.6)
    axes.axvline(0, color=theme_of(axes).ink, linewidth=1)
    labels = [f"{plain(s.layer)}  ({plain(s.op_type, 20)})" for s, _, _ in ranked]
    axes.set_yticks(places, labels)
    axes.invert_yaxis()
    axes.tick_params(axis="y", length=0)
    orders = f"all {result.orders:,}" if result.is_exact else f"{result.orders:,} drawn"
    note(
        figure,
        f"{plain(result.model, 50)}, {result.execution} execution, "
        f"{many(result.images, result.sample_word)} of {plain(result.data, 40)}; {orders} orders "
        f"of quantizing the layers. The shares add up to {_whole(result)}. Lines: two standard "
        f"errors of the orders.",
    )
    return figure


def _whole(result: Shapley) -> str:
    found: Estimate | None = result.loss if result.by_score else result.noise
    value = 0.0 if found is None else counted_value(result, found.value)
    return f"{value:.4g} {counted_unit(result)}"
