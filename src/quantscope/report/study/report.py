"""Write a study's report: one HTML file that needs nothing else, and Markdown with its figures."""

import base64
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from quantscope.errors import QuantscopeError
from quantscope.files import write_whole
from quantscope.report.figures import png_bytes
from quantscope.report.html import facts_html, list_html, table_html, text_html
from quantscope.report.page import STYLE, page
from quantscope.report.study.figures import study_figures
from quantscope.report.table import Column, Table
from quantscope.study import StudyResult, StudyRow

CAPTIONS = {
    "accuracy": "Accuracy of every configuration against the float model, in both executions.",
    "calibration": "Accuracy by the number of calibration images, all else the same.",
    "classes": "Change of every class's accuracy by configuration.",
    "confusion": "Confusion minus the float model's, for the worst and the best.",
    "size": "Size of the model file against accuracy.",
}
COLUMNS = (
    "configuration",
    "reference %",
    "change, points [95 %]",
    "p",
    "runtime %",
    "kernel gap, points",
    "worst class, points",
    "size, kB",
    "integer layers",
    "s",
)
LEGEND = (
    "Reference is the arithmetic that the model file states, runtime the fused kernels that ship; "
    "a PT2E program has only a reference here. The change is against the float model on the same "
    "images, with its paired 95 % interval and McNemar's exact p. The kernel gap is runtime minus "
    "reference; * marks gaps with p < 0.05. The worst class is by reference."
)


def write_report(result: StudyResult, folder: Path) -> Path:
    """Write `report.html`, `report.md` and `figures/*.png`; give the HTML file's path."""
    pictures = {name: png_bytes(figure) for name, figure in study_figures(result).items()}
    try:
        (folder / "figures").mkdir(exist_ok=True)
    except OSError as error:
        raise QuantscopeError(f"Cannot write into {folder}: {error.strerror}") from None
    for name, picture in pictures.items():
        write_whole(folder / "figures" / f"{name}.png", picture)
    write_whole(folder / "report.md", report_markdown(result, list(pictures)).encode())
    write_whole(folder / "report.html", report_html(result, pictures).encode())
    return folder / "report.html"


def summary_lines(result: StudyResult) -> list[str]:
    """Say what a reader wants first, one sentence each."""
    lines = []
    for name, row in result.baselines.items():
        if found := row.reference:
            low, high = (100 * end for end in found.interval_95)
            lines.append(
                f"The float model ({name}) is right on {found.correct:,} of {found.images:,} "
                f"images: {100 * found.accuracy:.2f} % [{low:.2f}, {high:.2f}]."
            )
    lines.append(_count_line(result))
    if result.measured:
        best = max(result.measured, key=_delta)
        worst = min(result.measured, key=_delta)
        lines.append(
            f"By reference, {_points(_delta(best))} points is the best ({best.label}) and "
            f"{_points(_delta(worst))} the worst ({worst.label})."
        )
    if gaps := [row for row in result.measured if row.kernel_gap and row.kernel_gap.is_real]:
        widest = min(gaps, key=lambda row: row.kernel_gap.delta if row.kernel_gap else 0.0)
        gap = widest.kernel_gap
        assert gap is not None
        lines.append(
            f"The kernels that ship score otherwise than the stated arithmetic (p < 0.05) in "
            f"{len(gaps)} of them, most of all {widest.label} ({_points(gap.delta)} points). "
            f"{gap.explanation or ''}".strip()
        )
    return lines


def _count_line(result: StudyResult) -> str:
    text = f"{len(result.measured)} {_plural('configuration', len(result.measured))} measured"
    text += f", {len(result.failed)} failed" if result.failed else ""
    return text + (f", {len(result.skipped)} not possible." if result.skipped else ".")


def _plural(noun: str, count: int) -> str:
    return noun if count == 1 else f"{noun}s"


def _delta(row: StudyRow) -> float:
    assert row.reference is not None and row.reference.change is not None
    return row.reference.change.delta


def _points(fraction: float) -> str:
    return f"{100 * fraction:+.2f}".replace("-", "−")


def configuration_table(result: StudyResult) -> Table:
    """Make a table with a row for each configuration that was measured."""
    columns = (Column(heading, right=place > 0) for place, heading in enumerate(COLUMNS))
    return Table("Configurations", tuple(columns), tuple(map(table_cells, result.measured)))


def table_cells(row: StudyRow) -> tuple[str, ...]:
    """Give one text for each of `COLUMNS`."""
    reference, runtime, gap = row.reference, row.runtime, row.kernel_gap
    assert reference is not None and reference.change is not None
    change = reference.change
    low, high = change.interval_95
    worst = change.worst_class_change
    return (
        row.label,
        f"{100 * reference.accuracy:.2f}",
        f"{_points(change.delta)} [{_points(low)}, {_points(high)}]",
        f"{change.p_value:.2g}",
        f"{100 * runtime.accuracy:.2f}" if runtime else "–",
        f"{_points(gap.delta)}{'*' if gap.is_real else ''}" if gap else "–",
        f"{change.worst_class} {_points(worst)}" if worst is not None else "–",
        f"{(row.size_bytes or 0) / 1000:.1f}",
        f"{gap.integer_layers} of {gap.computing_layers}" if gap else "–",
        f"{row.seconds:.1f}" if row.seconds is not None else "–",
    )


def provenance_lines(result: StudyResult) -> list[tuple[str, str]]:
    """Give names and values. A study that was continued elsewhere has several of some."""
    titles = {
        "float_model": "Float model",
        "data": "Images",
        "cpu": "CPU",
        "platform": "System",
        "threads": "Threads a row",
        "versions": "Versions",
    }
    found = result.provenance
    return [
        (titles[key], "; ".join(_value_text(value) for value in found[key]))
        for key in titles
        if key in found
    ]


def _value_text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(
            f"{name} {text}" if name != "name" else str(text) for name, text in value.items()
        )
    return str(value)


def _title(result: StudyResult) -> str:
    model = result.baseline.facts["provenance"]["float_model"]["name"]
    return f"Quantization study of {model}"


def report_markdown(result: StudyResult, figures: Iterable[str]) -> str:
    """Write the report as Markdown; figures are linked at `figures/NAME.png`."""
    lines = [f"# {_plain(_title(result))}", "", f"Made from {_plain(result.name)}.", ""]
    lines += [f"- {_plain(line)}" for line in summary_lines(result)]
    for name in figures:
        lines += ["", f"![{CAPTIONS[name]}](figures/{name}.png)", "", f"*{CAPTIONS[name]}*"]
    if result.measured:
        lines += ["", "## Configurations", "", f"| {' | '.join(COLUMNS)} |"]
        lines += ["|---" + "|--:" * (len(COLUMNS) - 1) + "|"]
        lines += [
            f"| {' | '.join(_plain(cell) for cell in row)} |"
            for row in configuration_table(result).rows
        ]
        lines += ["", LEGEND.replace("*", "\\*")]
    if result.failed:
        lines += ["", "## Failed", ""]
        lines += [f"- {_plain(row.label)}: {_plain(row.reason or '')}" for row in result.failed]
    if result.skipped:
        lines += ["", "## Not possible", "", *(f"- {_plain(line)}" for line in result.skipped)]
    lines += ["", "## Made with", ""]
    lines += [f"- {name}: {_plain(text)}" for name, text in provenance_lines(result)]
    return "\n".join(lines) + "\n"


def _plain(text: str) -> str:
    """Escape what Markdown would take for anything but text."""
    # The backslash goes first, or it would escape the others' escapes.
    for mark in "\\`*_|<>[]#":
        text = text.replace(mark, f"\\{mark}")
    return " ".join(text.split())


def report_html(result: StudyResult, pictures: dict[str, bytes]) -> str:
    """Write the report as one file: styles and PNG figures inside, nothing fetched, no scripts."""
    parts = [f"<h1>{text_html(_title(result))}</h1>"]
    parts.append(f'<p class="faint">Made from {text_html(result.name)}.</p>')
    parts.append(list_html(summary_lines(result)))
    for name, picture in pictures.items():
        data = base64.b64encode(picture).decode()
        caption = text_html(CAPTIONS[name])
        parts.append(
            f'<figure><img alt="{caption}" src="data:image/png;base64,{data}">'
            f"<figcaption>{caption}</figcaption></figure>"
        )
    if result.measured:
        parts += ["<h2>Configurations</h2>", table_html(configuration_table(result))]
        parts.append(f'<p class="faint">{text_html(LEGEND)}</p>')
    if result.failed:
        parts.append("<h2>Failed</h2>")
        parts.append(list_html(f"{row.label}: {row.reason}" for row in result.failed))
    if result.skipped:
        parts += ["<h2>Not possible</h2>", list_html(result.skipped)]
    parts.append("<h2>Made with</h2>")
    parts.append(f'<dl class="facts">{facts_html(provenance_lines(result))}</dl>')
    body = "\n".join(["<main>", *parts, "</main>"])
    return page(_title(result), body, style=STYLE + _STYLE)


_STYLE = """
main { max-width: 66rem; margin: 0 auto; padding: 2.5rem 1.25rem 4rem; }
h1 { font-size: 1.75rem; line-height: 1.25; margin: 0 0 .25rem; }
h2 { font-size: 1.2rem; margin: 2.5rem 0 .75rem; }
figure { margin: 2rem 0; }
img { display: block; width: 100%; height: auto; background: #ffffff; padding: .75rem;
  border: 1px solid var(--line); border-radius: .5rem; }
figcaption { margin-top: .5rem; color: var(--faint); font-size: .875rem; }
th, td { padding: .4rem .7rem; }
tbody tr:nth-child(even) { background: var(--panel); }
"""
