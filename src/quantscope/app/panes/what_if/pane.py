"""Lay out the What if tab: controls on the left, what they do on the right, and how to keep it."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import marimo as mo

from quantscope.app.accuracies import ACCURACY
from quantscope.app.panes.parts import QUANTIZE, line, missing, safe, select_button, table
from quantscope.app.panes.scores import delta_text, ends_text, score_text
from quantscope.app.panes.what_if.answers import Answer, RunChoice
from quantscope.app.place import select_tensor
from quantscope.app.session import Session
from quantscope.app.words import EXECUTIONS, word
from quantscope.edit import Applied, Change
from quantscope.plain_text import many
from quantscope.report import spread_text
from quantscope.run import Evaluation, EvaluationDelta
from quantscope.run.whatif import Effect

if TYPE_CHECKING:
    from quantscope.app.panes.what_if.bench import Workbench

_CHANGES_SHOWN = 60
_LARGEST_DOWNLOAD = 64 << 20


def show(bench: "Workbench") -> mo.Html:
    """Only places for widgets: nothing here changes when something is edited."""
    bench.visit()
    why = why_not(bench.session)
    if why:
        offers = (QUANTIZE,) if bench.session.opened.is_float else ()
        return mo.Html(
            f'<div class="qs-card" data-testid="no-what-if">{missing(why, *offers)}</div>'
        )
    view = bench.views
    return mo.Html(
        '<div class="qs-what-if" data-testid="what-if">'
        '<div class="qs-side"><div class="qs-card qs-controls">'
        f"{view['hist']}{view['params']}{view['switches']}</div>"
        f'<div class="qs-card qs-keeping"><h2>Recipes</h2>{view["recipes"]}'
        f'<div class="qs-saving">{_saving(bench)}</div></div></div>'
        f'<div class="qs-side">{view["way"]}{_only_way(bench.session)}{view["effect"]}'
        f"{view['full']}{view['flips']}{view['said']}</div></div>"
    )


def _saving(bench: "Workbench") -> str:
    path = bench.session.opened.path
    if path.stat().st_size <= _LARGEST_DOWNLOAD:
        return f"{bench.save_recipe}{bench.save_model}"
    how = f"quantscope whatif {path.name} --recipe RECIPE.json -o OUT{bench.editor.suffix}"
    return f"{bench.save_recipe}{line(f'Too large to download; write it with: {how}')}"


def _only_way(session: Session) -> str:
    """A program has no other execution, so there is nothing to choose."""
    if len(session.opened.executions) > 1:
        return ""
    text = (
        "A PT2E program is run by PyTorch as it states itself; kernels of this CPU are those of "
        "ONNX models"
    )
    return f'<p class="qs-line qs-faint" data-testid="only-way">{text}.</p>'


def why_not(session: Session) -> str:
    """Why this model cannot be edited; empty if it can."""
    opened = session.opened
    if opened.is_float:
        return (
            f"{opened.path.name} is a float model: it has no scales to change yet. Quantize it, "
            f"and open what comes out."
        )
    return opened.model.why_not_edited


def _counted(evaluation: Evaluation) -> str:
    return many(evaluation.images, evaluation.sample_word)


def way_text(way: RunChoice) -> str:
    if way.execution == "reference":
        return EXECUTIONS["reference"]
    return EXECUTIONS["runtime"] + (", int8 allowed" if way.int8_kernels else "")


def strip_numbers(answer: Answer) -> dict[str, str]:
    """Give the numbers of `EditStrip.numbers`: the edited model's beside the original's."""
    effect = answer.effect
    if effect is None:
        return {"value": "–", "note": answer.error} if answer.error else {}
    edited, delta = effect.evaluation, effect.against_base
    return {
        "value": score_text(edited.score),
        "delta": delta_text(delta),
        "note": f"against the original, {_counted(edited)}, {way_text(answer.way)}",
    }


def numbers_html(answer: Answer | None) -> str:
    """The edited model beside the original and the float one, on the same images."""
    if answer is None or (answer.effect is None and not answer.error):
        return f'<div class="qs-numbers qs-trio">{_place("edited")}{_place("original")}</div>'
    if answer.effect is None:
        return line(answer.error, kind="qs-bad")
    return "".join(_numbers(answer, answer.effect))


def say_html(answer: Answer | None) -> str:
    """Say what the effect is, and all that changed in the model."""
    effect = answer.effect if answer else None
    return "".join(_said(answer, effect)) if answer and effect else ""


def _numbers(answer: Answer, effect: Effect) -> Iterator[str]:
    base, against_float = effect.against_base, effect.against_float
    edited = effect.evaluation
    cells = [_number("original", base.second, None, "the model as it was opened")]
    if answer.edits:
        cells.insert(0, _number("edited", edited, base, "the model with the edits in force"))
    if against_float is not None:
        cells.append(_number("float", against_float.second, None, ""))
    yield f'<div class="qs-numbers qs-trio" data-testid="effect">{"".join(cells)}</div>'
    facts = [f"{_counted(edited)}, {way_text(answer.way)}"]
    if edited.score.measure != ACCURACY:
        facts.insert(0, edited.score.measure)
    if answer.edits and against_float is not None:
        facts.append(f"edited against float {delta_text(against_float)}")
    yield line(" · ".join(facts), kind="qs-faint")


def _said(answer: Answer, effect: Effect) -> Iterator[str]:
    if not answer.edits:
        yield line("Move a slider, drag an end of the range, or switch something off.")
        yield from (line(f"{note}.") for note in effect.applied.notes)
        return
    if effect.unchanged:
        every = "score" if effect.evaluation.classes is not None else "value"
        row = effect.evaluation.sample_word
        text = f"Changes nothing at the output: every {every} of every {row} is the same."
        yield f'<p class="qs-line" data-testid="unchanged">{text}</p>'
    for layer, before, after in answer.kernels:
        yield (
            f'<p class="qs-line qs-gap">{word("kernel", "kernel")} of <b>{safe(layer)}</b>: '
            f"{safe(before)}, now {safe(after)}</p>"
        )
    if answer.error:
        yield line(answer.error, kind="qs-bad")
    yield _changes(answer.session, effect.applied)


def _place(label: str) -> str:
    return (
        f'<div class="qs-number"><span class="qs-label">{label}</span>'
        '<span class="qs-value">…</span><span class="qs-delta">&nbsp;</span></div>'
    )


def _number(label: str, found: Evaluation, against: EvaluationDelta | None, title: str) -> str:
    text = ends_text(found.score) if against is None else delta_text(against)
    return (
        f'<div class="qs-number qs-of-{label}" data-testid="what-if-{label}" title="{title}">'
        f'<span class="qs-label">{label}</span>'
        f'<span class="qs-value">{score_text(found.score)}</span>'
        f'<span class="qs-delta">{word("interval", text)}</span></div>'
    )


def _changes(session: Session, applied: Applied) -> str:
    """Everything in the model that is not what it was, folded away."""
    tensors = {t.name: t for t in session.opened.network.tensors}
    rows = []
    for change in applied.changes[:_CHANGES_SHOWN]:
        tensor = tensors.get(change.tensor)
        name = (
            select_button(select_tensor(tensor), change.tensor) if tensor else safe(change.tensor)
        )
        rows.append([name, safe(change.kind), *_before_and_after(change)])
    count = len(applied.changes)
    more = count - len(rows)
    notes = "".join(line(f"{note}.", kind="qs-faint") for note in applied.notes)
    tail = line(f"and {more:,} more", kind="qs-faint") if more else ""
    head = ["tensor", "why", word("scale", "scale"), word("zero_point", "zero-point"), "integers"]
    return (
        f'<details class="qs-changes" data-key="changes"><summary>{many(count, "tensor")} of the '
        f"model changed</summary>{table(head, rows, right=(2, 3, 4))}{tail}{notes}</details>"
    )


def _before_and_after(change: Change) -> Iterator[str]:
    if change.after is None:
        yield from ("not quantized", "", "")
        return
    after, before = change.after, change.before
    yield _arrow(spread_text(before.scale, 3) if before else "", spread_text(after.scale, 3))
    points_before = spread_text(before.zero_point) if before else ""
    yield _arrow(points_before, spread_text(after.zero_point))
    yield f"{change.integers_changed:,} changed" if change.integers_changed else ""


def _arrow(before: str, after: str) -> str:
    return safe(after) if before == after or not before else f"{safe(before)} → {safe(after)}"
