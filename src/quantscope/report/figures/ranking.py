"""Draw which layers the accuracy depends on."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from quantscope.plain_text import many
from quantscope.report.figures.style import (
    EDITED,
    QUANTIZED,
    SMALL,
    ThemeName,
    dress,
    legend,
    new_figure,
    note,
    nothing_to_show,
    plain,
    theme_of,
)
from quantscope.report.wording import format_signed
from quantscope.run import MEASURES
from quantscope.study.sensitivity import RowMode, Sensitivity, SensitivityRow

_TITLE = "Sensitivity of the layers"
_MODES: dict[RowMode, tuple[str, str, str]] = {
    "disable": ("switched off in the quantized network", EDITED, "o"),
    "enable": ("quantized alone in the float network", QUANTIZED, "D"),
}


def sensitivity_ranking(sensitivity: Sensitivity, *, theme: ThemeName = "light") -> Figure:
    """Draw layers from the most to the least sensitive, by the first mode that was measured.

    The left panel has the change of accuracy with its paired interval, the right one the SQNR of
    the logits, which ranks because hardly an image changes its class; the line is where the
    quantized network stands.
    """
    modes = [mode for mode in _MODES if any(row.mode == mode for row in sensitivity.rows)]
    if not modes:
        return nothing_to_show(_TITLE, "No layer was measured.", theme=theme)
    ranked = [row for mode in modes for row in sensitivity.ranked(mode)]
    names = list(dict.fromkeys(row.layer for row in ranked))
    kinds = {row.layer: row.op_type for row in sensitivity.rows}
    figure = new_figure(1.6 + (0.27 if len(modes) == 1 else 0.36) * len(names), theme=theme)
    # A panel of SQNRs for each mode: one decibel matters in the first, ten in the second.
    left, *rights = figure.subplots(
        1, 1 + len(modes), sharey=True, width_ratios=(3, *[2 / len(modes)] * len(modes))
    )
    dress(
        left,
        title=_TITLE,
        grid="x",
        x=_axis(sensitivity),
    )
    for number, (mode, right) in enumerate(zip(modes, rights, strict=True)):
        dress(right, title="", x=f"SQNR of {sensitivity.scores} (dB)", grid="x")
        shift = 0.0 if len(modes) == 1 else (number - 0.5) * 0.36
        rows = [row for row in sensitivity.rows if row.mode == mode]
        places = [names.index(row.layer) + shift for row in rows]
        _draw_changes(left, rows, places, mode, 100 if sensitivity.unit == "share" else 1)
        _draw_sqnr(right, rows, places, mode)
        right.xaxis.set_major_locator(MaxNLocator(6 if len(modes) == 1 else 4))
    before = sensitivity.quantized if modes[0] == "disable" else None
    base = before.logit_sqnr_db if before is not None else None
    if base is not None:
        rights[0].axvline(base, color=figure.theme.ink, linewidth=1, linestyle="--", zorder=1)
    left.axvline(0, color=figure.theme.ink, linewidth=1, zorder=1)
    left.set_yticks(range(len(names)), [f"{plain(n)}  ({plain(kinds[n], 20)})" for n in names])
    left.set_ylim(len(names) - 0.3, -0.7)
    left.xaxis.set_major_formatter(FuncFormatter(lambda value, _: format_signed(round(value, 6))))
    for axes in (left, *rights):
        axes.tick_params(axis="y", length=0)
    # It is wider than its panel, which must not grow for it.
    legend(rights[-1], columns=1, handles=left.containers).set_in_layout(False)
    note(
        figure,
        f"{plain(sensitivity.model, 60)}, {sensitivity.execution} execution, "
        f"{many(sensitivity.images, sensitivity.sample_word)}. Most sensitive on top, by "
        f"{'the score' if sensitivity.by_score else 'SQNR'} with each layer "
        f"{_MODES[modes[0]][0]}. Beside the marks: {sensitivity.sample_word}s "
        f"{'gained and lost' if sensitivity.unit == 'share' else 'that are better and worse'}."
        + ("" if base is None else f" Dashed: the quantized network, {base:.1f} dB.")
        + _left_out(sensitivity),
    )
    return figure


def _axis(sensitivity: Sensitivity) -> str:
    if sensitivity.measure == MEASURES["top1"].name:
        return "change of accuracy (percentage points, 95 % interval)"
    unit = "percentage points" if sensitivity.unit == "share" else sensitivity.unit
    inside = f"{unit}, 95 % interval" if unit else "95 % interval"
    return f"change of {plain(sensitivity.measure, 40)} ({inside})"


def _left_out(sensitivity: Sensitivity) -> str:
    count = len(sensitivity.not_switched)
    return f" {count} could not be switched." if count else ""


def _draw_changes(
    axes: Axes,
    rows: Sequence[SensitivityRow],
    places: Sequence[float],
    mode: RowMode,
    factor: int,
) -> None:
    """Draw changes of the score with their intervals, and beside them samples gained and lost."""
    label, colour, marker = _MODES[mode]
    known = [(row, place) for row, place in zip(rows, places, strict=True) if row.delta is not None]
    if not known:
        return
    rows, places = [row for row, _ in known], [place for _, place in known]
    deltas = np.array([factor * (row.delta or 0.0) for row in rows])
    # Where one sample has a number there is no interval, and the mark stands alone.
    intervals = [row.interval_95 or (row.delta or 0.0,) * 2 for row in rows]
    ends = np.array([[factor * end for end in interval] for interval in intervals])
    axes.errorbar(
        deltas,
        places,
        xerr=np.abs(ends.T - deltas),
        fmt=marker,
        color=colour,
        markersize=5,
        elinewidth=1.1,
        label=label,
        zorder=3,
    )
    for row, end, place in zip(rows, ends, places, strict=True):
        axes.annotate(
            f"+{row.gained} −{row.lost}",
            (max(end), place),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=SMALL - 1.5,
            color=theme_of(axes).faint,
        ).set_gid(row.layer)
    axes.margins(x=0.12)


def _draw_sqnr(
    axes: Axes, rows: Sequence[SensitivityRow], places: Sequence[float], mode: RowMode
) -> None:
    _, colour, marker = _MODES[mode]
    for row, place in zip(rows, places, strict=True):
        if row.logit_sqnr_db is not None:
            (mark,) = axes.plot(row.logit_sqnr_db, place, marker, color=colour, markersize=5)
            mark.set_gid(row.layer)
        else:
            axes.text(
                0.98,
                place,
                "exact" if row.exact else "not finite",
                transform=axes.get_yaxis_transform(),
                ha="right",
                va="center",
                fontsize=SMALL - 1,
                color=theme_of(axes).faint,
            )
