"""Draw where branches meet: the steps of each, and what each costs the sum."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from quantscope.model import Residual
from quantscope.report.figures.style import (
    ERROR,
    QUANTIZED,
    SMALL,
    SOURCE_NAMES,
    ThemeName,
    dress,
    legend,
    new_figure,
    note,
    nothing_to_show,
    plain,
    theme_of,
)
from quantscope.run.compare import Comparison, TensorComparison

_TITLE = "Residual branches"


class Row(NamedTuple):
    """A branch, or the sum itself (`is_sum`). `shares` are of the sum's error, by source."""

    layer: str
    label: str
    step: float | None
    output_step: float | None
    bits_lost: float | None
    shares: tuple[tuple[str, float], ...]
    is_sum: bool


def residual_branches(
    residuals: Sequence[Residual],
    comparison: Comparison | None = None,
    *,
    theme: ThemeName = "light",
) -> Figure:
    """Draw every Add, Sub and Concat: its branches' steps, the output's, and the bits that costs.

    A comparison adds what share of the output's error came through each branch, and what the join
    itself adds.
    """
    if not residuals:
        return nothing_to_show(
            _TITLE,
            "No layer joins branches that are all quantized with one scale each.",
            theme=theme,
        )
    rows = [row for residual in residuals for row in _rows(residual, comparison)]
    figure = new_figure(1.5 + 0.27 * len(rows) + 0.1 * len(residuals), theme=theme)
    panels = figure.subplots(1, 3 if comparison else 2, sharey=True, squeeze=False)[0]
    places = list(_places(rows))
    _draw_steps(dress(panels[0], title=_TITLE, x="step (logarithmic)", grid="x"), rows, places)
    _draw_bits(
        dress(panels[1], title="", x="bits lost to the output's step", grid="x"), rows, places
    )
    if comparison:
        axes = dress(panels[2], title="", x="share of the output's error (%)", grid="x")
        _draw_shares(axes, rows, places)
    panels[0].set_yticks(places, [row.label for row in rows])
    for text, row in zip(panels[0].get_yticklabels(), rows, strict=True):
        text.set_fontweight("bold" if row.is_sum else "normal")
    panels[0].set_ylim(max(places) + 0.7, -0.7)
    for axes in panels:
        axes.tick_params(axis="y", length=0)
    _explain(panels[-1], with_shares=comparison is not None)
    note(
        figure,
        "A branch whose step is finer than the output's loses log2(output / branch) of "
        "its bits in the sum." + ("" if comparison else " Costs need a comparison."),
    )
    return figure


def _rows(residual: Residual, comparison: Comparison | None) -> Iterator[Row]:
    """Give a row for each branch, with the error that came through it, then one for the sum."""
    tensor = _compared(residual, comparison)
    sources = tensor.sources if tensor else None
    through = sources.inherited_by_input if sources else {}
    for branch in residual.branches:
        share = through.get(branch.tensor)
        yield Row(
            layer=residual.layer,
            label=f"{plain(branch.source or branch.tensor, 24)} →",
            step=branch.step,
            output_step=residual.output_step,
            bits_lost=branch.bits_lost,
            shares=() if share is None else (("inherited", share),),
            is_sum=False,
        )
    own = ("weights", "rounding", "clipping", "kernel")
    yield Row(
        layer=residual.layer,
        label=plain(residual.layer, 24),
        step=None,
        output_step=residual.output_step,
        bits_lost=None,
        shares=tuple((s, getattr(sources, s) or 0.0) for s in own) if sources else (),
        is_sum=True,
    )


def _compared(residual: Residual, comparison: Comparison | None) -> TensorComparison | None:
    found = (t for t in comparison.tensors if t.name == residual.output) if comparison else ()
    return next(iter(found), None)


def _places(rows: Sequence[Row]) -> Iterator[float]:
    """Give the heights of the rows, downwards, with a gap after each sum."""
    place = 0.0
    for row in rows:
        yield place
        place += 1.5 if row.is_sum else 1.0


def _draw_steps(axes: Axes, rows: Sequence[Row], places: Sequence[float]) -> None:
    ink = theme_of(axes).ink
    for row, place in zip(rows, places, strict=True):
        if row.step is not None and row.output_step is not None:
            axes.hlines(
                place, row.step, row.output_step, color=theme_of(axes).faint, linewidth=1, zorder=1
            )
        if row.step is not None:
            (mark,) = axes.plot(row.step, place, "o", color=QUANTIZED, markersize=6, zorder=3)
            mark.set_gid(row.layer)
        if row.output_step is not None:
            (mark,) = axes.plot(
                row.output_step, place, "|", color=ink, markersize=11, markeredgewidth=2, zorder=2
            )
            mark.set_gid(row.layer)
    axes.set_xscale("log")
    steps = [step for row in rows for step in (row.step, row.output_step) if step is not None]
    axes.set_xlim(min(steps) / 1.6, max(steps) * 1.6)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    # Powers of ten alone would leave such a short axis almost without ticks.
    if max(steps) < 50 * min(steps):
        axes.xaxis.set_major_locator(LogLocator(10, subs=(1, 2, 5)))
    for row, place in zip(rows, places, strict=True):
        value = row.output_step if row.is_sum else row.step
        if value is not None:
            axes.annotate(
                f"{value:.3g}",
                (value, place),
                xytext=(0, 6),
                ha="center",
                va="bottom",
                textcoords="offset points",
                fontsize=SMALL - 1.5,
                color=theme_of(axes).faint,
            )


def _draw_bits(axes: Axes, rows: Sequence[Row], places: Sequence[float]) -> None:
    for row, place in zip(rows, places, strict=True):
        if row.bits_lost is not None:
            (bar,) = axes.barh(place, row.bits_lost, 0.6, color=ERROR, zorder=2)
            bar.set_gid(row.layer)
            _write(axes, row.bits_lost, place, f"{row.bits_lost:.1f}" if row.bits_lost else "0")
    largest = max((row.bits_lost or 0.0 for row in rows), default=0.0)
    axes.set_xlim(0, max(1.0, 1.2 * largest))


def _draw_shares(axes: Axes, rows: Sequence[Row], places: Sequence[float]) -> None:
    theme = theme_of(axes)
    ends = [0.0]
    for row, place in zip(rows, places, strict=True):
        right = left = 0.0
        for source, share in row.shares:
            width = 100 * share
            (bar,) = axes.barh(
                place,
                width,
                0.6,
                right if width >= 0 else left,
                color=theme.sources[source],
                zorder=2,
            )
            bar.set_gid(row.layer)
            # Shares that cancel others hang to the left of zero.
            right, left = (right + width, left) if width >= 0 else (right, left + width)
        if row.shares:
            _write(axes, right, place, f"{100 * sum(s for _, s in row.shares):.1f}")
        ends += [right, left]
    axes.axvline(0, color=theme.ink, linewidth=0.8, zorder=3)
    axes.set_xlim(min(ends) * 1.1, max(100.0, *ends) * 1.18)
    axes.xaxis.set_major_locator(MaxNLocator(5))


def _write(axes: Axes, x: float, y: float, text: str) -> None:
    axes.annotate(
        text.replace("-", "−"),
        (x, y),
        xytext=(3, 0),
        textcoords="offset points",
        va="center",
        fontsize=SMALL - 1,
        color=theme_of(axes).ink,
    )


def _explain(axes: Axes, *, with_shares: bool) -> None:
    theme = theme_of(axes)
    handles: list[Line2D | Patch] = [
        Line2D([], [], marker="o", linestyle="", color=QUANTIZED, label="branch"),
        Line2D(
            [],
            [],
            marker="|",
            linestyle="",
            color=theme.ink,
            markeredgewidth=2,
            markersize=9,
            label="output",
        ),
    ]
    if with_shares:
        handles += [
            Patch(facecolor=theme.sources[source], label=SOURCE_NAMES[source])
            for source in ("inherited", "rounding", "clipping")
        ]
    # It is wider than its panel, which must not grow for it.
    legend(axes, handles=handles, columns=len(handles)).set_in_layout(False)
