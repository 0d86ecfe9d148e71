"""Draw how a tensor's values are spread: the same bins for float, quantized, int8 and uint8."""

import textwrap
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator
from numpy.typing import NDArray

from quantscope.report.figures.style import (
    FLOAT,
    NORMAL,
    QUANTIZED,
    SMALL,
    TITLE,
    WEIGHTS,
    ThemeName,
    dress,
    legend,
    new_figure,
    note,
    nothing_to_show,
    plain,
    theme_of,
)
from quantscope.run.histograms import Histogram, Series, SeriesName

Values = NDArray[np.float64]

_EIGHT_BITS: tuple[SeriesName, ...] = ("int8", "uint8")
_SHARE = "share of values (%)"
_ACTIVATION_BINS = 128
_WEIGHT_BINS = 64
_SPIKE = 4.0
_ROOM = 1.15
_ROOM_FOR_ONE, _ROOM_FOR_TWO = 0.25, 0.5
"""The shares of the axis' width that what is said of the range's ends needs."""


def activation_histogram(
    histogram: Histogram,
    *,
    log: bool = False,
    types: bool = False,
    bins: int = _ACTIVATION_BINS,
    theme: ThemeName = "light",
) -> Figure:
    """Draw float values (filled) and quantized ones (line), the range and what it cuts.

    `types` adds panels for the float values as int8 and as uint8. Without `log`, a bin that towers
    over all others runs out of the picture and its share is written.
    """
    shown = histogram.at_most(bins)
    names: list[SeriesName] = ["quantized"]
    if types:
        names += [name for name in _EIGHT_BITS if name in shown]
    figure = new_figure(1.2 + 2.4 * len(names), theme=theme)
    panels = figure.subplots(len(names), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    limit = _limit(shown, names, log=log)
    for axes, name in zip(panels, names, strict=True):
        _activation_panel(axes, shown, shown[name], limit=limit, log=log)
    panels[-1].set_xlabel("value", fontsize=NORMAL, color=figure.theme.ink)
    note(figure, _explanation(shown, names))
    return figure


def _activation_panel(
    axes: Axes, shown: Histogram, series: Series, *, limit: float, log: bool
) -> None:
    """Draw the float values, clipped ones in their own colour, and one series as a line."""
    is_own = series.name == "quantized"
    title = f"Values of {plain(shown.name, 40)}" if is_own else f"As {series.name}, {series.rule}"
    dress(axes, title=title, y=_SHARE, grid="y")
    label = "quantized" if is_own else f"as {series.name}"
    handles = [Patch(fill=False, edgecolor=QUANTIZED, linewidth=1.2, label=label)]
    if "float" in shown:
        shares, inside = _shares(shown["float"]), _inside(shown, series)
        for kept, colour, name in (
            (inside, FLOAT, "float"),
            (~inside, theme_of(axes).sources["clipping"], "clipped"),
        ):
            heights = np.where(kept, shares, 0)
            axes.stairs(
                heights, shown.edges, fill=True, color=colour, linewidth=0, label=name, zorder=2
            )
        handles.insert(0, Patch(facecolor=FLOAT, label="float"))
    axes.stairs(*_outline(shown, series), color=QUANTIZED, linewidth=1.2, label=label, zorder=3)
    axes.set_xlim(shown.edges[0], shown.edges[-1])
    _scale(axes, limit, log=log)
    _mark_range(axes, shown, series)
    if not log:
        _name_spike(axes, shown, series, limit)
    legend(axes, handles=handles, columns=len(handles))


def _shares(series: Series) -> Values:
    return np.asarray(100 * series.counts / max(series.values, 1))


def _outline(shown: Histogram, series: Series) -> tuple[Values, Values]:
    """Give a series' shares in percent, and the edges of its bins.

    A type with other steps has bins of its own, whole steps of that type, and shares as if they
    were as wide as the common ones: in those its values would beat.
    """
    params = series.params
    if series.codes is None or params is None or np.float32(params.scale) == shown.grid.step:
        return _shares(series), shown.edges
    width = shown.step * shown.steps_per_bin
    scale = float(params.scale)
    steps = max(1, round(width / scale))
    starts = np.arange(0, len(series.codes), steps)
    ends = np.append(starts, len(series.codes)) + params.qmin - int(params.zero_point)
    counts = np.add.reduceat(series.codes, starts)
    # An integer stands for the reals half a step around it.
    edges = (ends - 0.5) * scale
    return 100 * counts / max(series.values, 1) * width / np.diff(edges), edges


def _inside(shown: Histogram, series: Series) -> NDArray[np.bool_]:
    """Mark the bins of values that the series' type can represent, by their middles."""
    low, high = _range(shown, series)
    middles = (shown.edges[:-1] + shown.edges[1:]) / 2
    return np.asarray((middles >= low - shown.step / 2) & (middles <= high + shown.step / 2))


def _range(shown: Histogram, series: Series) -> tuple[float, float]:
    if series.params is None:
        return shown.low, shown.high
    low, high = series.params.representable_range
    return float(low.min()), float(high.max())


def _limit(shown: Histogram, names: list[SeriesName], *, log: bool) -> float:
    """Find the highest bin, or the second highest where the first would hide all others."""
    every = [_outline(shown, shown[name])[0] for name in names]
    if "float" in shown:
        every.append(_shares(shown["float"]))
    highest = max(float(shares.max()) for shares in every)
    usual = max(float(np.sort(shares)[-2]) for shares in every)
    return usual if not log and 0 < _SPIKE * usual < highest else highest or 1.0


def _scale(axes: Axes, limit: float, *, log: bool) -> None:
    if log:
        axes.set_yscale("log")
        # The words at the top need room, which is a factor on this axis.
        axes.set_ylim(top=3 * limit)
        axes.yaxis.set_major_locator(LogLocator(10, numticks=8))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        return
    axes.set_ylim(0, _ROOM * limit)
    axes.yaxis.set_major_locator(MaxNLocator(5))


def _mark_range(axes: Axes, shown: Histogram, series: Series) -> None:
    """Mark the ends of the range, and tint and number what is clipped beyond them."""
    theme = theme_of(axes)
    counted = shown["float"] if series.name == "quantized" and "float" in shown else series
    left, right = axes.get_xlim()
    low, high = _range(shown, series)
    width = right - left
    ends = [min(max(end, left), right) for end in (low, high)]
    # Inside the range there may be no room for two; then the second goes beyond its end, or below.
    is_narrow = ends[1] - ends[0] < _ROOM_FOR_TWO * width
    is_beyond = is_narrow and right - ends[1] >= _ROOM_FOR_ONE * width
    for end, outer, share, is_left in (
        (low, left, counted.clipped_low_fraction, True),
        (high, right, counted.clipped_high_fraction, False),
    ):
        if left <= end <= right:
            axes.axvline(end, color=theme.ink, linewidth=0.9, linestyle="--", zorder=4)
            if share:
                tint = theme.sources["clipping"]
                axes.axvspan(outer, end, color=tint, alpha=0.18, linewidth=0, zorder=1)
        if share is not None:
            _say(
                axes,
                f"{percent(share)} clipped",
                ends[0] if is_left else ends[1],
                to_the_right=is_left or is_beyond,
                line=1 if is_narrow and not is_left and not is_beyond else 0,
                strong=share > 0,
            )


def _say(axes: Axes, text: str, x: float, *, to_the_right: bool, line: int, strong: bool) -> None:
    """Write a text at the top beside `x`, so many lines down."""
    theme = theme_of(axes)
    axes.annotate(
        text,
        (x, 0.97),
        xycoords=("data", "axes fraction"),
        xytext=(4 if to_the_right else -4, -1.6 * SMALL * line),
        textcoords="offset points",
        ha="left" if to_the_right else "right",
        va="top",
        fontsize=SMALL,
        color=theme.ink if strong else theme.faint,
        bbox={"facecolor": theme.paper, "alpha": 0.8, "linewidth": 0, "pad": 1.0},
        zorder=6,
    )


def percent(share: float) -> str:
    """Write a share: `0 %`, `0.0012 %`, `3.4 %`, never 0 for what is not nothing."""
    return f"{100 * share:.2g} %" if share else "0 %"


def _name_spike(axes: Axes, shown: Histogram, series: Series, limit: float) -> None:
    """Write what the bin holds that runs out of the picture."""
    heights, edges = _outline(shown, series)
    drawn = [(series.name, heights)] if edges is shown.edges else []
    if "float" in shown:
        drawn.insert(0, ("float", _shares(shown["float"])))
    if not drawn or max(float(share.max()) for _, share in drawn) <= _ROOM * limit:
        return
    place = int(np.argmax(drawn[0][1]))
    shares = [(name, float(share[place])) for name, share in drawn]
    low, high = shown.edges[place], shown.edges[place + 1]
    where = "at 0" if low <= 0 < high else f"at {(low + high) / 2:.3g}"
    text = f"the bin {where} holds " + ", ".join(f"{s:.3g} % ({name})" for name, s in shares)
    axes.text(
        0.5,
        0.97,
        text,
        transform=axes.transAxes,
        ha="center",
        va="top",
        fontsize=SMALL,
        color=theme_of(axes).ink,
        bbox={"facecolor": theme_of(axes).paper, "alpha": 0.8, "linewidth": 0, "pad": 1.0},
        zorder=6,
    )


def _explanation(shown: Histogram, names: list[SeriesName]) -> str:
    parts = [
        _bins_text(shown),
        f"dashed: representable range, {_real(shown.low)} to {_real(shown.high)} as "
        f"{shown.params.dtype}",
    ]
    for name in names:
        params = shown[name].params
        if params is not None and _outline(shown, shown[name])[1] is not shown.edges:
            parts.append(
                f"{name} has steps of {float(params.scale):.3g}: in bins of its own, as shares of "
                f"the same width"
            )
    return "; ".join([*parts, *_missing(shown)]) + "."


def _bins_text(shown: Histogram) -> str:
    steps = "one step" if shown.steps_per_bin == 1 else f"{shown.steps_per_bin:,} steps"
    which = "" if shown.params.is_per_tensor else ", the largest channel's"
    return f"{shown.series[0].values:,} values; a bin is {steps} of {shown.step:.3g}{which}"


def _missing(shown: Histogram) -> list[str]:
    parts = []
    lost = max(series.not_finite for series in shown.series)
    if lost:
        parts.append(f"{lost:,} values that are not finite are left out")
    if shown.no_float:
        parts.append(f"no float values: {shown.no_float}")
    return parts


def _real(value: float) -> str:
    return f"{value:.4g}".replace("-", "−")


def value_histogram(values: NDArray[Any], *, theme: ThemeName = "light") -> Figure:
    """Draw how the values of a float tensor are spread, with its ends; heights are logarithmic."""
    flat = np.asarray(values, np.float64).ravel()
    finite = flat[np.isfinite(flat)]
    if not finite.size:
        return nothing_to_show("Values", "No value is finite", theme=theme)
    figure = new_figure(2.6, theme=theme)
    axes = dress(figure.add_subplot(), title="Values", x="value", y="number of values")
    counts, edges = np.histogram(finite, bins=_ACTIVATION_BINS)
    axes.stairs(counts, edges, fill=True, color=FLOAT)
    axes.set_yscale("log")
    axes.set_ylim(bottom=0.7)
    lost = f"; {flat.size - finite.size:,} are not finite" if finite.size < flat.size else ""
    note(figure, f"range {finite.min():.4g} … {finite.max():.4g}, {flat.size:,} values{lost}")
    return figure


def weight_histograms(
    histogram: Histogram,
    *,
    log: bool = False,
    bins: int = _WEIGHT_BINS,
    theme: ThemeName = "light",
) -> Figure:
    """Draw a layer's weights as float | int8 | uint8, in common bins and on one scale.

    The file's own type shows what is stored, the other the float values rounded anew. The float
    values are outlined in every panel.
    """
    shown = histogram.at_most(bins)
    title = f"{plain(histogram.name, 40)}, float and quantized"
    panels = _weight_panels(shown)
    if not any(series.counts.any() for _, series in panels):
        return nothing_to_show(title, "It has no finite values.", theme=theme)
    figure = new_figure(3.6, theme=theme)
    figure.suptitle(
        title, x=0.01, ha="left", fontsize=TITLE, fontweight="bold", color=figure.theme.ink
    )
    every = figure.subplots(1, len(panels), sharex=True, sharey=True, squeeze=False)[0]
    limit = max(float(_shares(series).max()) for _, series in panels)
    for axes, (heading, series) in zip(every, panels, strict=True):
        dress(axes, title="", x="weight", y=_SHARE if axes is every[0] else "", grid="y")
        axes.set_title(heading, loc="left", fontsize=NORMAL, color=figure.theme.ink, pad=6)
        colour = FLOAT if series.name == "float" else WEIGHTS
        axes.stairs(
            _shares(series), shown.edges, fill=True, color=colour, linewidth=0, label=series.name
        )
        if series.name != "float" and "float" in shown:
            floats = _shares(shown["float"])
            ink = figure.theme.ink
            axes.stairs(floats, shown.edges, color=ink, linewidth=1.0, label="float", zorder=3)
        _scale(axes, limit, log=log)
        axes.xaxis.set_major_locator(MaxNLocator(5))
    every[0].set_xlim(*_used(shown))
    outlined = ["outlined: float"] if "float" in shown else []
    note(figure, "; ".join([_bins_text(shown), *outlined, *_missing(shown)]) + ".")
    return figure


def _weight_panels(shown: Histogram) -> list[tuple[str, Series]]:
    """Give the headings, and the series to show under each."""
    own = shown.params.dtype
    found = [("float", shown["float"])] if "float" in shown else []
    if own not in _EIGHT_BITS or "float" not in shown:
        found.append((f"{own}, {shown['quantized'].rule}", shown["quantized"]))
    for name in _EIGHT_BITS:
        if name in shown:
            series = shown["quantized"] if name == own else shown[name]
            heading = textwrap.fill(f"{name}, {series.rule}", 40)
            found.append((heading, series))
    return found


def _used(shown: Histogram) -> tuple[float, float]:
    """Give the span from the first to the last bin that holds something, and a little more."""
    places = np.flatnonzero(np.any([series.counts > 0 for series in shown.series], axis=0))
    low, high = shown.edges[places[0]], shown.edges[places[-1] + 1]
    return low - 0.02 * (high - low), high + 0.02 * (high - low)
