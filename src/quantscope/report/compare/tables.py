"""Make the tables of a comparison's page; a click on a heading sorts them."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from quantscope.model import Network
from quantscope.plain_text import printable
from quantscope.report.table import Column, Number, Table
from quantscope.report.wording import format_signed
from quantscope.run.compare import Comparison, TensorComparison, flag_tensors


def number_column(
    heading: str,
    unit: str,
    explained: str,
    first: Literal["ascending", "descending"] = "ascending",
) -> Column:
    return Column(heading, right=True, unit=unit, explained=explained, first=first)


_NAME = Column("tensor", explained="Marked where it stands out")
_MEASURES = (
    number_column("SQNR", "dB", "Of the network up to here"),
    number_column("alone", "dB", "SQNR of this quantizer alone, on the float value"),
    number_column("clipped", "%", "Float values beyond the range", "descending"),
    number_column("RMSE", "steps", "Of the whole error", "descending"),
    number_column("ideal", "steps", "The RMSE that rounding alone gives", "descending"),
    number_column("range used", "%", "How much of the range the float values span"),
    number_column("cosine", "", "Of the float and the quantized values"),
)
_SHARES = ("inherited", "weights", "rounding", "clipping", "kernel")


def comparison_tables(comparison: Comparison) -> Iterator[Table]:
    """Make the table of activations, then that of constants; one without rows is left out."""
    if comparison.activations:
        shares = (
            number_column(name, "% of error", "Share of its error", "descending")
            for name in _SHARES
        )
        columns = (_NAME, *_MEASURES, *shares)
        cells = ((*_measures(t), *_shares(t)) for t in comparison.activations)
        yield _table("Activations", columns, comparison, comparison.activations, cells)
    constants = [t for t in comparison.tensors if t.role != "activation"]
    if constants:
        worst = Column("worst channels", unit="dB", explained="Lowest SQNR first")
        # Both SQNRs of a constant are that of its rounding.
        sqnr, _, *others = _MEASURES
        rows = [(*_measures(t), _worst(t)) for t in constants]
        without_alone = ((cells[0], *cells[2:]) for cells in rows)
        columns = (_NAME, sqnr, *others, worst)
        yield _table("Weights and biases", columns, comparison, constants, without_alone)


def _table(
    title: str,
    columns: tuple[Column, ...],
    comparison: Comparison,
    tensors: Sequence[TensorComparison],
    cells: Iterable[tuple[str, ...]],
) -> Table:
    marked = flag_tensors(comparison)
    return Table(
        title,
        columns,
        tuple((t.name, *more) for t, more in zip(tensors, cells, strict=True)),
        tuple(anchor_of(comparison, t) for t in tensors),
        frozenset(place for place, t in enumerate(tensors) if t.name in marked),
    )


def side_by_side_table(
    networks: tuple[Network | None, Network | None],
    matched: Sequence[tuple[TensorComparison, TensorComparison]],
) -> Table:
    """Show A and B, tensor by tensor, with parameters where the network is given."""
    columns = [Column("tensor", unit="in A")]
    columns += [number_column(f"SQNR {x}", "dB", "Of the network up to here") for x in "AB"]
    columns += [number_column("B − A", "dB", "Difference of the SQNRs")]
    columns += [number_column(f"alone {x}", "dB", "SQNR of this quantizer alone") for x in "AB"]
    columns += [
        number_column(f"RMSE {x}", "steps", "Of the whole error", "descending") for x in "AB"
    ]
    columns += [
        Column(f"parameters {x}", unit="scale, zero-point")
        for x, network in zip("AB", networks, strict=True)
        if network is not None
    ]
    rows = (
        (mine.name, *_both(mine, found), *_parameters((mine, found), networks))
        for mine, found in matched
    )
    return Table("Side by side", tuple(columns), tuple(rows))


def side_by_side_key(pair: tuple[Comparison, Comparison], matched: int) -> str:
    """Say who A and B are, and how many tensors of each have no counterpart."""
    alone = (len(each.tensors) - matched for each in pair)
    return "; ".join(
        f"{x} is {printable(each.model)}"
        + (f", {more} of its tensors without a counterpart" if more else "")
        for x, each, more in zip("AB", pair, alone, strict=True)
    )


def match_tensors(
    one: Comparison, two: Comparison
) -> list[tuple[TensorComparison, TensorComparison]]:
    """Pair tensors by the float tensor that both stand for, by name if the float files are two."""
    same = one.float_digest == two.float_digest
    theirs = {(t.role, t.float_name if same else t.name): t for t in two.tensors}
    found = ((t, theirs.get((t.role, t.float_name if same else t.name))) for t in one.tensors)
    return [(mine, other) for mine, other in found if other is not None]


def anchor_of(comparison: Comparison, tensor: TensorComparison) -> str:
    """Give the id of the tensor's row."""
    return f"tensor-{comparison.tensors.index(tensor)}"


def number(value: float | None, form: str, unit: str = "") -> str:
    """Format a number: a dash where there is none, and no sign before a zero."""
    if value is None:
        return "–"
    text = format(value, form)
    return (text.lstrip("-") if float(text) == 0 else text.replace("-", "−")) + unit


def _measures(tensor: TensorComparison) -> Iterator[Number]:
    """Give the cells in the order of `_MEASURES`."""
    yield _decibels(tensor, tensor.sqnr_db)
    yield _decibels(tensor, tensor.local_sqnr_db)
    low, high = tensor.clipped_low_fraction, tensor.clipped_high_fraction
    yield _percent(None if low is None or high is None else low + high, ".2f")
    yield Number(number(tensor.rmse_steps, ".3f"), tensor.rmse_steps)
    yield Number(number(tensor.ideal_rmse_steps, ".3f"), tensor.ideal_rmse_steps)
    yield _percent(tensor.used_share_of_range, ".0f")
    yield Number(number(tensor.cosine, ".5f"), tensor.cosine)


def _decibels(tensor: TensorComparison, value: float | None) -> Number:
    return Number("exact" if tensor.exact else number(value, ".1f"), value)


def _percent(fraction: float | None, form: str) -> Number:
    """Write a fraction in percent; what is there but would show as nothing is `<0.01`."""
    if fraction is None:
        return Number("–")
    value = 100 * fraction
    shown = "0" if value == 0 else number(value, form)
    return Number("<0.01" if shown == "0.00" else shown, value)


def _shares(tensor: TensorComparison) -> Iterator[Number]:
    for name in _SHARES:
        share = None if tensor.sources is None else getattr(tensor.sources, name)
        value = None if share is None else 100 * share
        yield Number(number(value, ".1f"), value)


def _worst(tensor: TensorComparison) -> str:
    by_number = {c.channel: c for c in tensor.channels}
    found = ((n, by_number[n].sqnr_db) for n in tensor.worst_channels if n in by_number)
    return ", ".join(f"{n} ({number(sqnr, '.1f')})" for n, sqnr in found)


def _both(one: TensorComparison, two: TensorComparison) -> Iterator[Number]:
    pair = (one, two)
    yield from (_decibels(t, t.sqnr_db) for t in pair)
    both = one.sqnr_db is not None and two.sqnr_db is not None
    gap = (two.sqnr_db or 0.0) - (one.sqnr_db or 0.0) if both else None
    yield Number("–" if gap is None else format_signed(gap, "+.1f"), gap)
    yield from (_decibels(t, t.local_sqnr_db) for t in pair)
    yield from (Number(number(t.rmse_steps, ".3f"), t.rmse_steps) for t in pair)


def _parameters(
    pair: Iterable[TensorComparison], networks: Iterable[Network | None]
) -> Iterator[str]:
    """Write `int8 0.070202, −128` for each network that is given.

    It is the type, the scale and the zero-point if that is not 0, with several channels the least
    and the largest.
    """
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
            yield f"{params.type_text} {scale}" + (f", {zero}" if any(zeros) else "")
