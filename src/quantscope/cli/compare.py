"""Run `quantscope compare`: a quantized network against its float one, or two of them."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from quantscope.cli.console import console, emit_json, progress_bar, show, terminal_width
from quantscope.cli.options import (
    THOUSAND,
    Batch,
    DataOfThousand,
    Evenly,
    FloatModelOrProgram,
    ImagesOfThousand,
    Int8Kernels,
    Json,
    QuantizedModel,
    stated_or_shipped,
)
from quantscope.cli.outputs import Writes, careful
from quantscope.cli.rows import load_samples, takes_rows

if TYPE_CHECKING:
    from quantscope.data import RowWishes
    from quantscope.run.compare import Comparison, SideBySide


@careful
@takes_rows
def command(
    model: QuantizedModel,
    float_model: FloatModelOrProgram = None,
    images: ImagesOfThousand = None,
    evenly: Evenly = False,
    data: DataOfThousand = None,
    rows: "RowWishes | None" = None,
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
    tensor: Annotated[
        str | None, typer.Option(help="Show this tensor alone, channel by channel.")
    ] = None,
    channels: Annotated[
        bool, typer.Option("--channels", help="With --json, every channel of every tensor.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show where a quantized network's error is born and where it is only inherited.

    Example: quantscope compare resnet8-int8 --images 200
    """
    from quantscope.files import write_whole
    from quantscope.model import open_model
    from quantscope.run.compare import compare, compare_with

    _check_together(
        other=other, other_float=other_float, tensor=tensor, needs_json=channels and not as_json
    )
    # Opened here, because the comparison and the page of it both ask them.
    opened = open_model(model)
    chosen = load_samples(opened, data, rows, images=images, evenly=evenly, unless_given=THOUSAND)
    if tensor is not None:
        opened.network.tensor(tensor)  # a name that is none is told before the work
    original, second, second_original = (
        None if given is None else open_model(given) for given in (float_model, other, other_float)
    )
    settings: dict[str, Any] = {
        "execution": execution,
        "int8_kernels": int8_kernels,
        "batch": batch,
        "float_model": original,
    }
    with progress_bar() as progress:
        versions: SideBySide | None = None
        if second is None:
            first = compare(opened, chosen, progress=progress, **settings)
        else:
            versions = compare_with(
                opened,
                second,
                chosen,
                other_float_model=second_original,
                progress=progress,
                **settings,
            )
            first = versions.first
        if html is not None:
            from quantscope.report.compare import comparison_page
            from quantscope.run import gather_details

            details = gather_details(
                first,
                opened,
                chosen,
                float_model=original,
                versions=versions,
                other_model=second,
                other_float_model=second_original,
                int8_kernels=int8_kernels,
                progress=progress,
            )
            write_whole(html, comparison_page(details).encode())
    if as_json:
        emit_json(
            first.to_dict(channels=channels, tensor=tensor)
            if versions is None
            else versions.to_dict(channels=channels)
        )
        return
    show(_lines(versions or first, tensor, terminal_width()))
    if html is not None:
        console.print(f"\nWrote {html}", markup=False)


def _check_together(
    *, other: str | None, other_float: str | None, tensor: str | None, needs_json: bool
) -> None:
    """Refuse options that do not go together, before the work."""
    from quantscope.errors import BadConfigError

    if other_float is not None and other is None:
        raise BadConfigError("--with-float is the float model of --with; give that too")
    if tensor is not None and other is not None:
        raise BadConfigError("--tensor shows one model's tensor; leave out --with")
    if needs_json:
        raise BadConfigError(
            "--channels is for --json; --tensor NAME shows one tensor's as a table"
        )


def _lines(
    found: "Comparison | SideBySide", tensor: str | None, width: int | None
) -> Iterator[str]:
    from quantscope.report.compare import channel_lines, comparison_lines, side_by_side_lines
    from quantscope.run.compare import SideBySide

    if isinstance(found, SideBySide):
        return side_by_side_lines(found, width)
    if tensor is not None:
        return channel_lines(found, found[tensor], width)
    return comparison_lines(found, width)
