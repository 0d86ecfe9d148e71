"""Say what edits do to a model, as text."""

from collections.abc import Iterator, Sequence

from quantscope.edit import Change, Edit, describe
from quantscope.model import QuantParams
from quantscope.plain_text import many, printable
from quantscope.report.table import Column, Table
from quantscope.report.wording import evaluation_delta_text, format_rounded, is_accuracy, score_text
from quantscope.run import Evaluation
from quantscope.run.whatif import DownstreamSqnr, Effect

Skipped = Sequence[tuple[Edit, str]]
"""The edits of a recipe that could not be applied, and why."""

_MOST_CLASSES = 20


def effect_lines(
    effect: Effect,
    sqnr: DownstreamSqnr | None = None,
    skipped: Skipped = (),
    width: int | None = None,
) -> Iterator[str]:
    """Write the edits, the accuracies, what changed in the model, and the SQNR downstream."""
    applied, edited = effect.applied, effect.evaluation
    yield (
        f"{effect.against_base.second.model} with {many(len(applied.edits), 'edit')}, "
        f"{edited.execution} execution, {many(edited.images, edited.sample_word)} of {edited.data}"
    )
    yield from (f"  {printable(describe(edit))}" for edit in applied.edits)
    if skipped:
        yield "not applied"
        yield from (f"  {printable(describe(edit))}: {printable(why)}" for edit, why in skipped)
    yield from (f"! {printable(warning.text)}" for warning in applied.warnings)
    yield ""
    yield from _accuracies(effect)
    if applied.changes:
        yield ""
        table = _changes(applied.changes)
        yield table.title
        yield from table.lines(width)
    if effect.kernels_changed:
        yield ""
        yield "kernels that ship, before and now"
        for layer, before, after in effect.kernels_changed:
            yield f"  {printable(layer)}: {before}, now {after}"
    if sqnr is not None:
        yield ""
        yield from _sqnr(sqnr, width)
    yield from (printable(text) for text in applied.notes)


def _accuracies(effect: Effect) -> Iterator[str]:
    base, floats = effect.against_base, effect.against_float
    rows = [("edited", effect.evaluation), ("original", base.second)]
    if floats is not None:
        rows.append(("float", floats.second))
    score = effect.evaluation.score
    if not is_accuracy(effect.evaluation):
        yield score.measure
    for name, evaluation in rows:
        yield f"{name:<9} {_score(evaluation)}"
    against = effect.evaluation.against_float
    if against is not None:
        yield f"against {printable(against.model)}"
    if effect.unchanged:
        what = "every score of every image" if base.tells_classes else "every output"
        yield f"changes nothing at the output: {what} is as it was"
        return
    yield f"edited against original: {evaluation_delta_text(base)}"
    changes = sorted((c.delta, c.name) for c in base.per_class if c.delta)
    if changes and len(base.per_class) <= _MOST_CLASSES:
        text = ", ".join(f"{name} {100 * delta:+.1f}" for delta, name in changes)
        yield f"by class, in points: {text}"
    if floats is not None:
        yield f"edited against float: {evaluation_delta_text(floats)}"


def _score(evaluation: Evaluation) -> str:
    bad = evaluation.not_finite
    nan = f", {many(bad, evaluation.sample_word)} with a NaN score" if bad else ""
    return f"{score_text(evaluation.score)}{nan}"


def _changes(changes: Sequence[Change]) -> Table:
    has_bits = any(
        change.before and change.after and change.before.bits != change.after.bits
        for change in changes
    )
    return Table(
        "what changed in the model",
        (
            Column("tensor", kind="name"),
            Column("because"),
            Column("scale"),
            Column("zero-point"),
            *([Column("bits")] if has_bits else []),
            Column("integers", right=True),
        ),
        tuple(
            (
                printable(change.tensor),
                {"edit": "edited", "shared": "shared parameters"}.get(change.kind, change.kind),
                _arrow(change.before, change.after, "scale"),
                _arrow(change.before, change.after, "zero_point"),
                *([_arrow(change.before, change.after, "bits")] if has_bits else []),
                f"{change.integers_changed:,}" if change.integers_changed else "",
            )
            for change in changes
        ),
    )


def _arrow(before: QuantParams | None, after: QuantParams | None, what: str) -> str:
    """Write a parameter before and after, or once where it is the same."""
    old, new = (_numbers(params, what) for params in (before, after))
    return new if old == new else f"{old} → {new}"


def _numbers(params: QuantParams | None, what: str) -> str:
    if params is None:
        return "float" if what == "scale" else "–"
    if what == "bits":
        return str(params.bits)
    values = getattr(params, what).reshape(-1)
    low, high = values.min(), values.max()
    return f"{low:.4g}" if low == high else f"{low:.4g}..{high:.4g}"


def _sqnr(sqnr: DownstreamSqnr, width: int | None) -> Iterator[str]:
    """Show SQNR before and now, and name the tensor that fares worst."""
    known = [(n, b, a) for n, b, a in sqnr.changes if a is not None or b is not None]
    both = {n: _difference(b, a) for n, b, a in known if a is not None and b is not None}
    if both:
        name = min(both, key=lambda each: both[each])
        change = both[name]
        yield (
            f"SQNR downstream in dB, against the float network; "
            f"{'the largest loss' if change < 0 else 'the smallest gain'} is "
            f"{abs(change):.2f} at {printable(name)}"
        )
        right = [Column(heading, right=True) for heading in ("before", "now", "change")]
        rows = tuple(
            (
                printable(name),
                _decibels(before),
                _decibels(after),
                format_rounded(both[name], "+.2f") if name in both else "",
            )
            for name, before, after in known
        )
        yield from Table("SQNR", (Column("tensor", kind="name"), *right), rows).lines(width)
    else:
        yield "no SQNR downstream is to be seen"
    if sqnr.unseen:
        reasons: dict[str, list[str]] = {}
        for tensor in sqnr.unseen:
            reasons.setdefault(tensor.reason, []).append(printable(tensor.name))
        yield from (f"  {', '.join(names)}: {why}" for why, names in reasons.items())


def _difference(before: float, after: float) -> float:
    """Subtract the numbers as they are shown, so that a row adds up."""
    return round(after, 2) - round(before, 2)


def _decibels(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"
