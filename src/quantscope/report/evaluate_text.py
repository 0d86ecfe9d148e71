"""Show what was measured of a model as lines and tables."""

from collections.abc import Iterator, Sequence

from quantscope.plain_text import many, printable
from quantscope.report.table import Column, Line, Strong, Table
from quantscope.report.wording import (
    evaluation_delta_text,
    is_accuracy,
    number,
    score_text,
    shape_text,
)
from quantscope.run import Evaluation, EvaluationDelta, KernelGap, OutputDeviation

# A confusion table of more classes than this fits no terminal; the lowest ones are named instead.
_MOST_CLASSES = 20
_LOWEST_CLASSES = 10
_WORST_SHOWN = 3


def evaluation_view(
    results: Sequence[Evaluation],
    deltas: Sequence[EvaluationDelta] = (),
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
    yield Line(f"{result.model}  {result.execution} execution", "strong")
    if is_accuracy(result):
        low, high = result.interval_95
        loss = "not finite" if result.loss is None else f"{result.loss:.4f}"
        yield Line(
            f"accuracy {result.accuracy:.2%}  [{low:.2%}, {high:.2%}] at 95 %   {result.correct:,} "
            f"of {many(result.images, result.sample_word)} of {result.data}   loss {loss}"
        )
    else:
        yield from _score(result)
    yield Line(f"sha256 {result.digest}", "faint")
    if result.not_finite:
        yield Line(f"{many(result.not_finite, result.sample_word)} with a NaN among the scores")
    yield from _outputs(result)
    if result.tells_classes:
        yield from _classes(result)


def _score(result: Evaluation) -> Iterator[Line]:
    """Say what the measure counted, of what, and against whom; or why there is no number."""
    of = f"{many(result.images, result.sample_word)} of {result.data}"
    if result.scored is None:
        yield Line(of)
        yield Line(f"no score: {result.no_score}")
        return
    parts = [f"{result.score.measure} {score_text(result.score)}"]
    if result.against_float is not None and result.against_float.kl_nats is not None:
        parts.append(f"KL {result.against_float.kl_nats:.4f} nats")
    # The table below has the ratio of all samples' energies, which is another number.
    each = "mean of " if result.score.unit == "dB" else ""
    yield Line("   ".join([*parts, f"{each}{of}"]))
    if result.against_float is not None:
        yield Line(f"against {result.against_float.model}")


def _outputs(result: Evaluation) -> Iterator[Line | Table]:
    """Show each output beside the float model's, or alone where there is no score."""
    against = result.against_float
    if against is not None:
        if is_accuracy(result):
            yield Line(f"outputs against {against.model}")
        yield deviation_table(against.outputs, result.sample_word)
    elif result.scored is None or not result.tells_classes:
        yield _output_table(result)
    for name, why in result.left_out.items():
        yield Line(f"output {printable(name)} is left out: {why}")


def deviation_table(outputs: Sequence[OutputDeviation], sample_word: str = "sample") -> Table:
    """Show how far each output lies from the float model's, and for which samples the most."""
    rows = []
    for each in outputs:
        sqnr = "exact" if each.exact else "–" if each.sqnr_db is None else f"{each.sqnr_db:.2f}"
        worst = ", ".join(
            f"{row.index} ({'–' if row.sqnr_db is None else f'{row.sqnr_db:.1f}'})"
            for row in each.worst[:_WORST_SHOWN]
        )
        rows.append(
            (
                printable(each.name),
                shape_text(each.shape),
                sqnr,
                "–" if each.cosine is None else f"{each.cosine:.6f}",
                "–" if each.largest_difference is None else number(each.largest_difference),
                worst or "–",
            )
        )
    return Table(
        "",
        (
            Column("output"),
            Column("shape"),
            Column("pooled SQNR dB", right=True),
            Column("cosine", right=True),
            Column("largest difference", right=True),
            Column(f"worst {sample_word}s (dB)"),
        ),
        tuple(rows),
    )


def _output_table(result: Evaluation) -> Table:
    rows = []
    for each in result.output_facts:
        ends = (each["lowest"], each["highest"])
        low, high = ("–" if end is None else number(end) for end in ends)
        rows.append((printable(each["name"]), shape_text(each["shape"]), each["dtype"], low, high))
    return Table(
        "",
        (
            Column("output"),
            Column("shape"),
            Column("type"),
            Column("lowest", right=True),
            Column("highest", right=True),
        ),
        tuple(rows),
    )


def _classes(result: Evaluation) -> Iterator[Line | Table]:
    top5 = result.classes.top5_correct if result.classes else None
    if top5 is not None:
        yield Line(f"top-5 accuracy {top5 / result.images:.2%}")
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


def _delta(delta: EvaluationDelta) -> Iterator[Line]:
    other = delta.second
    yield Line(
        f"against {other.model}, {other.execution} execution, {_value(other)}: "
        f"{evaluation_delta_text(delta)}"
    )
    changes = [
        (100 * change.delta, change.name) for change in delta.per_class if change.delta is not None
    ]
    if changes and len(changes) <= _MOST_CLASSES:
        text = ", ".join(f"{name} {points:+.1f}" for points, name in sorted(changes))
        yield Line(f"by class, in points: {text}")
        yield Line()


def _value(evaluation: Evaluation) -> str:
    if is_accuracy(evaluation):
        return f"{evaluation.accuracy:.2%}"
    return f"{evaluation.score.measure} {score_text(evaluation.score)}"


def _gap(gap: KernelGap) -> Iterator[Line]:
    """Say what the kernels that ship change, and which layers they leave as float."""
    kernels = gap.kernels
    yield Line(
        f"kernel gap, runtime minus reference: {evaluation_delta_text(gap.evaluation_delta)}"
    )
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
