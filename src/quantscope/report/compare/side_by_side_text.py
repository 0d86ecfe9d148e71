"""Show two quantized versions side by side as lines and tables of text."""

from collections.abc import Iterator

from quantscope.plain_text import printable
from quantscope.report.network_text import spread_text
from quantscope.report.table import Column, Table
from quantscope.report.wording import format_rounded, origin_text
from quantscope.run.compare import Comparison, MatchedTensors, SideBySide, VersionTensor


def side_by_side_lines(result: SideBySide, width: int | None = None) -> Iterator[str]:
    """Name the two versions, and show what stands side by side and what only one has."""
    for number, comparison in ((1, result.first), (2, result.second)):
        yield f"{number}: {_heading(comparison)}"
    for table in side_by_side_tables(result):
        yield ""
        yield table.title
        yield from table.lines(width)


def side_by_side_tables(result: SideBySide) -> Iterator[Table]:
    """Make a table of activations, one of constants, and one of what only one version has."""
    for title, errors, roles in (
        (
            "activations along the first network: type, scale s and zero-point z, SQNR in dB of "
            "the network up to here and of the quantizer alone",
            ("SQNR", "local"),
            ("activation",),
        ),
        (
            "weights and biases: type, scale s and zero-point z, SQNR in dB of their rounding",
            ("SQNR",),
            ("weight", "bias"),
        ),
    ):
        right = tuple(Column(h, right=True, spare=int(h == "local")) for h in errors)
        versions = (Column(f"{number}: parameters") for number in (1, 2))
        columns = [column for version in versions for column in (version, *right)]
        rows = [_row(row, len(errors)) for row in result.rows if row.role in roles]
        if rows:
            yield Table(
                title,
                (Column("float tensor", kind="name"), *columns, Column("SQNR 2 − 1", right=True)),
                tuple(rows),
            )
    if result.only_in_one:
        yield Table(
            "in one version only",
            (Column(""), Column("tensor", kind="name"), Column("parameters"),
             Column("SQNR", right=True), Column("why")),
            tuple(
                (
                    "1" if each.version == "first" else "2",
                    printable(each.tensor.name),
                    parameters_text(each.tensor),
                    _decibels(each.tensor),
                    printable(each.reason),
                )
                for each in result.only_in_one
            ),
        )  # fmt: skip


def _heading(comparison: Comparison) -> str:
    heading = origin_text(comparison)
    output = comparison.output
    if output is None:
        return f"{heading}; no classes to compare: {comparison.no_output}"
    kl = "not finite" if output.kl_nats is None else f"{output.kl_nats:.3g} nats"
    return f"{heading}: same class for {output.class_agreement:.2%}, KL of the {output.kl_of} {kl}"


def _row(row: MatchedTensors, errors: int) -> tuple[str, ...]:
    change = row.sqnr_change_db
    return (
        printable(row.float_name),
        *(
            text
            for version in (row.first, row.second)
            for text in (parameters_text(version), *_errors(version)[:errors])
        ),
        "–" if change is None else format_rounded(change, "+.1f"),
    )


def _errors(tensor: VersionTensor) -> tuple[str, str]:
    return _decibels(tensor), _decibels(tensor, local=True)


def parameters_text(tensor: VersionTensor) -> str:
    """Write `uint8 s 0.070202 z 0`; channels show the least and the largest."""
    params = tensor.params
    digits = 5 if params.is_per_tensor else 3  # two versions may differ in the fourth
    scale = spread_text(abs(params.scale.astype(float)), digits)
    return f"{params.type_text} s {scale} z {spread_text(params.zero_point, 3)}"


def _decibels(tensor: VersionTensor, *, local: bool = False) -> str:
    error = tensor.error
    if error is None:
        return "–"
    if error.exact:
        return "exact"
    value = error.local_sqnr_db if local else error.sqnr_db
    return "–" if value is None else f"{value:.1f}"
