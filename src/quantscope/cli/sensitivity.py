"""`quantscope sensitivity`"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from quantscope.cli.console import emit_json, messages, progress_bar, show, terminal_width
from quantscope.cli.options import (
    THOUSAND,
    Batch,
    DataOfThousand,
    FloatModel,
    ImagesOfThousand,
    Int8Kernels,
    Json,
    QuantizedOnnx,
    load_images,
    stated_or_shipped,
)
from quantscope.cli.outputs import Writes, careful
from quantscope.plain_text import many

if TYPE_CHECKING:
    from quantscope.report.table import Table
    from quantscope.study.sensitivity.results import (
        Base,
        RowMode,
        Sensitivity,
        SensitivityRow,
    )

_BAR = 16


@careful
def command(
    model: QuantizedOnnx,
    float_model: FloatModel = None,
    mode: Annotated[
        Literal["disable", "enable", "both"],
        typer.Option(
            help="disable: each layer's quantization off in the quantized network. "
            "enable: on alone in the float one."
        ),
    ] = "disable",
    images: ImagesOfThousand = None,
    data: DataOfThousand = "sample",
    execution: Annotated[
        Literal["reference", "runtime"], stated_or_shipped(" (with --mode disable).")
    ] = "reference",
    int8_kernels: Int8Kernels = None,
    batch: Batch = None,
    figure: Annotated[
        Path | None,
        typer.Option(help="Also draw the ranking, as FILE.png or FILE.svg."),
        Writes(".png", ".svg"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Rank the layers by what their quantization costs the whole network.

    A layer is switched with its weight, bias and output, and ranked by the SQNR of the logits.

    Example: quantscope sensitivity resnet8-int8 --images 200
    """
    from quantscope.study.sensitivity.sensitivity import sensitivity

    chosen = load_images(data, images, unless_given=THOUSAND)
    with progress_bar() as progress:
        result = sensitivity(
            model,
            chosen,
            float_model=float_model,
            mode=mode,
            execution=execution,
            int8_kernels=int8_kernels,
            batch=batch,
            progress=progress,
        )
    if figure is not None:
        _draw(result, figure)
        messages.print(f"Wrote {figure}", markup=False)
    if as_json:
        emit_json(result.to_dict())
        return
    show(lines(result, terminal_width()))


def lines(result: "Sensitivity", width: int | None = None) -> Iterator[str]:
    """The ranking as text."""
    from quantscope.plain_text import printable

    yield (
        f"{result.model} against {result.float_model}, {result.execution} execution, "
        f"{many(result.images, 'image')} of {result.data}"
    )
    bases = {"quantized": result.quantized, "with all of it off": result.all_off}
    yield f"accuracy: float {result.float_accuracy:.2%}" + "".join(
        f", {name} {base.accuracy:.2%} ({_agreement(base, result.scores)})"
        for name, base in bases.items()
        if base is not None
    )
    for mode in result.modes:
        yield ""
        table = _table(result, mode)
        yield table.title
        yield from table.lines(width)
    if result.not_switched:
        yield ""
        yield "not switched"
        yield from (f"  {printable(t.layer)}: {t.reason}" for t in result.not_switched)
    yield from (printable(note) for note in result.notes)


def _table(result: "Sensitivity", mode: "RowMode") -> "Table":
    from quantscope.plain_text import printable
    from quantscope.report.table import Column, Table
    from quantscope.report.wording import rounded

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


def _weights(rows: tuple["SensitivityRow", ...]) -> list[float]:
    """The lengths of the bars, the longest 1: decibels won, or the size of the error alone."""
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
    from quantscope.report.wording import rounded

    return "–" if value is None else rounded(value, form)


def _agreement(base: "Base", scores: str) -> str:
    if base.exact:
        return f"the same {scores}"
    if base.logit_sqnr_db is None:
        return f"{scores} that are not finite"
    return f"SQNR of the {scores} {base.logit_sqnr_db:.1f} dB"


def _draw(result: "Sensitivity", path: Path) -> None:
    from quantscope.files import write_whole
    from quantscope.report.figures import png_bytes, svg_bytes
    from quantscope.report.figures.ranking import sensitivity_ranking

    drawn = sensitivity_ranking(result)
    write_whole(path, png_bytes(drawn) if path.suffix.lower() == ".png" else svg_bytes(drawn))
