"""Show the ranking of layers by what their quantization costs as text."""

from collections.abc import Iterator

from quantscope.plain_text import printable
from quantscope.report.table import Column, Table
from quantscope.report.wording import format_rounded, number, origin_text
from quantscope.run import MEASURES
from quantscope.study.sensitivity import Base, RowMode, Sensitivity, SensitivityRow

_BAR = 16


def sensitivity_lines(result: Sensitivity, width: int | None = None) -> Iterator[str]:
    """Write the models' accuracies, a ranking for each mode, and what was not switched."""
    yield origin_text(result)
    bases = {"quantized": result.quantized, "with all of it off": result.all_off}
    found = [
        f"{name} {_value(base.score, result.unit)} ({_agreement(base, result.scores)})"
        for name, base in bases.items()
        if base is not None
    ]
    if result.float_score is not None:
        found.insert(0, f"float {_value(result.float_score, result.unit)}")
    yield f"{_short(result)}: {', '.join(found)}"
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
    weights = _weights(rows, by_score=result.by_score, higher=result.higher_is_better)
    wins, what = mode == "disable", _short(result)
    unit = "points" if result.unit == "share" else result.unit
    change = f"change of {what}{f' in {unit}' if unit else ''} with its 95 % interval"
    title = {
        "disable": f"each layer's quantization off, the most sensitive first: {change}, "
        f"SQNR of the {result.scores} and what it wins, in dB",
        "enable": f"each layer's quantization alone, the most sensitive first: {change}, "
        f"and SQNR of the {result.scores} in dB",
    }[mode]
    sides = ["gained", "lost"] if result.unit == "share" else ["better", "worse"]
    score = "accuracy" if what == "accuracy" else "score"
    headings = [score, "interval", *sides, "SQNR", *(["wins"] if wins else [])]
    return Table(
        title,
        (
            Column("", right=True),
            Column("layer", kind="name"),
            Column("operator", spare=2),
            *(Column(h, right=True, spare=int(h in sides)) for h in headings),
            Column("", kind="bar"),
        ),
        tuple(
            (
                str(row.rank),
                printable(row.layer),
                row.op_type,
                _change(row.delta, result.unit),
                " to ".join(_change(end, result.unit) for end in row.interval_95 or ()) or "–",
                str(row.gained),
                str(row.lost),
                "exact" if row.exact else _number(row.logit_sqnr_db, ".2f"),
                *([_number(row.sqnr_change_db, "+.2f")] if wins else []),
                "█" * round(_BAR * weight),
            )
            for row, weight in zip(rows, weights, strict=True)
        ),
    )


def _weights(
    rows: tuple[SensitivityRow, ...], *, by_score: bool = False, higher: bool = True
) -> list[float]:
    """Give the lengths of the bars, the longest 1: decibels won, or the size of the error alone.

    Where the score ranks, it is what the score wins, or loses alone.
    """
    found = (
        _score_weights(rows, higher=higher)
        if by_score
        else [
            max(row.sqnr_change_db or 0.0, 0.0)
            if row.mode == "disable"
            else 0.0
            if row.logit_sqnr_db is None
            else 10 ** (-row.logit_sqnr_db / 20)
            for row in rows
        ]
    )
    return [each / (max(found, default=0.0) or 1.0) for each in found]


def _score_weights(rows: tuple[SensitivityRow, ...], *, higher: bool) -> list[float]:
    signs = {"disable": 1.0 if higher else -1.0, "enable": -1.0 if higher else 1.0}
    return [max(signs[row.mode] * (row.delta or 0.0), 0.0) for row in rows]


def _number(value: float | None, form: str) -> str:
    return "–" if value is None else format_rounded(value, form)


def _short(result: Sensitivity) -> str:
    return "accuracy" if result.measure == MEASURES["top1"].name else result.measure


def _value(value: float | None, unit: str) -> str:
    """Write a score: a share in percent, decibels with two digits, anything else with four."""
    if value is None:
        return "–"
    if unit == "share":
        return f"{value:.2%}"
    return f"{value:.2f} dB" if unit == "dB" else f"{number(value)} {unit}".rstrip()


def _change(value: float | None, unit: str) -> str:
    if value is None:
        return "–"
    if unit in ("share", "dB"):
        return format_rounded(100 * value if unit == "share" else value, "+.2f")
    return format_rounded(value, "+.3g")


def _agreement(base: Base, scores: str) -> str:
    if base.exact:
        return f"the same {scores}"
    if base.logit_sqnr_db is None:
        return f"{scores} that are not finite"
    return f"SQNR of the {scores} {base.logit_sqnr_db:.1f} dB"
