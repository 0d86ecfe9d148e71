"""Show a study as a terminal does: the float models, a table, and what went wrong."""

from collections.abc import Iterator

from quantscope.plain_text import many
from quantscope.report.table import Column, Line, Table
from quantscope.study import StudyResult, StudyRow

_NUMBERS = ("reference", "delta", "runtime", "kernel gap", "worst class", "kB", "integer")


def study_view(result: StudyResult) -> Iterator[Line | Table]:
    """Show what a person wants to know when the study ends; the report has more."""
    for name, baseline in result.baselines.items():
        if (found := baseline.reference) is not None:
            yield Line(
                f"float {name}: {found.accuracy:.2%} of {many(found.images, 'image')}, reference"
            )
    yield study_table(result)
    for row in result.failed:
        yield Line(f"failed: {row.label}: {row.reason}")
    for name in result.damaged:
        yield Line(f"damaged: a row, set aside as {name}; what the study needs is done again")
    for line in result.skipped:
        yield Line(f"not possible: {line}")


def study_table(result: StudyResult) -> Table:
    """Make a table with a row for each configuration that was measured."""
    numbers = (Column(heading, right=True) for heading in _NUMBERS)
    return Table("", (Column("configuration"), *numbers), tuple(map(_cells, result.measured)))


def _cells(row: StudyRow) -> tuple[str, ...]:
    reference, runtime, gap = row.reference, row.runtime, row.kernel_gap
    assert reference is not None and reference.change is not None
    change = reference.change
    low, high = (100 * end for end in change.interval_95)
    worst = change.worst_class_change
    return (
        row.label,
        f"{reference.accuracy:.2%}",
        f"{100 * change.delta:+.2f} [{low:+.2f}, {high:+.2f}]",
        f"{runtime.accuracy:.2%}" if runtime else "–",
        f"{100 * gap.delta:+.2f}{'*' if gap.is_real else ''}" if gap else "–",
        f"{change.worst_class} {100 * worst:+.1f}" if worst is not None else "–",
        f"{(row.size_bytes or 0) / 1000:.0f}",
        f"{gap.integer_layers}/{gap.computing_layers}" if gap else "–",
    )
