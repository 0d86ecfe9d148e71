"""Show a map of scores by the bits of weights and activations as text."""

from collections.abc import Callable, Iterator

from quantscope.plain_text import many, printable
from quantscope.report.table import Column, Number, Table
from quantscope.report.wording import format_rounded
from quantscope.study.bits import (
    BitCell,
    BitCurves,
    BitMap,
    Frontier,
    FrontierPoint,
    Measured,
    Width,
)

BitsPart = str | Table


def bits_view(result: BitMap) -> Iterator[BitsPart]:
    """Say what was measured, then the scores and how far they lie from the float network's."""
    yield (
        f"{printable(result.model)} with other bits, against {printable(result.float_model)}, "
        f"{result.execution} execution, {many(result.samples, result.sample_word)} of "
        f"{printable(result.data)}{_ranges_text(result)}"
    )
    yield _grid(
        result,
        f"{result.measure}{_unit(result)}: bits of the weights down, of the activations across",
        lambda cell: cell.score,
        _score_form(result),
    )
    yield _grid(
        result,
        f"the same minus the float network's{_unit(result, points=True)}; intervals are in --json",
        lambda cell: cell.delta,
        _delta_form(result),
    )
    sizes = {cell.weights: cell.weight_bytes for cell in result.cells if cell.weight_bytes}
    yield "weights: " + ", ".join(
        f"{width_text(bits)} bits {size / 1000:,.1f} kB" if bits else f"float {size / 1000:,.1f} kB"
        for bits, size in sizes.items()
    )
    for cell in result.cells:
        if cell.reason is not None:
            yield f"{cell.label}: {printable(cell.reason)}"


def curves_view(result: BitCurves) -> Iterator[BitsPart]:
    """Say what was measured, then the score with other bits for each tensor alone."""
    yield (
        f"{printable(result.model)}, one tensor at a time with other bits, {result.execution} "
        f"execution, {many(result.samples, result.sample_word)} of {printable(result.data)}"
        f"{_ranges_text(result)}"
    )
    form, moved, factor = _score_form(result), _delta_form(result), _factor(result)
    base, floats = format_rounded(factor * result.base, form), result.floats
    against = "" if floats is None else f", float {format_rounded(factor * floats, form)}"
    yield f"{result.measure}{_unit(result)}: as it is {base}{against}"
    widths = [point.bits for point in result.curves[0].points] if result.curves else []
    for role in ("weights", "activations"):
        curves = [curve for curve in result.curves if curve.role == role]
        if not curves:
            continue
        yield Table(
            f"{role}: change{_unit(result, points=True)} against the network as it is, by bits; "
            f"intervals are in --json",
            (
                Column("tensor", kind="name"),
                Column("has", right=True),
                *(Column(str(bits), right=True) for bits in widths),
            ),
            tuple(
                (
                    printable(curve.tensor),
                    str(curve.own_bits),
                    *(
                        Number(format_rounded(factor * point.delta, moved), point.delta)
                        for point in curve.points
                    ),
                )
                for curve in curves
            ),
        )


def frontier_view(result: Frontier) -> Iterator[BitsPart]:
    """Say what was walked, then each point with what it costs and scores, uniform ones last."""
    saved = {"size": "bytes of weights", "compute": "products times bits"}[result.saving]
    yield (
        f"{printable(result.model)}, narrowed one tensor at a time, each the one that adds least "
        f"noise for the {saved} it saves (tried on {many(result.ranked_on, result.sample_word)})"
    )
    yield (
        f"scores against {printable(result.float_model)}, {result.execution} execution, "
        f"{many(result.samples, result.sample_word)} of {printable(result.data)}"
        f"{_ranges_text(result)}"
    )
    columns = (
        Column("", right=True),
        Column("narrowed", kind="name"),
        Column("bits", right=True),
        *(Column(name, right=True) for name in ("weights kB", "M bit-products", "score")),
        Column("to float", right=True),
        *(Column(name, right=True, spare=1) for name in ("from", "up to")),
    )
    rows = [
        (str(place), printable(point.step) or "all", str(_bits_of_step(point)))
        for place, point in enumerate(result.points)
    ]
    yield Table(
        f"{result.measure}{_unit(result)}, and its difference to the float network's with its 95 % "
        f"interval",
        columns,
        tuple((*row, *_costs(result, p)) for row, p in zip(rows, result.points, strict=True)),
    )
    yield Table(
        f"the same bits for all{' weights' if result.saving == 'size' else ''}",
        columns,
        tuple(
            ("", "all", str(min(point.bits.values(), default="")), *_costs(result, point))
            for point in result.uniform
        ),
    )


def _bits_of_step(point: FrontierPoint) -> int | str:
    return point.bits[point.step] if point.step else next(iter(point.bits.values()), "")


def _costs(result: Frontier, point: FrontierPoint) -> tuple[str, ...]:
    form, moved, factor = _score_form(result), _delta_form(result), _factor(result)
    ends = point.delta_interval_95
    return (
        f"{point.weight_bytes / 1000:,.1f}",
        f"{point.bit_operations / 1e6:,.1f}",
        format_rounded(factor * point.score, form),
        "–" if point.delta is None else format_rounded(factor * point.delta, moved),
        *(("–", "–") if ends is None else (format_rounded(factor * end, moved) for end in ends)),
    )


def width_text(bits: Width) -> str:
    """Write a width, and `float` for what is not quantized."""
    return "float" if bits is None else str(bits)


def _grid(result: BitMap, title: str, value: Callable[[BitCell], float | None], form: str) -> Table:
    factor = _factor(result)
    columns = [Column(width_text(bits), right=True) for bits in result.activations]
    rows = []
    for bits, cells in result.rows():
        found = [value(cell) for cell in cells]
        shown = [
            Number("–" if number is None else format_rounded(factor * number, form), number)
            for number in found
        ]
        rows.append((width_text(bits), *shown))
    return Table(title, (Column("", right=True), *columns), tuple(rows))


def _ranges_text(result: Measured) -> str:
    """Say how ranges were chosen, where they did not stay."""
    if result.ranges == "keep":
        return ""
    rule = {"minmax": "over all values", "best": "of least error"}[result.ranges]
    return f"; ranges {rule} at each width, by {printable(result.range_data or '')}"


def _factor(result: Measured) -> int:
    return 100 if result.unit == "share" else 1


def _score_form(result: Measured) -> str:
    return ".2f" if result.unit in ("share", "dB") else ".4g"


def _delta_form(result: Measured) -> str:
    return "+.2f" if result.unit in ("share", "dB") else "+.3g"


def _unit(result: Measured, *, points: bool = False) -> str:
    if result.unit == "share":
        return ", in points" if points else ", in %"
    return f", in {result.unit}" if result.unit else ""
