"""`quantscope evaluate`"""

from typing import Annotated, Literal

import typer
from rich.table import Table

from quantscope.cli.console import console, emit_json, progress_bar
from quantscope.data import load
from quantscope.errors import BadConfigError
from quantscope.run import Evaluation, PairedDelta, evaluate, paired


def command(
    model: Annotated[str, typer.Argument(help="A model file, or a bundled one: resnet8.")],
    data: Annotated[
        str, typer.Option(help="sample (1,000 bundled test images), full (10,000), or FILE.npz.")
    ] = "sample",
    images: Annotated[int | None, typer.Option(help="Only the first N images.")] = None,
    execution: Annotated[
        Literal["runtime", "reference"] | None,
        typer.Option(
            help="runtime: the fused kernels that ship (default for ONNX). "
            "reference: the arithmetic that the file states."
        ),
    ] = None,
    against: Annotated[
        str | None, typer.Option(help="A second model to compare with, image by image.")
    ] = None,
    batch: Annotated[int | None, typer.Option(help="Images executed at once.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Measure a classifier: accuracy, loss, per class, confusion.

    Example: quantscope evaluate resnet8 --data full --execution reference
    """
    chosen = load(data)
    if images is not None:
        if not 1 <= images <= len(chosen):
            raise BadConfigError(
                f"--images {images} is not possible: {chosen.name} has {len(chosen)}"
            )
        chosen = chosen.take(images)
    with progress_bar() as progress:
        result = evaluate(model, chosen, execution=execution, batch=batch, progress=progress)
        delta = None
        if against:
            other = evaluate(against, chosen, execution=execution, batch=batch, progress=progress)
            delta = paired(result, other)
    if as_json:
        emit_json(result.to_dict() | ({"against": delta.to_dict()} if delta else {}))
        return
    _show(result)
    if delta:
        _show_delta(delta)


def _show(result: Evaluation) -> None:
    low, high = result.interval_95
    loss = "not finite" if result.loss is None else f"{result.loss:.4f}"
    console.print(f"{result.model}  {result.execution} execution", markup=False)
    console.print(
        f"accuracy {result.accuracy:.2%}  [{low:.2%}, {high:.2%}] at 95 %   "
        f"{result.correct:,} of {result.images:,} images of {result.data}   loss {loss}",
        markup=False,
    )
    console.print(f"sha256 {result.digest}", markup=False)
    if result.not_finite:
        console.print(f"{result.not_finite} images have a NaN among their scores", markup=False)
    if len(result.class_names) <= 20:
        console.print(_class_table(result))
    else:
        worst = sorted(
            (c for c in result.per_class if c.accuracy is not None), key=lambda c: c.accuracy or 0.0
        )[:10]
        text = ", ".join(f"{c.name} {c.correct}/{c.total}" for c in worst)
        console.print(f"lowest classes: {text}", markup=False)


def _class_table(result: Evaluation) -> Table:
    table = Table(title="true class by row, predicted by column", title_justify="left", box=None)
    table.add_column("class")
    table.add_column("accuracy", justify="right")
    for name in result.class_names:
        table.add_column(name[:4], justify="right", style="dim")
    for row, (kind, counts) in enumerate(zip(result.per_class, result.confusion, strict=True)):
        share = "–" if kind.accuracy is None else f"{kind.accuracy:.1%}"
        cells = [
            f"[bold not dim]{n}[/]" if column == row else (str(n) if n else "·")
            for column, n in enumerate(counts)
        ]
        table.add_row(kind.name, share, *cells)
    return table


def _show_delta(delta: PairedDelta) -> None:
    low, high = delta.interval_95
    other = delta.second
    console.print(
        f"against {other.model}  {other.execution} execution  {other.accuracy:.2%}", markup=False
    )
    console.print(
        f"delta {100 * delta.delta:+.2f} points  [{100 * low:+.2f}, {100 * high:+.2f}] at 95 %   "
        f"{len(delta.gained)} images gained, {len(delta.lost)} lost, "
        f"{len(delta.changed)} classified differently   McNemar exact p = {delta.p_value:.3g}",
        markup=False,
    )
