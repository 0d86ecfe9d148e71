"""Show what was measured of a classifier as lines and a table."""

from collections.abc import Iterator, Sequence

from quantscope.plain_text import many
from quantscope.report.table import Column, Line, Strong, Table
from quantscope.report.wording import paired_text
from quantscope.run import Evaluation, KernelGap, PairedDelta

# A confusion table of more classes than this fits no terminal; the lowest ones are named instead.
_MOST_CLASSES = 20
_LOWEST_CLASSES = 10


def evaluation_view(
    results: Sequence[Evaluation],
    deltas: Sequence[PairedDelta] = (),
    gap: KernelGap | None = None,
) -> Iterator[Line | Table]:
    """Show one evaluation after the other, then the kernel gap.

    `deltas` are either absent or one for each of `results`, and each stands below its evaluation.
    """
    for place, result in enumerate(results):
        yield from _evaluation(result)
        if deltas:
            yield from _delta(deltas[place])
    if gap is not None:
        yield from _gap(gap)


def _evaluation(result: Evaluation) -> Iterator[Line | Table]:
    low, high = result.interval_95
    loss = "not finite" if result.loss is None else f"{result.loss:.4f}"
    yield Line(f"{result.model}  {result.execution} execution", "strong")
    yield Line(
        f"accuracy {result.accuracy:.2%}  [{low:.2%}, {high:.2%}] at 95 %   "
        f"{result.correct:,} of {many(result.images, 'image')} of {result.data}   loss {loss}"
    )
    yield Line(f"sha256 {result.digest}", "faint")
    if result.not_finite:
        yield Line(f"{many(result.not_finite, 'image')} with a NaN among the scores")
    if len(result.class_names) <= _MOST_CLASSES:
        yield confusion_table(result)
        return
    seen = [c for c in result.per_class if c.accuracy is not None]
    lowest = sorted(seen, key=lambda c: c.accuracy or 0.0)[:_LOWEST_CLASSES]
    text = ", ".join(f"{c.name} {c.correct}/{c.total}" for c in lowest)
    yield Line(f"lowest classes: {text}")


def confusion_table(result: Evaluation) -> Table:
    """Count images by true and predicted class; those in the right one stand out."""
    classes = (Column(name[:4], right=True, is_faint=True) for name in result.class_names)
    rows = []
    for place, (kind, counts) in enumerate(zip(result.per_class, result.confusion, strict=True)):
        share = "–" if kind.accuracy is None else f"{kind.accuracy:.1%}"
        cells = (
            Strong(n) if column == place else str(n) if n else "·"
            for column, n in enumerate(counts)
        )
        rows.append((kind.name, share, *cells))
    return Table(
        "true class by row, predicted by column",
        (Column("class"), Column("accuracy", right=True), *classes),
        tuple(rows),
    )


def _delta(delta: PairedDelta) -> Iterator[Line]:
    other = delta.second
    yield Line(
        f"against {other.model}, {other.execution} execution, {other.accuracy:.2%}: "
        f"{paired_text(delta)}"
    )
    changes = [
        (100 * change.delta, change.name) for change in delta.per_class if change.delta is not None
    ]
    if changes and len(changes) <= _MOST_CLASSES:
        text = ", ".join(f"{name} {points:+.1f}" for points, name in sorted(changes))
        yield Line(f"by class, in points: {text}")
        yield Line()


def _gap(gap: KernelGap) -> Iterator[Line]:
    """Say what the kernels that ship change, and which layers they leave as float."""
    kernels = gap.kernels
    yield Line(f"kernel gap, runtime minus reference: {paired_text(gap.paired)}")
    if why := gap.explanation():
        yield Line(why, "warning")
    yield Line(
        f"{kernels.integer_layers} of {kernels.computing_layers} layers run as integer kernels"
    )
    for layer in kernels.layers:
        if layer.kernel == "float":
            why = layer.why or "why is not known"
            yield Line(f"  {layer.name} runs as float {layer.executed_as}: {why}")
    if not kernels.names_survived:
        yield Line("  the last stage of optimization changes some of these")
