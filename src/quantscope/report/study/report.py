"""Write a study's report: one HTML file that needs nothing else, and Markdown with its figures."""

import base64
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from quantscope.data import Samples
from quantscope.errors import QuantscopeError
from quantscope.files import write_whole
from quantscope.plain_text import many
from quantscope.report.figures import png_bytes
from quantscope.report.html import facts_html, list_html, table_html, text_html
from quantscope.report.page import STYLE, page
from quantscope.report.study.figures import study_figures
from quantscope.report.study.harm import HARM_STYLE, harm_html, harm_lines, sample_table
from quantscope.report.study.numbers import StudyNumbers, numbers_of
from quantscope.report.table import Column, Table
from quantscope.study import Measured, StudyResult, StudyRow
from quantscope.study.harm import Harm

LEGEND = (
    "Reference is the arithmetic that the model file states, runtime the fused kernels that ship; "
    "a PT2E program has only a reference here. The change is against {against} on the same "
    "{samples}, with its paired 95 % interval{test}. The kernel gap is runtime minus "
    "reference; * marks gaps with p < 0.05.{classes}"
)


def captions(result: StudyResult) -> dict[str, str]:
    """Say what each figure shows."""
    name = numbers_of(result).name
    title = name[:1].upper() + name[1:]
    against = " against the float model" if result.has_float_score else ""
    return {
        "accuracy": f"{title} of every configuration{against}, in both executions.",
        "calibration": f"{title} by the number of calibration {_samples(result)}, all else the "
        f"same.",
        "classes": "Change of every class's accuracy by configuration.",
        "confusion": "Confusion minus the float model's, for the worst and the best.",
        "size": f"Size of the model file against {name}.",
    }


def headings(result: StudyResult) -> tuple[str, ...]:
    """Name the columns of the table of configurations, with units."""
    numbers = numbers_of(result)
    unit = f" {numbers.unit}" if numbers.unit else ""
    from_what = "change" if result.has_float_score else "from the best"
    return (
        "configuration",
        f"reference{unit}",
        f"{numbers.heading(from_what)} [95 %]",
        "p",
        f"runtime{unit}",
        numbers.heading("kernel gap"),
        *(["worst class, points"] if _has_classes(result) else []),
        "size, kB",
        "integer layers",
        "s",
    )


def legend(result: StudyResult) -> str:
    """Say what the columns of the table mean."""
    changes = [change for row in result.measured if (change := result.change_of(row))]
    tests = sorted({change.p_of for change in changes})
    names = {"McNemar exact": "McNemar's exact p"}
    test = " or ".join(names.get(test, f"the p of a {test}") for test in tests)
    return LEGEND.format(
        against=numbers_of(result).against,
        samples=_samples(result),
        test=f" and {test}" if test else "",
        classes=" The worst class is by reference." if _has_classes(result) else "",
    )


def _has_classes(result: StudyResult) -> bool:
    return any(row.reference and row.reference.counted for row in result.measured)


def _samples(result: StudyResult) -> str:
    found = result.baseline.reference
    return f"{found.sample_word if found else 'sample'}s"


def write_report(
    result: StudyResult,
    folder: Path,
    *,
    harm: Harm | None = None,
    samples: Samples | None = None,
) -> Path:
    """Write `report.html`, `report.md` and `figures/*.png`; give the HTML file's path.

    `harm` is who is harmed, and `samples` those that the study measured with, for their pictures.
    """
    pictures = {name: png_bytes(figure) for name, figure in study_figures(result).items()}
    try:
        (folder / "figures").mkdir(exist_ok=True)
    except OSError as error:
        raise QuantscopeError(f"Cannot write into {folder}: {error.strerror}") from None
    for name, picture in pictures.items():
        write_whole(folder / "figures" / f"{name}.png", picture)
    write_whole(folder / "report.md", report_markdown(result, list(pictures), harm).encode())
    html = report_html(result, pictures, harm, samples)
    write_whole(folder / "report.html", html.encode())
    return folder / "report.html"


def summary_lines(result: StudyResult) -> list[str]:
    """Say what a reader wants first, one sentence each."""
    numbers = numbers_of(result)
    lines = []
    for name, row in result.baselines.items():
        if found := row.reference:
            lines += [_float_line(name, found, numbers)] if found.score.value is not None else []
    if not result.has_float_score:
        unit = f", in {numbers.unit}" if numbers.unit else ""
        lines.append(
            f"Measured is the {numbers.name}{unit}, on "
            f"{many(result.baseline.reference.images, _samples(result)[:-1])}."
            if result.baseline.reference
            else f"Measured is the {numbers.name}{unit}."
        )
    lines.append(_count_line(result))
    if result.measured:
        lines.append(_ends_line(result, numbers))
    if gaps := [row for row in result.measured if row.kernel_gap and row.kernel_gap.is_real]:
        lines.append(_gap_line(gaps, result, numbers))
    return lines


def _float_line(name: str, found: Measured, numbers: StudyNumbers) -> str:
    if found.is_accuracy:
        low, high = (100 * end for end in found.interval_95)
        return (
            f"The float model ({name}) is right on {found.correct:,} of {found.images:,} "
            f"{found.sample_word}s: {100 * found.accuracy:.2f} % [{low:.2f}, {high:.2f}]."
        )
    ends = found.score.interval_95
    text = "" if ends is None else " [{}, {}]".format(*map(numbers.value, ends))
    return (
        f"The float model ({name}) has {numbers.name} {numbers.with_unit(found.score.value)}{text} "
        f"on {many(found.images, found.sample_word)}."
    )


def _ends_line(result: StudyResult, numbers: StudyNumbers) -> str:
    """Name the best and the worst configuration."""
    best = max(result.measured, key=result.merit)
    worst = min(result.measured, key=result.merit)

    def text(row: StudyRow) -> str:
        found = row.reference
        assert found is not None
        if found.change is not None:
            return numbers.in_unit(found.change.delta)
        return numbers.with_unit(found.score.value)

    return (
        f"By reference, {text(best)} is the best ({best.label}) and {text(worst)} the worst "
        f"({worst.label})."
    )


def _gap_line(gaps: list[StudyRow], result: StudyResult, numbers: StudyNumbers) -> str:
    """Say in how many configurations the kernels matter, and where the most."""
    sign = 1 if result.score.higher_is_better else -1

    def gain(row: StudyRow) -> float:
        return sign * (row.kernel_gap.delta or 0.0) if row.kernel_gap else 0.0

    widest = min(gaps, key=gain)
    gap = widest.kernel_gap
    assert gap is not None and gap.delta is not None
    return (
        f"The kernels that ship score otherwise than the stated arithmetic (p < 0.05) in "
        f"{len(gaps)} of them, most of all {widest.label} ({numbers.in_unit(gap.delta)}). "
        f"{gap.explanation or ''}".strip()
    )


def _count_line(result: StudyResult) -> str:
    text = f"{len(result.measured)} {_plural('configuration', len(result.measured))} measured"
    text += f", {len(result.failed)} failed" if result.failed else ""
    return text + (f", {len(result.skipped)} not possible." if result.skipped else ".")


def _plural(noun: str, count: int) -> str:
    return noun if count == 1 else f"{noun}s"


def configuration_table(result: StudyResult) -> Table:
    """Make a table with a row for each configuration that was measured."""
    columns = (Column(heading, right=place > 0) for place, heading in enumerate(headings(result)))
    cells = tuple(table_cells(row, result) for row in result.measured)
    return Table("Configurations", tuple(columns), cells)


def table_cells(row: StudyRow, result: StudyResult) -> tuple[str, ...]:
    """Give one text for each of `headings`."""
    reference, runtime, gap = row.reference, row.runtime, row.kernel_gap
    assert reference is not None
    numbers, change = numbers_of(result), result.change_of(row)
    text, worst = "–", "–"
    if change is not None:
        low, high = map(numbers.change, change.interval_95)
        text = f"{numbers.change(change.delta)} [{low}, {high}]"
        if change.worst_class_change is not None:
            points = f"{100 * change.worst_class_change:+.2f}".replace("-", "−")
            worst = f"{change.worst_class} {points}"
    gap_text = "–"
    if gap is not None and gap.delta is not None:
        gap_text = f"{numbers.change(gap.delta)}{'*' if gap.is_real else ''}"
    return (
        row.label,
        numbers.value(reference.score.value),
        text,
        f"{change.p_value:.2g}" if change else "–",
        numbers.value(runtime.score.value) if runtime else "–",
        gap_text,
        *([worst] if _has_classes(result) else []),
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


def report_markdown(result: StudyResult, figures: Iterable[str], harm: Harm | None = None) -> str:
    """Write the report as Markdown; figures are linked at `figures/NAME.png`."""
    lines = [f"# {_plain(_title(result))}", "", f"Made from {_plain(result.name)}.", ""]
    lines += [f"- {_plain(line)}" for line in summary_lines(result)]
    said = captions(result)
    for name in figures:
        lines += ["", f"![{_plain(said[name])}](figures/{name}.png)", "", f"*{_plain(said[name])}*"]
    if result.measured:
        lines += ["", "## Configurations", "", *_table_markdown(configuration_table(result))]
        lines += ["", _plain(legend(result))]
    if harm is not None:
        lines += ["", "## Who is harmed", "", *(f"- {_plain(line)}" for line in harm_lines(harm))]
        if harm.worst:
            lines += ["", *_table_markdown(sample_table(harm))]
    if result.failed:
        lines += ["", "## Failed", ""]
        lines += [f"- {_plain(row.label)}: {_plain(row.reason or '')}" for row in result.failed]
    if result.skipped:
        lines += ["", "## Not possible", "", *(f"- {_plain(line)}" for line in result.skipped)]
    lines += ["", "## Made with", ""]
    lines += [f"- {name}: {_plain(text)}" for name, text in provenance_lines(result)]
    return "\n".join(lines) + "\n"


def _table_markdown(table: Table) -> list[str]:
    """Write a table; all its columns but the first stand right where they are numbers."""
    heads = [_plain(column.heading) for column in table.columns]
    marks = ["--:" if column.right else "---" for column in table.columns]
    rows = [[_plain(cell) for cell in row] for row in table.rows]
    return [
        f"| {' | '.join(heads)} |",
        f"|{'|'.join(marks)}|",
        *(f"| {' | '.join(r)} |" for r in rows),
    ]


def _plain(text: str) -> str:
    """Escape what Markdown would take for anything but text."""
    # The backslash goes first, or it would escape the others' escapes.
    for mark in "\\`*_|<>[]#":
        text = text.replace(mark, f"\\{mark}")
    return " ".join(text.split())


def report_html(
    result: StudyResult,
    pictures: dict[str, bytes],
    harm: Harm | None = None,
    samples: Samples | None = None,
) -> str:
    """Write the report as one file: styles and PNG figures inside, nothing fetched, no scripts."""
    parts = [f"<h1>{text_html(_title(result))}</h1>"]
    parts.append(f'<p class="faint">Made from {text_html(result.name)}.</p>')
    parts.append(list_html(summary_lines(result)))
    said = captions(result)
    for name, picture in pictures.items():
        data = base64.b64encode(picture).decode()
        caption = text_html(said[name])
        parts.append(
            f'<figure><img alt="{caption}" src="data:image/png;base64,{data}">'
            f"<figcaption>{caption}</figcaption></figure>"
        )
    if result.measured:
        parts += ["<h2>Configurations</h2>", table_html(configuration_table(result))]
        parts.append(f'<p class="faint">{text_html(legend(result))}</p>')
    if harm is not None:
        parts.append(harm_html(harm, samples))
    if result.failed:
        parts.append("<h2>Failed</h2>")
        parts.append(list_html(f"{row.label}: {row.reason}" for row in result.failed))
    if result.skipped:
        parts += ["<h2>Not possible</h2>", list_html(result.skipped)]
    parts.append("<h2>Made with</h2>")
    parts.append(f'<dl class="facts">{facts_html(provenance_lines(result))}</dl>')
    body = "\n".join(["<main>", *parts, "</main>"])
    return page(_title(result), body, style=STYLE + _STYLE + HARM_STYLE)


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
