"""Draw what a calibration set does to a network's ranges."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from quantscope.plain_text import many
from quantscope.report.figures.style import (
    ERROR,
    FLOAT,
    QUANTIZED,
    SERIES,
    SMALL,
    TITLE,
    ThemeName,
    dress,
    legend,
    new_figure,
    note,
    nothing_to_show,
    plain,
    theme_of,
)
from quantscope.study.calibration import CalibrationInspection, TensorRange

_TITLE = "Who sets the ranges"
_NAMED_CURVES = 4


def calibration_ranges(result: CalibrationInspection, *, theme: ThemeName = "light") -> Figure:
    """Draw each range as 100 %: what one sample takes of it, what goes beyond, and how it grew."""
    shown = [each for each in result.tensors if each.span > 0]
    if not shown:
        return nothing_to_show(_TITLE, "No tensor has a range with any width.", theme=theme)
    figure = new_figure(max(3.4, 1.9 + 0.25 * len(shown)), theme=theme)
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    figure.suptitle(
        _TITLE, x=0.01, ha="left", fontsize=TITLE, fontweight="bold", color=figure.theme.ink
    )
    dress(left, title="", x="% of the range, from its low end", grid="x")
    for place, each in enumerate(shown):
        _draw_range(left, each, place)
    left.axvline(0, color=theme_of(left).ink, linewidth=0.8)
    left.axvline(100, color=theme_of(left).ink, linewidth=0.8)
    left.set_yticks(range(len(shown)), [plain(each.name) for each in shown])
    left.set_ylim(len(shown) - 0.4, -0.6)
    left.tick_params(axis="y", length=0)
    if len(left.get_legend_handles_labels()[1]):
        legend(left, columns=3)
    _draw_growth(right, shown, result)
    data = f", and {many(result.samples, result.sample_word)} of {plain(result.data, 40)}"
    note(
        figure,
        f"{plain(result.model, 50)}, {many(result.calibration_samples, result.sample_word)} of "
        f"{plain(result.calibration, 60)}{data if result.data else ''}. A sample takes what the "
        f"range is narrower without it.",
    )
    return figure


def _draw_range(axes: Axes, each: TensorRange, place: int) -> None:
    def percent(value: float) -> float:
        return 100 * (value - each.low.value) / each.span

    low, high = (0.0 if e.without is None else e.moves for e in (each.low, each.high))
    low, high = 100 * low / each.span, 100 * high / each.span
    labels = {"rest": "all others", "one": "one sample alone", "beyond": "other samples go to"}
    used = set(axes.get_legend_handles_labels()[1])

    def label(kind: str) -> str | None:
        text = labels[kind]
        if text in used:
            return None
        used.add(text)
        return text

    axes.barh(
        place, max(100 - low - high, 0), left=low, color=FLOAT, height=0.6, label=label("rest")
    )
    for start, width in ((0.0, low), (100 - high, high)):
        if width > 0:
            axes.barh(place, width, left=start, color=QUANTIZED, height=0.6, label=label("one"))
    found = each.overflow
    if found is None:
        return
    for end in (found.low, found.high):
        outside = end < each.low.value or end > each.high.value
        if outside:
            axes.plot(
                percent(end),
                place,
                "D",
                color=ERROR,
                markersize=4.5,
                label=label("beyond"),
                zorder=3,
            )


def _draw_growth(axes: Axes, shown: list[TensorRange], result: CalibrationInspection) -> None:
    """Draw the width against the number of samples; those that grew most at last are named."""
    dress(axes, title="", x=f"{result.sample_word}s", y="% of the range", grid="y")
    latest = sorted(shown, key=lambda each: -(each.last_doubling_share or 0.0))[:_NAMED_CURVES]
    for each in shown:
        counts = [samples for samples, _, _ in each.growth]
        widths = [100 * (high - low) / each.span for _, low, high in each.growth]
        if each in latest and each.last_doubling_share:
            colour = SERIES[latest.index(each)]
            axes.plot(
                counts, widths, color=colour, linewidth=1.6, label=plain(each.name, 24), zorder=3
            )
        else:
            axes.plot(counts, widths, color=theme_of(axes).faint, linewidth=0.7, alpha=0.6)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.set_ylim(0, 105)
    axes.tick_params(labelsize=SMALL)
    if axes.get_legend_handles_labels()[1]:
        axes.legend(loc="lower right", frameon=False, fontsize=SMALL, labelcolor=theme_of(axes).ink)
