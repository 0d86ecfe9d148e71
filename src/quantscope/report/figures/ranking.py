"""Which layers the accuracy depends on."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from quantscope.report.style import (
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
    signed,
    theme_of,
)


class SensitivityRow(Protocol):
    """One layer in one mode. `delta` is a fraction; `rank` 1 matters most.

    "disable": its quantization switched off in the quantized network; "enable": on alone in the
    float one.
    """

    @property
    def layer(self) -> str: ...
    @property
    def op_type(self) -> str: ...
    @property
    def mode(self) -> str: ...
    @property
    def delta(self) -> float: ...
    @property
    def interval_95(self) -> tuple[float, float]: ...
    @property
    def gained(self) -> int: ...
    @property
    def lost(self) -> int: ...
    @property
    def logit_sqnr_db(self) -> float | None: ...
    @property
    def rank(self) -> int: ...


class Ranked(Protocol):
    @property
    def rows(self) -> Sequence[SensitivityRow]: ...


_TITLE = "Sensitivity of the layers"
_MODES = {
    "disable": ("switched off in the quantized network", EDITED, "o"),
    "enable": ("quantized alone in the float network", QUANTIZED, "D"),
}


def sensitivity_ranking(sensitivity: Ranked, *, theme: ThemeName = "light") -> Figure:
    """Layers from the most to the least sensitive, by the first mode that was measured.

    Left the change of accuracy with its paired interval, right the SQNR of the logits, which tells
    layers apart where hardly an image changes its class.
    """
    modes = [mode for mode in _MODES if any(row.mode == mode for row in sensitivity.rows)]
    if not modes:
        return nothing_to_show(_TITLE, "No layer was measured.", theme=theme)
    first = sorted((row for row in sensitivity.rows if row.mode == modes[0]), key=_rank)
    names = list(dict.fromkeys([*(r.layer for r in first), *(r.layer for r in sensitivity.rows)]))
    kinds = {row.layer: row.op_type for row in sensitivity.rows}
    figure = new_figure(1.6 + (0.27 if len(modes) == 1 else 0.36) * len(names), theme=theme)
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=(3, 2))
    dress(
        left,
        title=_TITLE,
        grid="x",
        x="change of accuracy (percentage points; bars: 95 % paired interval)",
    )
    dress(right, title="", x="SQNR of the logits (dB)", grid="x")
    for number, mode in enumerate(modes):
        shift = 0.0 if len(modes) == 1 else (number - 0.5) * 0.36
        rows = [row for row in sensitivity.rows if row.mode == mode]
        places = [names.index(row.layer) + shift for row in rows]
        _draw_changes(left, rows, places, mode)
        _draw_sqnr(right, rows, places, mode)
    left.axvline(0, color=theme_of(left).ink, linewidth=1, zorder=1)
    left.set_yticks(range(len(names)), [f"{plain(n)}  ({plain(kinds[n], 20)})" for n in names])
    left.set_ylim(len(names) - 0.3, -0.7)
    left.xaxis.set_major_formatter(FuncFormatter(lambda value, _: signed(round(value, 6))))
    for axes in (left, right):
        axes.tick_params(axis="y", length=0)
    right.xaxis.set_major_locator(MaxNLocator(6))
    legend(right, columns=1, handles=left.containers)
    note(
        figure,
        f"Most sensitive on top, ranked with each layer {_MODES[modes[0]][0]}. "
        f"Beside the marks: images gained and lost.",
    )
    return figure


def _rank(row: SensitivityRow) -> int:
    return row.rank


def _draw_changes(
    axes: Axes, rows: Sequence[SensitivityRow], places: Sequence[float], mode: str
) -> None:
    label, colour, marker = _MODES[mode]
    deltas = np.array([100 * row.delta for row in rows])
    ends = np.array([[100 * end for end in row.interval_95] for row in rows])
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
    axes: Axes, rows: Sequence[SensitivityRow], places: Sequence[float], mode: str
) -> None:
    _, colour, marker = _MODES[mode]
    for row, place in zip(rows, places, strict=True):
        if row.logit_sqnr_db is not None:
            (mark,) = axes.plot(row.logit_sqnr_db, place, marker, color=colour, markersize=5)
            mark.set_gid(row.layer)
        else:
            axes.text(
                0.02,
                place,
                "exact",
                transform=axes.get_yaxis_transform(),
                va="center",
                fontsize=SMALL - 1,
                color=theme_of(axes).faint,
            )
