"""`quantscope compare`"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from quantscope.cli.console import console, emit_json, progress_bar, show, terminal_width
from quantscope.cli.options import (
    THOUSAND,
    Batch,
    DataOfThousand,
    FloatModelOrProgram,
    ImagesOfThousand,
    Int8Kernels,
    Json,
    QuantizedModel,
    load_images,
    stated_or_shipped,
)
from quantscope.cli.outputs import Writes, careful
from quantscope.plain_text import many

if TYPE_CHECKING:
    from quantscope.report.table import Table
    from quantscope.run.compare.results import Comparison, TensorComparison
    from quantscope.run.compare.side_by_side import SideBySide


@careful
def command(
    model: QuantizedModel,
    float_model: FloatModelOrProgram = None,
    images: ImagesOfThousand = None,
    data: DataOfThousand = "sample",
    execution: Annotated[
        Literal["reference", "runtime"],
        stated_or_shipped(", as far as they can be looked into without changing them."),
    ] = "reference",
    int8_kernels: Int8Kernels = None,
    batch: Batch = None,
    other: Annotated[
        str | None,
        typer.Option("--with", help="A second quantized model, to stand beside the first."),
    ] = None,
    other_float: Annotated[
        str | None,
        typer.Option(
            "--with-float",
            help="The same float network for --with, where one model is ONNX and one PyTorch.",
        ),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(help="Also write a page with figures, that works offline."),
        Writes(".html", ".htm"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show where a quantized network's error is born and where it is only inherited.

    Example: quantscope compare resnet8-int8 --images 200
    """
    from quantscope.errors import BadConfigError
    from quantscope.files import write_whole
    from quantscope.report.compare.side_by_side_text import side_by_side_lines
    from quantscope.run.compare.compare import compare
    from quantscope.run.compare.side_by_side import compare_with

    if other_float is not None and other is None:
        raise BadConfigError("--with-float is the float model of --with; give that too")
    chosen = load_images(data, images, unless_given=THOUSAND)
    settings: dict[str, Any] = {
        "execution": execution,
        "int8_kernels": int8_kernels,
        "batch": batch,
        "float_model": float_model,
    }
    with progress_bar() as progress:
        versions: SideBySide | None = None
        if other is None:
            first = compare(model, chosen, progress=progress, **settings)
        else:
            versions = compare_with(
                model, other, chosen, other_float_model=other_float, progress=progress, **settings
            )
            first = versions.first
        if html is not None:
            from quantscope.report.compare.report import comparison_report

            page = comparison_report(
                first,
                model,
                chosen,
                float_model=float_model,
                versions=versions,
                other_model=other,
                other_float_model=other_float,
                int8_kernels=int8_kernels,
                progress=progress,
            )
            write_whole(html, page.encode())
    if as_json:
        emit_json((versions or first).to_dict())
        return
    width = terminal_width()
    text = lines(first, width) if versions is None else side_by_side_lines(versions, width)
    show(text)
    if html is not None:
        console.print(f"\nWrote {html}", markup=False)


def lines(result: "Comparison", width: int | None = None) -> Iterator[str]:
    """The comparison as text."""
    from quantscope.plain_text import printable
    from quantscope.run.compare.reading import reading, usual

    yield (
        f"{result.model} against {result.float_model}, {result.execution} execution, "
        f"{many(result.images, 'image')} of {result.data}"
    )
    yield _agreement(result)
    for title, table in _tables(result):
        yield ""
        yield title
        yield from table.lines(width)
    missing = [*result.unpaired, *result.unseen]
    if missing:
        yield ""
        yield "not compared"
        yield from (f"  {printable(t.name)}: {t.reason}" for t in missing)
    found = reading(result)
    yield ""
    if normal := usual(result):
        yield normal
    yield "what stands out" if found else "nothing stands out"
    yield from (f"  {printable(sentence)}" for sentence in found)


def _agreement(result: "Comparison") -> str:
    output = result.output
    if output is None:
        return f"no classes to compare: {result.no_output}"
    kl = "not finite" if output.kl_nats is None else f"{output.kl_nats:.3g} nats"
    return (
        f"same class for {output.class_agreement:.2%}, {len(output.changed)} changed "
        f"({len(output.gained)} now right, {len(output.lost)} now wrong); "
        f"KL of the {output.kl_of} {kl}"
    )


def _tables(result: "Comparison") -> Iterator[tuple[str, "Table"]]:
    from quantscope.report.table import Column, Table
    from quantscope.run.compare.reading import flagged

    marked = flagged(result)
    kernel = result.execution == "runtime"
    headings = ("SQNR", "local", "clipped", "RMSE")
    shares = ["inherited", "weights", "rounding", "clipping", *(["kernel"] if kernel else [])]
    spare = {"local": 1, "clipped": 2, "RMSE": 3}
    columns = [Column(""), Column("tensor", kind="name")]
    columns += [Column(h, right=True, spare=spare.get(h, 0)) for h in (*headings, *shares)]
    columns.append(Column("inherited from", spare=4))
    if result.activations:
        yield (
            "activations along the network: SQNR in dB of the network up to here and of this "
            "quantizer alone (local), float values beyond its range (clipped), RMSE in steps, then "
            "the share of each source in the quantized network's error",
            Table(
                "activations",
                tuple(columns),
                tuple(_activation(t, t.name in marked, kernel=kernel) for t in result.activations),
            ),
        )
    constants = [t for t in result.tensors if t.role != "activation"]
    if constants:
        right = [Column(h, right=True) for h in ("SQNR", "clipped", "RMSE")]
        yield (
            "weights and biases: SQNR in dB and RMSE in steps of their rounding, float values "
            "beyond the range (clipped), channels of the lowest SQNR",
            Table(
                "weights and biases",
                (
                    Column(""),
                    Column("tensor", kind="name"),
                    *right,
                    Column("worst channels (dB)", spare=1),
                ),
                tuple(_constant(t, t.name in marked) for t in constants),
            ),
        )


def _activation(tensor: "TensorComparison", is_marked: bool, *, kernel: bool) -> tuple[str, ...]:
    from quantscope.plain_text import printable
    from quantscope.report.wording import rounded

    sources = tensor.sources
    shares = ["–"] * (5 if kernel else 4)
    inputs = tensor.no_sources or ""
    if sources is not None:
        found = [sources.inherited, sources.weights, sources.rounding, sources.clipping]
        shares = [rounded(part, ".1%") for part in (*found, *([sources.kernel or 0.0] * kernel))]
        several = len(sources.inherited_by_input) > 1
        by_input = sources.inherited_by_input.items()
        parts = (f"{name} {rounded(part, '.1%')}" for name, part in by_input)
        inputs = ", ".join(parts) if several else ""
    return (
        "!" if is_marked else "",
        printable(tensor.name),
        _decibels(tensor),
        _decibels(tensor, local=True),
        _clipped(tensor),
        _steps(tensor),
        *shares,
        printable(inputs),
    )


def _constant(tensor: "TensorComparison", is_marked: bool) -> tuple[str, ...]:
    from quantscope.plain_text import printable

    worst = (
        f"{channel} ({tensor.channels[channel].sqnr_db:.1f})" for channel in tensor.worst_channels
    )
    return (
        "!" if is_marked else "",
        printable(tensor.name),
        _decibels(tensor),
        _clipped(tensor),
        _steps(tensor),
        ", ".join(worst),
    )


def _decibels(tensor: "TensorComparison", *, local: bool = False) -> str:
    if tensor.exact:
        return "exact"
    value = tensor.local_sqnr_db if local else tensor.sqnr_db
    return "–" if value is None else f"{value:.1f}"


def _clipped(tensor: "TensorComparison") -> str:
    low, high = tensor.clipped_low_fraction, tensor.clipped_high_fraction
    if low is None or high is None:
        return "–"
    share = low + high
    return "<0.01%" if 0 < share < 5e-5 else f"{share:.2%}"


def _steps(tensor: "TensorComparison") -> str:
    return "–" if tensor.rmse_steps is None else f"{tensor.rmse_steps:.2f}"
