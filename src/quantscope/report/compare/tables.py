"""The tables of a comparison's page; a click on a heading sorts them."""

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import NamedTuple

from quantscope.model import Network
from quantscope.plain_text import printable
from quantscope.report.style import signed
from quantscope.run.compare.reading import flagged
from quantscope.run.compare.results import Comparison, TensorComparison


class Column(NamedTuple):
    """`first` is the order that a click gives first, the worst on top."""

    heading: str
    unit: str = ""
    explained: str = ""
    first: str = "ascending"
    is_text: bool = False


class Cell(NamedTuple):
    """`value` sorts; None goes last. Columns of text sort by what they say."""

    text: str
    value: float | None = None


class Row(NamedTuple):
    cells: Sequence[Cell]
    anchor: str = ""
    is_flagged: bool = False


_NAME = Column("tensor", explained="Marked where it stands out", is_text=True)
_MEASURES = (
    Column("SQNR", "dB", "Of the network up to here"),
    Column("alone", "dB", "SQNR of this quantizer alone, on the float value"),
    Column("clipped", "%", "Float values beyond the range", "descending"),
    Column("RMSE", "steps", "Of the whole error", "descending"),
    Column("ideal", "steps", "The RMSE that rounding alone gives", "descending"),
    Column("range used", "%", "How much of the range the float values span"),
    Column("cosine", "", "Of the float and the quantized values"),
)
_SHARES = ("inherited", "weights", "rounding", "clipping", "kernel")


def comparison_tables(comparison: Comparison) -> Iterator[str]:
    """Activations, then constants, each under its heading."""
    marked = flagged(comparison)

    def row(tensor: TensorComparison, *more: Cell) -> Row:
        cells = (Cell(tensor.name), *_measures(tensor), *more)
        return Row(cells, anchor_of(comparison, tensor), tensor.name in marked)

    if comparison.activations:
        shares = [Column(name, "% of error", "Share of its error", "descending")
                  for name in _SHARES]  # fmt: skip
        rows = [row(t, *_shares(t)) for t in comparison.activations]
        yield "<h2>Activations</h2>" + table((_NAME, *_MEASURES, *shares), rows)
    constants = [t for t in comparison.tensors if t.role != "activation"]
    if constants:
        worst = Column("worst channels", "dB", "Lowest SQNR first", is_text=True)
        # Both SQNRs of a constant are that of its rounding.
        measures = [column for column in _MEASURES if column.heading != "alone"]
        rows = [row(t, Cell(_worst(t))) for t in constants]
        rows = [r._replace(cells=[*r.cells[:2], *r.cells[3:]]) for r in rows]
        yield "<h2>Weights and biases</h2>" + table((_NAME, *measures, worst), rows)


def side_by_side(
    pair: tuple[Comparison, Comparison],
    networks: tuple[Network | None, Network | None],
    matched: Sequence[tuple[TensorComparison, TensorComparison]] | None = None,
) -> str:
    """A and B, tensor by tensor, with parameters where the network is given.

    `matched` are those that stand for one another, where that is known better than by their names.
    """
    columns = [Column("tensor", "in A", is_text=True)]
    columns += [Column(f"SQNR {x}", "dB", "Of the network up to here") for x in "AB"]
    columns += [Column("B − A", "dB", "Difference of the SQNRs")]
    columns += [Column(f"alone {x}", "dB", "SQNR of this quantizer alone") for x in "AB"]
    columns += [Column(f"RMSE {x}", "steps", "Of the whole error", "descending") for x in "AB"]
    columns += [
        Column(f"parameters {x}", "scale, zero-point", is_text=True)
        for x, network in zip("AB", networks, strict=True)
        if network is not None
    ]
    matched = list(_matched(*pair)) if matched is None else matched
    rows = [
        Row([Cell(mine.name), *_both(mine, found), *_parameters((mine, found), networks)])
        for mine, found in matched
    ]
    alone = (len(each.tensors) - len(matched) for each in pair)
    key = "; ".join(
        f"{x} is {escape(printable(each.model))}"
        + (f", {more} of its tensors without a counterpart" if more else "")
        for x, each, more in zip("AB", pair, alone, strict=True)
    )
    return f'<h2>Side by side</h2><p class="faint">{key}.</p>' + table(columns, rows)


def _matched(
    one: Comparison, two: Comparison
) -> Iterator[tuple[TensorComparison, TensorComparison]]:
    """By the float tensor that both stand for; by name where the float models are two files."""
    same = one.float_digest == two.float_digest
    theirs = {(t.role, t.float_name if same else t.name): t for t in two.tensors}
    for mine in one.tensors:
        found = theirs.get((mine.role, mine.float_name if same else mine.name))
        if found is not None:
            yield mine, found


def anchor_of(comparison: Comparison, tensor: TensorComparison) -> str:
    """The id of the tensor's row."""
    return f"tensor-{comparison.tensors.index(tensor)}"


def number(value: float | None, form: str, unit: str = "") -> str:
    """A dash where there is none; no sign before a zero."""
    if value is None:
        return "–"
    text = format(value, form)
    return (text.lstrip("-") if float(text) == 0 else text.replace("-", "−")) + unit


def table(columns: Sequence[Column], rows: Sequence[Row]) -> str:
    """A column of numbers without a single one is left out."""
    kept = [
        place
        for place, column in enumerate(columns)
        if column.is_text or any(row.cells[place].value is not None for row in rows)
    ]
    head = "".join(_heading(columns[place]) for place in kept)
    body = "".join(
        f"<tr{_attributes(row)}>"
        + "".join(_cell(columns[place], row.cells[place]) for place in kept)
        + "</tr>"
        for row in rows
    )
    return (
        f'<div class="wide"><table class="sortable"><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _attributes(row: Row) -> str:
    anchor = f' id="{row.anchor}"' if row.anchor else ""
    return anchor + (' class="flagged"' if row.is_flagged else "")


def _heading(column: Column) -> str:
    unit = f"<small>{escape(column.unit)}</small>" if column.unit else ""
    return (
        f'<th scope="col" aria-sort="none" data-first="{column.first}" '
        f'title="{escape(column.explained)}"{" class=text" if column.is_text else ""}>'
        f'<button type="button">{escape(column.heading)}</button>{unit}</th>'
    )


def _cell(column: Column, cell: Cell) -> str:
    text = escape(printable(cell.text))
    if column.is_text:
        return f'<td class="text">{text}</td>'
    return f'<td data-v="{"" if cell.value is None else f"{cell.value:.9g}"}">{text}</td>'


def _measures(tensor: TensorComparison) -> Iterator[Cell]:
    """In the order of `_MEASURES`."""
    yield _decibels(tensor, tensor.sqnr_db)
    yield _decibels(tensor, tensor.local_sqnr_db)
    low, high = tensor.clipped_low_fraction, tensor.clipped_high_fraction
    yield _percent(None if low is None or high is None else low + high, ".2f")
    yield Cell(number(tensor.rmse_steps, ".3f"), tensor.rmse_steps)
    yield Cell(number(tensor.ideal_rmse_steps, ".3f"), tensor.ideal_rmse_steps)
    yield _percent(tensor.used_share_of_range, ".0f")
    yield Cell(number(tensor.cosine, ".5f"), tensor.cosine)


def _decibels(tensor: TensorComparison, value: float | None) -> Cell:
    return Cell("exact" if tensor.exact else number(value, ".1f"), value)


def _percent(fraction: float | None, form: str) -> Cell:
    """What is there but would show as nothing is `<0.01`."""
    if fraction is None:
        return Cell("–")
    value = 100 * fraction
    shown = "0" if value == 0 else number(value, form)
    return Cell("<0.01" if shown == "0.00" else shown, value)


def _shares(tensor: TensorComparison) -> Iterator[Cell]:
    for name in _SHARES:
        share = None if tensor.sources is None else getattr(tensor.sources, name)
        value = None if share is None else 100 * share
        yield Cell(number(value, ".1f"), value)


def _worst(tensor: TensorComparison) -> str:
    by_number = {c.channel: c for c in tensor.channels}
    found = ((n, by_number[n].sqnr_db) for n in tensor.worst_channels if n in by_number)
    return ", ".join(f"{n} ({number(sqnr, '.1f')})" for n, sqnr in found)


def _both(one: TensorComparison, two: TensorComparison) -> Iterator[Cell]:
    pair = (one, two)
    yield from (_decibels(t, t.sqnr_db) for t in pair)
    both = one.sqnr_db is not None and two.sqnr_db is not None
    gap = (two.sqnr_db or 0.0) - (one.sqnr_db or 0.0) if both else None
    yield Cell("–" if gap is None else signed(gap, "+.1f"), gap)
    yield from (_decibels(t, t.local_sqnr_db) for t in pair)
    yield from (Cell(number(t.rmse_steps, ".3f"), t.rmse_steps) for t in pair)


def _parameters(
    pair: Iterable[TensorComparison], networks: Iterable[Network | None]
) -> Iterator[Cell]:
    """`int8 0.070202, −128`: type, scale, zero-point if not 0; of channels least and largest."""
    for tensor, network in zip(pair, networks, strict=True):
        if network is not None:
            params = network.tensor(tensor.name).params
            scales, zeros = (
                dict.fromkeys((values.min().item(), values.max().item()))
                for values in (params.scale, params.zero_point)
            )
            digits = 5 if len(scales) == 1 else 3  # two versions may differ in the fourth
            scale = "…".join(number(value, f".{digits}g") for value in scales)
            zero = "…".join(number(value, "d") for value in zeros)
            yield Cell(f"{params.dtype} {scale}" + (f", {zero}" if any(zeros) else ""))
