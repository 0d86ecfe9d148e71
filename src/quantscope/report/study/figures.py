"""Draw a study's figures: pure functions of its result, None where there is nothing to show."""

import json
import textwrap
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from quantscope.plain_text import many
from quantscope.report.figures import (
    BLUE,
    CHANGE,
    FAINT,
    GREEN,
    INK,
    LINES,
    MARKERS,
    PURPLE,
    SERIES,
    SMALL,
    VERMILLION,
    ThemeName,
    dress,
    ink_on,
    new_figure,
    note,
    theme_of,
)
from quantscope.report.study.numbers import StudyNumbers, numbers_of
from quantscope.report.wording import format_signed
from quantscope.study import Change, Measured, StudyResult, StudyRow

EXECUTION_COLOURS = {"reference": BLUE, "runtime": VERMILLION}
EXECUTION_NAMES = {"reference": "reference execution", "runtime": "runtime execution"}
EXECUTION_MARKERS = {"reference": "o", "runtime": "D"}
FORMAT_COLOURS = {"qdq": BLUE, "qoperator": GREEN, "pt2e": PURPLE}
FORMAT_NAMES = {"qdq": "QDQ", "qoperator": "QOperator", "pt2e": "PT2E"}
POINTS = "percentage points"
MOST_CURVES = len(SERIES)


def accuracy_figure(
    result: StudyResult,
    *,
    names: Mapping[str, str] = EXECUTION_NAMES,
    theme: ThemeName = "light",
) -> Figure | None:
    """Draw what each configuration costs against float, by execution, with paired intervals.

    Where the float model has no score, the scores themselves are drawn, each with its interval.
    """
    rows = sorted(result.measured, key=result.merit)
    if not rows:
        return None
    numbers = numbers_of(result)
    figure = new_figure(1.7 + 0.27 * len(rows), theme=theme)
    axes = dress(
        figure.add_subplot(),
        title=f"{_title(numbers)} against the float model"
        if result.has_float_score
        else _title(numbers),
        x=_axis(result, numbers, bars="; bars: 95 % paired interval"),
        grid="x",
    )
    for execution, offset in (("reference", 0.16), ("runtime", -0.16)):
        points = [
            (y + offset, found)
            for y, row in enumerate(rows)
            if (found := _place(result, numbers, row, execution))
        ]
        if points:
            _interval_bars(axes, execution, names[execution], points)
    if result.has_float_score:
        axes.axvline(0, color=theme_of(axes).ink, linewidth=1.2, zorder=1)
        axes.xaxis.set_major_formatter(_signed())
    axes.set_ylim(-0.8, len(rows) - 0.2)
    axes.set_yticks(range(len(rows)), [row.label for row in rows])
    right = axes.secondary_yaxis("right")
    right.set_yticks(range(len(rows)), [_scores(row, numbers) for row in rows])
    right.tick_params(labelsize=SMALL, colors=theme_of(axes).ink, length=0)
    right.spines["right"].set_visible(False)
    figure.legend(
        loc="outside upper right",
        ncols=2,
        fontsize=SMALL,
        frameon=False,
        labelcolor=theme_of(axes).ink,
    )
    both = f"{names['reference']} / {names['runtime']}"
    unit = f", in {numbers.unit}" if numbers.unit else ""
    note(figure, f"{_zero_text(result)}Right: {numbers.name}, {both}{unit}.")
    return figure


Place = tuple[float, tuple[float, float]]
"""A number that is drawn, and the ends of its bar."""


def _place(
    result: StudyResult, numbers: StudyNumbers, row: StudyRow, execution: str
) -> Place | None:
    """Give the change against float, or the score where there is none to compare with."""
    found = row.executions().get(execution)
    if found is None:
        return None
    value, ends = found.score.value, found.score.interval_95
    if result.has_float_score:
        value = found.change.delta if found.change else None
        ends = found.change.interval_95 if found.change else None
    if value is None:
        return None
    low, high = ends or (value, value)
    return numbers.factor * value, (numbers.factor * low, numbers.factor * high)


def _title(numbers: StudyNumbers) -> str:
    return numbers.name[:1].upper() + numbers.name[1:]


def _axis(result: StudyResult, numbers: StudyNumbers, *, bars: str = "", line: str = " ") -> str:
    """Label an axis of changes, or of scores, with the unit."""
    what, unit = numbers.name, numbers.unit
    if result.has_float_score:
        what, unit = f"change in {numbers.name}", numbers.long_change_unit
    else:
        bars = bars.replace(" paired", "")
    inside = f"{unit}{bars}".removeprefix("; ")
    return f"{what}{line}({inside})" if inside else what


def _zero_text(result: StudyResult) -> str:
    return f"0 is {_baseline_text(result)}. " if result.has_float_score else ""


def _signed() -> FuncFormatter:
    return FuncFormatter(lambda value, _: format_signed(round(value, 6)))


def _interval_bars(
    axes: Axes, execution: str, name: str, points: list[tuple[float, Place]]
) -> None:
    values = np.array([value for _, (value, _) in points])
    ends = np.array([bar for _, (_, bar) in points])
    axes.errorbar(
        values,
        [y for y, _ in points],
        xerr=np.abs(ends.T - values),
        fmt=EXECUTION_MARKERS[execution],
        color=EXECUTION_COLOURS[execution],
        markersize=4.5,
        elinewidth=1.1,
        label=name,
        zorder=3,
    )


def calibration_figure(
    result: StudyResult,
    *,
    names: Mapping[str, str] = EXECUTION_NAMES,
    theme: ThemeName = "light",
) -> Figure | None:
    """Draw how the number of calibration samples matters where all else is the same."""
    numbers = numbers_of(result)
    placed = [row for row in result.measured if _place(result, numbers, row, "reference")]
    curves = calibration_curves(placed)
    if not curves:
        return None
    word = _reference(placed[0]).sample_word
    figure = new_figure(4.6, theme=theme)
    axes = dress(
        figure.add_subplot(),
        title=f"Calibration {word}s",
        x=f"calibration {word}s",
        y=_axis(result, numbers, bars=f", {names['reference']}", line="\n"),
        grid="y",
    )
    sizes = sorted({row.config["calibration_images"] for rows in curves.values() for row in rows})
    step = (max(sizes) - min(sizes)) * 0.012
    for number, (label, rows) in enumerate(list(curves.items())[:MOST_CURVES]):
        places = [at for row in rows if (at := _place(result, numbers, row, "reference"))]
        values = np.array([value for value, _ in places])
        ends = np.array([bar for _, bar in places])
        # Side by side, or the bars of one size would hide each other.
        shift = step * (number - (min(len(curves), MOST_CURVES) - 1) / 2)
        axes.errorbar(
            [row.config["calibration_images"] + shift for row in rows],
            values,
            yerr=np.abs(ends.T - values),
            color=SERIES[number],
            marker=MARKERS[number],
            markersize=5,
            linewidth=1.5,
            linestyle=LINES[number % len(LINES)],  # equal curves lie on each other
            elinewidth=1,
            label=label,
        )
    if result.has_float_score:
        axes.axhline(0, color=theme_of(axes).ink, linewidth=1.2, zorder=1)
        axes.yaxis.set_major_formatter(_signed())
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axes.legend(
        loc="upper center",
        bbox_to_anchor=(0.5, -0.13),
        ncols=2,
        fontsize=SMALL,
        frameon=False,
        labelcolor=theme_of(axes).ink,
    )
    left_out = len(curves) - MOST_CURVES
    more = f" {left_out} more curves are in results.csv." if left_out > 0 else ""
    zero = _zero_text(result).removesuffix(". ")
    bars = "bars: 95 % paired interval" if zero else "Bars: 95 % interval"
    note(figure, f"{zero}{'; ' if zero else ''}{bars}.{more}")
    return figure


def calibration_curves(rows: Iterable[StudyRow]) -> dict[str, list[StudyRow]]:
    """Group rows that differ only in the number of calibration images, by what they share."""
    groups: dict[str, list[StudyRow]] = {}
    for row in rows:
        rest = {k: v for k, v in row.config.items() if k != "calibration_images"}
        groups.setdefault(json.dumps(rest, sort_keys=True), []).append(row)
    curves = {}
    for group in groups.values():
        if len(group) > 1:
            ordered = sorted(group, key=lambda row: int(row.config["calibration_images"]))
            # The label of a curve is that of its rows without the number of images.
            size = f" {ordered[0].config['calibration_images']} ·"
            curves[ordered[0].label.replace(size, " ·", 1)] = ordered
    return curves


def class_change_figure(result: StudyResult) -> Figure | None:
    """Draw which classes pay: the change of each class's accuracy by configuration."""
    told = [row for row in result.measured if _tells_classes(row)]
    rows = sorted(told, key=lambda row: -_change(row).delta)
    if not rows:
        return None
    first = _reference(rows[0])
    values = np.array(
        [[np.nan if c is None else 100 * c for c in _change(row).class_changes] for row in rows]
    )
    # At least a point, or the colours of small changes would be as strong as those of large ones.
    limit = max(float(np.nanmax(np.abs(values), initial=0.0)), 1.0)
    figure = new_figure(1.8 + 0.27 * len(rows))
    axes = dress(figure.add_subplot(), title="Change by class, reference execution")
    image = axes.imshow(values, cmap=CHANGE, vmin=-limit, vmax=limit, aspect="auto")
    axes.set_xticks(range(len(first.classes)), first.classes)
    axes.xaxis.tick_top()
    axes.tick_params(axis="both", length=0)
    axes.set_yticks(range(len(rows)), [row.label for row in rows])
    _hide_spines(axes)
    if len(first.classes) <= 20:
        _write_values(axes, values, limit, "+.1f")
    bar = figure.colorbar(image, ax=axes, location="bottom", shrink=0.5, aspect=40, pad=0.01)
    bar.set_label(f"change of the class's accuracy against float ({POINTS})", fontsize=SMALL)
    bar.ax.tick_params(labelsize=SMALL, length=2)
    bar.outline.set_visible(False)
    images = sorted(set(first.class_total))
    each = f"{images[0]:,}" if len(images) == 1 else f"{images[0]:,} to {images[-1]:,}"
    note(figure, f"{each} images a class: one image is {_one_image(images[0])} {POINTS}.")
    return figure


def _one_image(total: int) -> str:
    return f"{100 / total:.2g}" if total else "no"


def confusion_figure(result: StudyResult) -> Figure | None:
    """Draw where images went: confusion minus the float model's, for the worst and the best."""
    found = sorted(
        (
            (measured.change.delta, row.label, execution, measured)
            for row in result.measured
            for execution, measured in row.executions().items()
            if measured.change and measured.change.confusion_change
        ),
        key=lambda entry: entry[0],
    )
    if not found:
        return None
    # A single configuration is shown once.
    chosen = [("Worst", found[0]), ("Best", found[-1])][: len(found)]
    changes = [np.array(_change_of(entry[3]).confusion_change, float) for _, entry in chosen]
    # At least one image, for a study in which nothing changed.
    limit = max(float(max(np.abs(change).max() for change in changes)), 1.0)
    figure = new_figure(5.3)
    image: Any = None
    for number, ((name, entry), change) in enumerate(zip(chosen, changes, strict=True), start=1):
        delta, label, execution, measured = entry
        axes = dress(
            figure.add_subplot(1, len(chosen), number),
            title=f"{name}: {format_signed(100 * delta, '+.2f')} points, {execution}",
            x="predicted class\n\n" + textwrap.fill(label, 52),
            y="true class" if number == 1 else "",
        )
        # More images on the diagonal are good, more off it are bad.
        better = np.where(np.eye(len(change), dtype=bool), change, -change)
        image = axes.imshow(better, cmap=CHANGE, vmin=-limit, vmax=limit)
        axes.set_xticks(range(len(measured.classes)), measured.classes, rotation=90)
        axes.set_yticks(range(len(measured.classes)), measured.classes)
        axes.tick_params(length=0)
        _hide_spines(axes)
        if len(measured.classes) <= 20:
            _write_values(axes, change, limit, "+.0f", colours=better)
    bar = figure.colorbar(image, ax=figure.axes, location="right", shrink=0.6, aspect=30)
    bar.set_label("images for the worse (−) or the better (+)", fontsize=SMALL)
    bar.ax.tick_params(labelsize=SMALL, length=2)
    bar.outline.set_visible(False)
    note(figure, "Numbers: images more or fewer than with the float model. Empty: no change.")
    return figure


def size_figure(result: StudyResult) -> Figure | None:
    """Draw model size against the score, with the float models where they have one."""
    if not result.measured:
        return None
    numbers = numbers_of(result)
    figure = new_figure(4.6)
    axes = dress(
        figure.add_subplot(),
        title=f"Size against {numbers.name}",
        x="model file (kB)",
        y=f"{numbers.name} ({numbers.unit})" if numbers.unit else numbers.name,
        grid="both",
    )
    for kind, colour in FORMAT_COLOURS.items():
        for execution, marker in EXECUTION_MARKERS.items():
            points = [
                ((row.size_bytes or 0) / 1000, numbers.factor * found.score.value)
                for row in result.measured
                if row.config["format"] == kind
                and (found := row.executions().get(execution))
                and found.score.value is not None
            ]
            if points:
                axes.scatter(
                    [x for x, _ in points],
                    [y for _, y in points],
                    s=28 if execution == "reference" else 62,
                    marker=marker,
                    facecolors=colour if execution == "reference" else "none",
                    edgecolors=colour,
                    linewidths=1.2,
                    label=f"{FORMAT_NAMES[kind]}, {execution}",
                )
    _mark_float_models(axes, result, numbers)
    axes.set_xlim(left=0)
    axes.margins(y=0.12)
    axes.yaxis.set_major_locator(MaxNLocator(7))
    figure.legend(loc="outside right upper", fontsize=SMALL, frameon=False)
    of = many(_reference(result.baseline).images, _reference(result.baseline).sample_word)
    note(figure, f"{of}. The axis of {numbers.name} does not begin at 0.")
    return figure


def _mark_float_models(axes: Axes, result: StudyResult, numbers: StudyNumbers) -> None:
    for name, row in result.baselines.items():
        value = row.reference.score.value if row.reference else None
        if value is None:
            continue
        is_main = row is result.baseline
        axes.scatter(
            [(row.size_bytes or 0) / 1000],
            [numbers.factor * value],
            s=70 if is_main else 170,
            marker="*",
            facecolors=INK if is_main else "none",
            edgecolors=INK if is_main else PURPLE,
            linewidths=1.2,
            label=f"float, {name}",
            zorder=4,
        )
        if is_main:
            axes.axhline(numbers.factor * value, color=INK, linewidth=0.8, zorder=1)


def study_figures(result: StudyResult) -> dict[str, Figure]:
    """Draw every figure that the study has something for, by the name of its file."""
    made = {
        "accuracy": accuracy_figure(result),
        "calibration": calibration_figure(result),
        "classes": class_change_figure(result),
        "confusion": confusion_figure(result),
        "size": size_figure(result),
    }
    return {name: figure for name, figure in made.items() if figure is not None}


def _write_values(axes: Axes, values: Any, limit: float, form: str, *, colours: Any = None) -> None:
    """Write each cell's value; a 0 is left out where cells have colours of their own."""
    for (row, column), value in np.ndenumerate(values):
        text = "" if np.isnan(value) else format_signed(value, form)
        if not text or (colours is not None and text == "0"):
            continue
        shade = value if colours is None else colours[row, column]
        axes.text(
            column,
            row,
            text,
            ha="center",
            va="center",
            fontsize=SMALL - 1,
            color=FAINT if text == "0" else ink_on(shade, limit),
        )


def _hide_spines(axes: Axes) -> None:
    for spine in axes.spines.values():
        spine.set_visible(False)


def _reference(row: StudyRow) -> Measured:
    assert row.reference is not None, row.label
    return row.reference


def _change_of(measured: Measured) -> Change:
    assert measured.change is not None
    return measured.change


def _change(row: StudyRow) -> Change:
    return _change_of(_reference(row))


def _tells_classes(row: StudyRow) -> bool:
    found = row.reference
    return bool(found and found.counted and found.change and found.change.class_changes)


def _scores(row: StudyRow, numbers: StudyNumbers) -> str:
    runtime = numbers.value(row.runtime.score.value) if row.runtime else "–"
    return f"{numbers.value(_reference(row).score.value)} / {runtime}"


def _baseline_text(result: StudyResult) -> str:
    found, numbers = _reference(result.baseline), numbers_of(result)
    of = many(found.images, found.sample_word)
    if found.score.unit == "share":
        return f"the float model: {numbers.with_unit(found.score.value)} of {of}"
    return f"the float model: {numbers.with_unit(found.score.value)} on {of}"
