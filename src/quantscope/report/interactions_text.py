"""Show what layers cost together as text: pairs beyond their parts, and fair shares."""

from collections.abc import Iterator, Sequence

from quantscope.plain_text import many, printable
from quantscope.report.table import Column, Number, Table
from quantscope.report.wording import format_rounded, origin_text
from quantscope.run import MEASURES, Estimate
from quantscope.study.interactions import Alone, Interactions, Kind, Pair, Shapley

_BAR = 16
_MOST_LAYERS = 40
"""A matrix of more is read by nobody; the pairs that stand out are listed."""

_SENTENCES, _LISTED = 5, 12
_WORDS: dict[Kind, tuple[str, str]] = {
    "aggravate": ("aggravate each other", "together they cost more than apart"),
    "compensate": ("compensate each other", "together they cost less than apart"),
}


def interactions_lines(result: Interactions, width: int | None = None) -> Iterator[str]:
    """Write what the whole costs, the pairs that stand out in words, intervals and the matrix."""
    yield origin_text(result)
    yield whole_text(result)
    where = {
        "enable": "two layers quantized in the float network",
        "disable": "two layers switched off in the quantized network",
    }[result.mode]
    yield f"pairs: {where}; each number is what they cost together beyond what they cost alone"
    yield from pair_sentences(result)
    strongest = pairs_table(result)
    yield ""
    yield strongest.title
    yield from strongest.lines(width)
    if len(result.layers) <= _MOST_LAYERS:
        for table in matrix_tables(result, width):
            yield ""
            yield table.title
            yield from table.lines(width)
    else:
        yield (
            f"the matrix of {len(result.layers)} layers is in --json and --figure; --layer NAME, "
            f"given twice or more, shows a part"
        )
    yield from _notes(result)


def pair_sentences(result: Interactions) -> Iterator[str]:
    """Name the pairs that chance does not explain, or say that there are none."""
    for kind in ("aggravate", "compensate"):
        found = result.named(kind)
        verb, meaning = _WORDS[kind]
        for pair in found[:_SENTENCES]:
            counted = result.counted(pair)
            assert counted is not None, "a pair without a number is not named"
            yield (
                f"  {printable(pair.first)} and {printable(pair.second)} {verb}: "
                f"{cost_text(result, counted)} ({meaning})"
            )
        if len(found) > _SENTENCES:
            yield f"  and {many(len(found) - _SENTENCES, 'pair')} more that {verb}; --json has all"
    if not any(pair.kind for pair in result.pairs):
        yield (
            f"  no pair of {len(result.pairs)} stands out: on these {result.sample_word}s chance "
            f"could be all of it"
        )


def whole_text(result: Interactions | Shapley) -> str:
    """Say what quantizing all of it costs, by the measure and as noise."""
    parts = []
    if result.loss is not None and result.measure != MEASURES["noise"].name:
        points = 100 * result.loss.value if result.unit == "share" else result.loss.value
        what = "accuracy" if result.measure == MEASURES["top1"].name else result.measure
        unit = "points" if result.unit == "share" else result.unit
        verb = "lost" if result.higher_is_better else "gained"
        parts.append(f"{format_rounded(points, '.4g')} {unit} of {what} {verb}".replace("  ", " "))
    if result.noise is not None:
        parts.append(f"noise of {format_rounded(100 * result.noise.value, '.3g')} % of the signal")
    return f"quantizing all of it: {', '.join(parts) or 'nothing that has a number'}"


def counted_unit(result: Interactions | Shapley) -> str:
    """Say what the numbers that rank are in."""
    if not result.by_score or result.measure == MEASURES["noise"].name:
        return "% of the noise of all"
    if result.unit == "share":
        return (
            "points" if result.measure == MEASURES["top1"].name else f"points of {result.measure}"
        )
    return result.unit or result.measure


def counted_value(result: Interactions | Shapley, value: float) -> float:
    """Give a number that ranks in `counted_unit`."""
    if not result.by_score or result.measure == MEASURES["noise"].name:
        whole = 0.0 if result.noise is None else result.noise.value
        return 100 * value / whole if whole else 0.0
    return 100 * value if result.unit == "share" else value


def cost_text(result: Interactions | Shapley, found: Estimate) -> str:
    """Write `+3.1 [+2.2, +4.0] % of the noise of all`."""
    ends = ", ".join(_signed(counted_value(result, end)) for end in found.interval_95 or ())
    unit = counted_unit(result)
    return f"{_signed(counted_value(result, found.value))}{f' [{ends}]' if ends else ''} {unit}"


def pairs_table(result: Interactions) -> Table:
    """List the pairs with the largest numbers, each with its interval."""
    known = [(pair, found) for pair in result.pairs if (found := result.counted(pair)) is not None]
    strongest = sorted(known, key=lambda each: -abs(each[1].value))[:_LISTED]
    return Table(
        f"the largest of {len(result.pairs)} pairs, in {counted_unit(result)}",
        (
            Column("first", kind="name"),
            Column("second", kind="name"),
            Column("beyond", right=True),
            Column("95 % interval", right=True),
            Column("p (Holm)", right=True, spare=1),
        ),
        tuple(
            (
                printable(pair.first),
                printable(pair.second),
                _cell(result, pair) + ("*" if pair.kind else ""),
                " to ".join(_signed(counted_value(result, end)) for end in found.interval_95 or ())
                or "–",
                "–" if pair.adjusted_p is None else f"{pair.adjusted_p:.2g}",
            )
            for pair, found in strongest
        ),
    )


def matrix_tables(result: Interactions, width: int | None = None) -> Iterator[Table]:
    """Lay the lower half of the matrix out, in as many tables as a terminal's width asks for.

    On the diagonal, in brackets, stands what the layer costs alone; what stands out has a star.
    """
    names = [printable(name) for name in result.layers]
    cells = _cells(result)
    label = min(max(map(len, names)), 24) + 2 + len(str(len(names))) + 2
    widest = max(len(cell) for row in cells for cell in row) + 2
    across = len(names) if width is None else max(1, (width - label) // widest)
    title = (
        f"together beyond alone, in {counted_unit(result)}; in brackets what a layer costs alone; "
        f"* p < 0.05 for all {len(result.pairs)} pairs (Holm)"
    )
    for start in range(0, len(names), across):
        shown = range(start, min(start + across, len(names)))
        yield Table(
            title if start == 0 else "continued",
            (
                Column("", right=True),
                Column("layer", kind="name"),
                *(Column(str(place + 1), right=True) for place in shown),
            ),
            tuple(
                (str(row + 1), names[row], *(cells[row][at] if at <= row else "" for at in shown))
                for row in range(start, len(names))
            ),
        )


def _cells(result: Interactions) -> list[list[str]]:
    places = {name: place for place, name in enumerate(result.layers)}
    cells = [[""] * len(places) for _ in places]
    for place, one in enumerate(result.alone):
        cells[place][place] = f"({_cell(result, one)})"
    for pair in result.pairs:
        star = "*" if pair.kind else ""
        cells[places[pair.second]][places[pair.first]] = f"{_cell(result, pair)}{star}"
    return cells


def _cell(result: Interactions, of: Alone | Pair) -> str:
    found = result.counted(of)
    return "–" if found is None else _signed(counted_value(result, found.value))


def shapley_lines(result: Shapley, width: int | None = None) -> Iterator[str]:
    """Write what the whole costs, and each layer's share of it."""
    yield origin_text(result)
    yield whole_text(result)
    orders = (
        f"all {result.orders:,} orders"
        if result.is_exact
        else f"{many(result.orders, 'order')} drawn with seed {result.seed}"
    )
    yield (
        f"each layer's fair share, over {orders} of quantizing them "
        f"({result.variants:,} networks measured); the shares add up to the whole"
    )
    yield ""
    table = shapley_table(result)
    yield table.title
    yield from table.lines(width)
    yield from _notes(result)


def shapley_table(result: Shapley) -> Table:
    """Make a table of the shares, the largest first; the last row is their sum."""
    ranked = result.ranked()
    has_score = result.measure != MEASURES["noise"].name
    what = "accuracy" if result.measure == MEASURES["top1"].name else "score"
    unit = "points" if result.unit == "share" else result.unit
    factor = 100 if result.unit == "share" else 1
    whole = 0.0 if result.noise is None else result.noise.value
    percent = 100 / whole if whole else 0.0
    counted = [share.loss if result.by_score else share.noise for share in ranked]
    bars = _bars(counted)
    rows: list[tuple[str, ...]] = []
    for share, bar in zip(ranked, bars, strict=True):
        noise = _with_error(share.noise, share.noise_standard_error, percent, ".1f")
        score = _with_error(share.loss, share.loss_standard_error, factor, ".3g")
        rows.append(
            (
                str(share.rank),
                printable(share.layer),
                share.op_type,
                *noise,
                *(score if has_score else ()),
                bar,
            )
        )
    sums = [_sum([s.noise for s in ranked], percent, ".1f"), ""]
    if has_score:
        sums += [_sum([s.loss for s in ranked], factor, ".3g"), ""]
    rows.append(("", "all of it", "", *sums, ""))
    measured = f", and of {result.measure}{f' in {unit}' if unit else ''}" if has_score else ""
    return Table(
        f"share of the noise in %{measured}, each with the standard error of the orders",
        (
            Column("", right=True),
            Column("layer", kind="name"),
            Column("operator", spare=2),
            Column("noise", right=True),
            Column("error", right=True, spare=1),
            *((Column(what, right=True), Column("error", right=True, spare=1)) * has_score),
            Column("", kind="bar"),
        ),
        tuple(rows),
    )


def _bars(counted: Sequence[Estimate | None]) -> list[str]:
    values = [0.0 if each is None else max(each.value, 0.0) for each in counted]
    most = max(values, default=0.0) or 1.0
    return ["█" * round(_BAR * value / most) for value in values]


def _with_error(
    found: Estimate | None, error: float | None, factor: float, form: str
) -> tuple[str, str]:
    if found is None:
        return "–", "–"
    value = factor * found.value
    shown = "–" if error is None else f"±{format_rounded(factor * error, form)}"
    return Number(format_rounded(value, f"+{form}"), value), shown


def _sum(found: Sequence[Estimate | None], factor: float, form: str) -> str:
    known = [each.value for each in found if each is not None]
    # Digits that are rounding of the sum alone are none.
    return format_rounded(round(factor * sum(known), 9), f"+{form}") if known else "–"


def _signed(value: float) -> str:
    if value == 0:
        return "0"
    form = "+.1f" if abs(value) >= 0.95 else "+.2f"
    return format_rounded(value, form)


def _notes(result: Interactions | Shapley) -> Iterator[str]:
    if result.not_switched:
        yield ""
        yield "not switched"
        yield from (f"  {printable(each.layer)}: {each.reason}" for each in result.not_switched)
    yield from (printable(note) for note in result.notes)
