"""Draw what mixed bits buy: the score against the cost, beside the same bits for all."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from quantscope.plain_text import many
from quantscope.report.figures.style import (
    EDITED,
    FLOAT,
    QUANTIZED,
    SMALL,
    ThemeName,
    dress,
    legend,
    new_figure,
    note,
    plain,
    theme_of,
)
from quantscope.study.bits import Frontier, FrontierPoint

_X = {"size": "weights (kB)", "compute": "products times bits of both sides (millions)"}


def bit_frontier(result: Frontier, *, theme: ThemeName = "light") -> Figure:
    """Draw the points of a walk, numbered as in its table, and uniform widths, named by them.

    Bars are the 95 % intervals of the scores.
    """
    figure = new_figure(4.4, theme=theme)
    unit = "%" if result.unit == "share" else result.unit
    axes = dress(
        figure.add_subplot(),
        title="What mixed bits buy",
        x=_X[result.saving],
        y=f"{result.measure}{f' ({unit})' if unit else ''}",
        grid="both",
    )
    factor = 100 if result.unit == "share" else 1
    if result.floats is not None:
        axes.axhline(
            factor * result.floats, color=FLOAT, linewidth=1, linestyle="--", label="float"
        )
    _draw(axes, result, result.points, EDITED, "o", "one tensor at a time", line="-")
    same = "the same bits for all" + " weights" * (result.saving == "size")
    _draw(axes, result, result.uniform, QUANTIZED, "D", same, line="")
    for point in result.uniform:
        bits = min(point.bits.values())
        _name(axes, f"{bits} bits", _cost(result, point), factor * point.score, (6, -10))
    for place, point in enumerate(result.points):
        if place % max(1, len(result.points) // 8) == 0:
            _name(axes, str(place), _cost(result, point), factor * point.score, (0, 6))
    legend(axes, columns=3)
    note(
        figure,
        f"{plain(result.model, 50)}, {result.execution} execution, "
        f"{many(result.samples, result.sample_word)} of {plain(result.data, 40)}. Numbers: steps "
        f"of the walk. Bars: 95 % intervals.",
    )
    return figure


def _draw(
    axes: Axes,
    result: Frontier,
    points: Sequence[FrontierPoint],
    colour: str,
    marker: str,
    label: str,
    *,
    line: str,
) -> None:
    factor = 100 if result.unit == "share" else 1
    across = [_cost(result, point) for point in points]
    scores = [factor * point.score for point in points]
    ends = [point.interval_95 or (point.score, point.score) for point in points]
    below = [factor * max(p.score - low, 0.0) for p, (low, _) in zip(points, ends, strict=True)]
    above = [factor * max(high - p.score, 0.0) for p, (_, high) in zip(points, ends, strict=True)]
    axes.errorbar(
        across,
        scores,
        yerr=(below, above),
        color=colour,
        marker=marker,
        markersize=4,
        linestyle=line,
        linewidth=1.2,
        elinewidth=0.7,
        label=label,
        zorder=3,
    )


def _name(axes: Axes, text: str, x: float, y: float, offset: tuple[int, int]) -> None:
    axes.annotate(
        text,
        (x, y),
        textcoords="offset points",
        xytext=offset,
        fontsize=SMALL - 1,
        color=theme_of(axes).ink,
    )


def _cost(result: Frontier, point: FrontierPoint) -> float:
    if result.saving == "size":
        return point.weight_bytes / 1000
    return point.bit_operations / 1e6
