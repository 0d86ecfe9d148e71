"""Draw which classes a model confuses, and which of them a change costs."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator
from numpy.typing import NDArray

from quantscope.plain_text import many
from quantscope.report.figures.style import (
    GAIN,
    LOSS,
    SMALL,
    ThemeName,
    dress,
    ink_on,
    ink_over,
    legend,
    new_figure,
    note,
    plain,
    theme_of,
)
from quantscope.report.wording import format_signed
from quantscope.run import Evaluation, EvaluationDelta

MOST_WRITTEN = 20


def confusion(evaluation: Evaluation, *, theme: ThemeName = "light") -> Figure:
    """Draw images by true and predicted class, shaded by their share of the true class."""
    counts = evaluation.confusion
    # A class without images would divide by 0.
    totals = np.maximum(np.bincount(evaluation.labels, minlength=len(counts)), 1)
    shares = counts / totals[:, None]
    figure = _square_figure(len(counts), theme)
    low, high = (100 * end for end in evaluation.interval_95)
    axes = dress(
        figure.add_subplot(),
        title=f"Confusion: {100 * evaluation.accuracy:.2f} % right [{low:.1f}, {high:.1f}]",
    )
    mesh = _matrix(axes, shares, evaluation.class_names, cmap=theme_of(axes).amount, limits=(0, 1))
    if len(counts) <= MOST_WRITTEN:
        _write(
            axes,
            [[f"{n:,}" if n else "" for n in row] for row in counts],
            [[ink_over(theme_of(axes).amount(share)) for share in row] for row in shares],
        )
    _colour_bar(figure, axes, mesh, "share of the true class's images", percent=True)
    broken = evaluation.not_finite
    note(
        figure,
        f"{_subject(evaluation)}. Numbers: images."
        + (f" {broken:,} with a NaN score stand in no column." if broken else ""),
    )
    return figure


def confusion_difference(delta: EvaluationDelta, *, theme: ThemeName = "light") -> Figure:
    """Draw images more or fewer in each cell: the first evaluation minus the second.

    More on the diagonal and fewer off it are a gain.
    """
    change = delta.confusion_change
    better = np.where(np.eye(len(change), dtype=bool), change, -change).astype(float)
    limit = max(float(np.abs(change).max()), 1.0)
    figure = _square_figure(len(change), theme)
    axes = dress(
        figure.add_subplot(),
        title=f"Change of confusion: {_points(delta.delta)} points of accuracy",
    )
    colours = theme_of(axes).change
    mesh = _matrix(axes, better, delta.first.class_names, cmap=colours, limits=(-limit, limit))
    if len(change) <= MOST_WRITTEN:
        _write(
            axes,
            [[format_signed(int(n), "+d") if n else "" for n in row] for row in change],
            [[ink_on(value, limit, theme_of(axes)) for value in row] for row in better],
        )
    _colour_bar(figure, axes, mesh, "worse  ←  images  →  better")
    note(figure, f"{_subjects(delta)}. Numbers: images more or fewer; empty: no change.")
    return figure


def per_class_change(delta: EvaluationDelta, *, theme: ThemeName = "light") -> Figure:
    """Draw, by class, images that only the first evaluation gets right, and only the second."""
    rows = delta.per_class
    totals = [c.total for c in delta.first.per_class]
    figure = new_figure(1.6 + 0.28 * len(rows), theme=theme)
    axes = dress(
        figure.add_subplot(),
        title="Change by class",
        x="images of the class now wrong (left) and now right (right)",
        grid="x",
    )
    for place, row in enumerate(rows):
        for width, colour in ((-row.lost, LOSS), (row.gained, GAIN)):
            (bar,) = axes.barh(place, width, 0.66, color=colour, zorder=2)
            bar.set_gid(row.name)
            if width:
                axes.annotate(
                    format_signed(width, "+d"),
                    (width, place),
                    textcoords="offset points",
                    xytext=(3 if width > 0 else -3, 0),
                    va="center",
                    ha="left" if width > 0 else "right",
                    fontsize=SMALL - 1,
                    color=theme_of(axes).ink,
                )
    axes.axvline(0, color=theme_of(axes).ink, linewidth=1, zorder=3)
    axes.set_yticks(range(len(rows)), [plain(row.name) for row in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    most = max([1, *(n for row in rows for n in (row.gained, row.lost))])
    worst = max((row.lost for row in rows), default=0)
    best = max((row.gained for row in rows), default=0)
    axes.set_xlim(-worst - 0.12 * most, best + 0.12 * most)
    axes.xaxis.set_major_locator(MaxNLocator(9, integer=True, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{abs(value):g}"))
    right = axes.secondary_yaxis("right")
    right.set_yticks(range(len(rows)), [_net(row.delta) for row in rows])
    right.tick_params(labelsize=SMALL, colors=theme_of(axes).ink, length=0)
    right.spines["right"].set_visible(False)
    right.set_ylabel("net change (percentage points)", fontsize=SMALL, color=theme_of(axes).faint)
    axes.tick_params(axis="y", length=0)
    legend(
        axes,
        columns=2,
        handles=[
            Patch(facecolor=LOSS, label="now wrong"),
            Patch(facecolor=GAIN, label="now right"),
        ],
    )
    low, high = (_points(end) for end in delta.interval_95)
    note(
        figure,
        f"{_subjects(delta)}. In all {_points(delta.delta)} points [{low}, {high}]."
        f"{_one_image(totals)}",
    )
    return figure


def _square_figure(classes: int, theme: ThemeName) -> Figure:
    side = 6.2 if classes <= MOST_WRITTEN else 7.4
    return new_figure(side - 0.5, width=side + 0.1, theme=theme)


def _matrix(
    axes: Axes,
    values: NDArray[np.floating],
    names: Sequence[str],
    *,
    cmap: object,
    limits: tuple[float, float],
) -> QuadMesh:
    """Draw a square matrix, true classes downwards, its cells parted by thin lines."""
    size = len(values)
    mesh = axes.pcolormesh(
        np.arange(size + 1) - 0.5,
        np.arange(size + 1) - 0.5,
        values,
        cmap=cmap,  # type: ignore[arg-type]
        vmin=limits[0],
        vmax=limits[1],
        edgecolors=theme_of(axes).grid,
        linewidth=0.4 if size <= 50 else 0,
    )
    axes.set_ylim(size - 0.5, -0.5)
    axes.set_aspect("equal")
    # At most 40 names fit beside the matrix.
    every = max(1, -(-size // 40))
    places = range(0, size, every)
    shown = [plain(names[place], 18) for place in places]
    axes.set_xticks(
        places,
        shown,
        rotation=90 if size > MOST_WRITTEN else 38,
        ha="center" if size > MOST_WRITTEN else "right",
        rotation_mode="default" if size > MOST_WRITTEN else "anchor",
    )
    axes.set_yticks(places, shown)
    axes.tick_params(length=0)
    axes.set_xlabel("predicted class")
    axes.set_ylabel("true class")
    for spine in axes.spines.values():
        spine.set_visible(False)
    return mesh


def _write(axes: Axes, texts: list[list[str]], colours: list[list[str]]) -> None:
    for row, (words, inks) in enumerate(zip(texts, colours, strict=True)):
        for column, (word, ink) in enumerate(zip(words, inks, strict=True)):
            if word:
                axes.text(
                    column, row, word, ha="center", va="center", fontsize=SMALL - 0.5, color=ink
                )


def _colour_bar(
    figure: Figure, axes: Axes, mesh: QuadMesh, label: str, *, percent: bool = False
) -> None:
    theme = theme_of(axes)
    bar = figure.colorbar(mesh, ax=axes, shrink=0.6, aspect=30, pad=0.03)
    bar.set_label(label, fontsize=SMALL, color=theme.ink)
    bar.ax.tick_params(labelsize=SMALL, length=2, colors=theme.ink)
    bar.outline.set_visible(False)
    bar.ax.yaxis.set_major_locator(MaxNLocator(6, integer=not percent))
    show = (lambda v, _: f"{100 * v:g} %") if percent else (lambda v, _: f"{abs(round(v, 6)):g}")
    bar.ax.yaxis.set_major_formatter(FuncFormatter(show))


def _net(change: float | None) -> str:
    return "no images" if change is None else format_signed(100 * change, "+.1f")


def _points(fraction: float) -> str:
    return format_signed(100 * fraction, "+.2f")


def _one_image(totals: Sequence[int]) -> str:
    found = {total for total in totals if total}
    if len(found) != 1 or found == {1}:
        return ""
    return f" Each image is {100 / found.pop():.2g} % of its class."


def _subject(evaluation: Evaluation) -> str:
    return (
        f"{plain(evaluation.model, 60)}, {evaluation.execution} execution, "
        f"{many(evaluation.images, 'image')}"
    )


def _subjects(delta: EvaluationDelta) -> str:
    first, second = delta.first, delta.second
    return (
        f"{plain(first.model, 60)} ({first.execution}) against {plain(second.model, 60)} "
        f"({second.execution}), {many(first.images, 'image')}"
    )
