"""Say what a calibration set does to a network's ranges: sentences, and a table of all tensors."""

from collections.abc import Iterator

from quantscope.plain_text import many, printable
from quantscope.report.table import Column, Number, Table
from quantscope.report.wording import format_rounded, number
from quantscope.study.calibration import CalibrationInspection, RangeEnd, TensorRange

_MOST = 3
"""The tensors of a kind that are named; the table has all."""

_EXPLAINED = {
    "low": "the least value of the calibration samples",
    "high": "the largest value of the calibration samples",
    "set by": "the sample that alone has the end that moves most without it",
    "takes": "how much of the range that sample takes: without it, the range is so much narrower",
    "grew": "how much of the range came with the second half of the samples",
    "beyond": "how many of the other samples have a value outside the range",
    "farthest": "how far the farthest of them goes outside, as a share of the range",
    "its sample": "the sample that goes farthest",
    "uses": "how much of the range the other samples use",
}


def calibration_view(result: CalibrationInspection) -> Iterator[str | Table]:
    """Write what was looked at, what stands out, and every tensor's range along the network."""
    yield from (printable(line) for line in summary_lines(result))
    yield ranges_table(result)
    for name, why in result.left_out.items():
        if "folded" not in why:
            yield f"no range: {printable(name)}: {why}"
    yield from result.notes


def summary_lines(result: CalibrationInspection) -> Iterator[str]:
    """Say what was looked at and what stands out, one sentence each."""
    word = result.sample_word
    against = f", against {many(result.samples, word)} of {result.data}" if result.data else ""
    yield (
        f"{result.model}, calibrated with {many(result.calibration_samples, word)} of "
        f"{result.calibration}{against}; ranges from the least to the largest value"
    )
    of = f"{len(result.tensors)} tensors"
    outliers = result.outliers
    if outliers:
        named = ", ".join(
            f"{each.name} {_percent(each.outlier_share)} ({word} {_sample(each.outlier)} alone)"
            for each in outliers[:_MOST]
        )
        yield f"one {word} takes a tenth or more of the range of {len(outliers)} of {of}: {named}"
    else:
        yield f"no {word} takes a tenth of the range of any of {of}"
    if result.growing:
        named = ", ".join(
            f"{each.name} {_percent(each.last_doubling_share or 0.0)}"
            for each in result.growing[:_MOST]
        )
        yield (
            f"the second half of the {word}s brought a tenth or more of the range of "
            f"{len(result.growing)} of {of}: {named}; more {word}s would widen them again"
        )
    elif result.calibration_samples > 1:
        yield f"the second half of the {word}s brought less than a tenth of any range"
    if result.data:
        yield from _overflow_lines(result, of)


def _overflow_lines(result: CalibrationInspection, of: str) -> Iterator[str]:
    found = result.overflowing
    if not found:
        yield f"no {result.sample_word} of {result.data} goes beyond any range"
        return
    named = ", ".join(
        f"{each.name} {_percent(each.overflow.farthest_share)} "
        f"({many(each.overflow.beyond, result.sample_word)})"
        for each in found[:_MOST]
        if each.overflow is not None
    )
    yield f"{result.sample_word}s of {result.data} go beyond {len(found)} of {of}: {named}"


def ranges_table(result: CalibrationInspection) -> Table:
    """Make a table with a row for each tensor, along the network."""
    headings = ["low", "high", "set by", "takes", "grew"]
    spare = {"grew": 1, "set by": 2}
    if result.data:
        headings += ["beyond", "farthest", "its sample", "uses"]
        spare |= {"uses": 3, "its sample": 4}
    return Table(
        f"ranges of {len(result.tensors)} tensors, along the network",
        (
            Column("tensor", kind="name"),
            *(
                Column(
                    heading,
                    right=True,
                    spare=spare.get(heading, 0),
                    explained=_EXPLAINED[heading],
                    first="ascending" if heading in ("low", "uses") else "descending",
                )
                for heading in headings
            ),
        ),
        tuple(_row(each, has_data=bool(result.data)) for each in result.tensors),
    )


def _row(each: TensorRange, *, has_data: bool) -> tuple[str, ...]:
    grew = each.last_doubling_share
    cells: list[str] = [
        printable(each.name),
        Number(number(each.low.value), each.low.value),
        Number(number(each.high.value), each.high.value),
        printable(_sample(each.outlier)) if each.outlier.moves else "several",
        _share(each.outlier_share),
        "–" if grew is None else _share(grew),
    ]
    if not has_data:
        return tuple(cells)
    found = each.overflow
    if found is None:
        return (*cells, "–", "–", "–", "–")
    return (
        *cells,
        Number(f"{found.beyond:,}", found.beyond),
        _share(found.farthest_share),
        "–" if found.farthest is None else str(found.farthest),
        _share(found.used_share),
    )


def _sample(end: RangeEnd) -> str:
    return end.sample_name or str(end.sample)


def _share(value: float) -> Number:
    return Number(_percent(value), value)


def _percent(value: float) -> str:
    return f"{format_rounded(100 * value, '.1f')} %"
