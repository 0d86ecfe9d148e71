"""Show the ranking of layers by what their quantization costs as text."""

from collections.abc import Iterator

from quantscope.plain_text import printable
from quantscope.report.table import Column, Table
from quantscope.report.wording import origin_text, rounded
from quantscope.study.sensitivity import Base, RowMode, Sensitivity, SensitivityRow

_BAR = 16


def sensitivity_lines(result: Sensitivity, width: int | None = None) -> Iterator[str]:
    """Write the models' accuracies, a ranking for each mode, and what was not switched."""
    yield origin_text(result)
    bases = {"quantized": result.quantized, "with all of it off": result.all_off}
    yield f"accuracy: float {result.float_accuracy:.2%}" + "".join(
        f", {name} {base.accuracy:.2%} ({_agreement(base, result.scores)})"
        for name, base in bases.items()
        if base is not None
    )
    for mode in result.modes:
        yield ""
        table = ranking_table(result, mode)
        yield table.title
        yield from table.lines(width)
    if result.not_switched:
        yield ""
        yield "not switched"
        yield from (f"  {printable(t.layer)}: {t.reason}" for t in result.not_switched)
    yield from (printable(note) for note in result.notes)


def ranking_table(result: Sensitivity, mode: RowMode) -> Table:
    """Rank the layers as they were switched in one mode, the most sensitive first."""
    rows = result.ranked(mode)
    weights = _weights(rows)
    title = {
        "disable": "each layer's quantization off, the most sensitive first: change of accuracy in "
        f"points with its 95 % interval, SQNR of the {result.scores} and what it wins, in dB",
        "enable": "each layer's quantization alone, the most sensitive first: change of accuracy "
        f"in points with its 95 % interval, and SQNR of the {result.scores} in dB",
    }[mode]
    wins = mode == "disable"
    headings = ["accuracy", "interval", "gained", "lost", "SQNR", *(["wins"] if wins else [])]
    return Table(
        title,
        (
            Column("", right=True),
            Column("layer", kind="name"),
            Column("operator", spare=2),
            *(Column(h, right=True, spare=int(h in ("gained", "lost"))) for h in headings),
            Column("", kind="bar"),
        ),
        tuple(
            (
                str(row.rank),
                printable(row.layer),
                row.op_type,
                rounded(100 * row.delta, "+.2f"),
                " to ".join(rounded(100 * end, "+.2f") for end in row.interval_95),
                str(row.gained),
                str(row.lost),
                "exact" if row.exact else _number(row.logit_sqnr_db, ".2f"),
                *([_number(row.sqnr_change_db, "+.2f")] if wins else []),
                "█" * round(_BAR * weight),
            )
            for row, weight in zip(rows, weights, strict=True)
        ),
    )


def _weights(rows: tuple[SensitivityRow, ...]) -> list[float]:
    """Give the lengths of the bars, the longest 1: decibels won, or the size of the error alone."""
    found = [
        max(row.sqnr_change_db or 0.0, 0.0)
        if row.mode == "disable"
        else 0.0
        if row.logit_sqnr_db is None
        else 10 ** (-row.logit_sqnr_db / 20)
        for row in rows
    ]
    return [each / (max(found) or 1.0) for each in found]


def _number(value: float | None, form: str) -> str:
    return "–" if value is None else rounded(value, form)


def _agreement(base: Base, scores: str) -> str:
    if base.exact:
        return f"the same {scores}"
    if base.logit_sqnr_db is None:
        return f"{scores} that are not finite"
    return f"SQNR of the {scores} {base.logit_sqnr_db:.1f} dB"
