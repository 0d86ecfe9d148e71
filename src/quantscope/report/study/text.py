"""Show a study as a terminal does: the float models, a table, and what went wrong."""

from collections.abc import Iterator

from quantscope.plain_text import many
from quantscope.report.study.harm import harm_lines
from quantscope.report.study.numbers import StudyNumbers, numbers_of
from quantscope.report.table import Column, Line, Table
from quantscope.study import StudyResult, StudyRow
from quantscope.study.harm import Harm


def study_view(result: StudyResult, harm: Harm | None = None) -> Iterator[Line | Table]:
    """Show what a person wants to know when the study ends; the report has more."""
    numbers = numbers_of(result)
    if not result.score.is_accuracy:
        better = "" if result.score.higher_is_better else ", lower is better"
        data = result.baseline.facts["provenance"]["data"]
        yield Line(
            f"measured: {numbers.name}{f' in {numbers.unit}' if numbers.unit else ''}{better}, on "
            f"{data['images']:,} of {data['name']}"
        )
    for name, baseline in result.baselines.items():
        if (found := baseline.reference) is not None and found.score.value is not None:
            value = numbers.value(found.score.value) + (numbers.unit if numbers.unit == "%" else "")
            unit = "" if numbers.unit in ("%", "") else f" {numbers.unit}"
            yield Line(
                f"float {name}: {value}{unit} of {many(found.images, found.sample_word)}, reference"
            )
    yield study_table(result)
    if not result.has_float_score and result.best is not None and len(result.measured) > 1:
        yield Line(f"delta: from the best, {result.best.label}, sample by sample")
    if harm is not None:
        yield from map(Line, harm_lines(harm))
    # A reason that many have, such as a framework that does not fit, is told once.
    by_reason: dict[str | None, list[str]] = {}
    for row in result.failed:
        by_reason.setdefault(row.reason, []).append(row.label)
    for reason, labels in by_reason.items():
        more = f" and {len(labels) - 1:,} more" if len(labels) > 1 else ""
        yield Line(f"failed: {labels[0]}{more}: {reason}")
    for name in result.damaged:
        yield Line(f"damaged: a row, set aside as {name}; what the study needs is done again")
    for line in result.skipped:
        yield Line(f"not possible: {line}")


def study_table(result: StudyResult) -> Table:
    """Make a table with a row for each configuration that was measured."""
    numbers = numbers_of(result)
    names = ["reference", "delta", "runtime", "kernel gap", "worst class", "kB", "integer"]
    if not _has_classes(result):
        names.remove("worst class")
    return Table(
        "",
        (Column("configuration"), *(Column(heading, right=True) for heading in names)),
        tuple(_cells(row, result, numbers) for row in result.measured),
    )


def _has_classes(result: StudyResult) -> bool:
    return any(row.reference and row.reference.counted for row in result.measured)


def _cells(row: StudyRow, result: StudyResult, numbers: StudyNumbers) -> tuple[str, ...]:
    reference, runtime, gap = row.reference, row.runtime, row.kernel_gap
    assert reference is not None
    change = result.change_of(row)
    worst = change.worst_class_change if change else None
    percent = "%" if numbers.unit == "%" else ""

    def plain(value: float) -> str:
        return numbers.change(value).replace("−", "-")

    delta = "–"
    if change is not None:
        low, high = change.interval_95
        delta = f"{plain(change.delta)} [{plain(low)}, {plain(high)}]"
    gap_text = "–"
    if gap is not None and gap.delta is not None:
        gap_text = f"{plain(gap.delta)}{'*' if gap.is_real else ''}"
    worst_text = "–"
    if change is not None and worst is not None:
        worst_text = f"{change.worst_class} {100 * worst:+.1f}"
    return (
        row.label,
        f"{numbers.value(reference.score.value)}{percent}",
        delta,
        f"{numbers.value(runtime.score.value)}{percent}" if runtime else "–",
        gap_text,
        *([worst_text] if _has_classes(result) else []),
        f"{(row.size_bytes or 0) / 1000:.0f}",
        f"{gap.integer_layers}/{gap.computing_layers}" if gap else "–",
    )
