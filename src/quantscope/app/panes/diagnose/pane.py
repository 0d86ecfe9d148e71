"""Lay out the Diagnose tab."""

from math import isnan

import marimo as mo

from quantscope.app.editing import EditedFile
from quantscope.app.panes.diagnose.account import account_html, layers_html, unit_of
from quantscope.app.panes.diagnose.findings import findings_html
from quantscope.app.panes.parts import (
    OPEN_FLOAT,
    QUANTIZE,
    line,
    missing,
    offer,
    safe,
    say_which_model,
    with_minus,
)
from quantscope.app.panes.scores import score_text
from quantscope.app.place import Selection
from quantscope.app.session import Session
from quantscope.cure import CURES
from quantscope.diagnose import Account, Diagnosis
from quantscope.plain_text import many
from quantscope.report import attempt_text, findings_title, gain_text


def pane_html(
    session: Session,
    selection: Selection,
    edited: EditedFile | None,
    *,
    said: tuple[str, str] = ("", ""),
) -> mo.Html:
    """Show the diagnosis; before there is one, what is being done, or why there will be none.

    `said` is what went wrong with what a button asked for, and what it has done.
    """
    wrong, done = said
    diagnosis = session.diagnosis
    parts = [say_which_model(edited, "This is the model as it was opened, without {edits}.")]
    if wrong:
        parts.append(f'<p class="qs-line qs-bad" role="alert">{safe(wrong)}</p>')
    if done:
        parts.append(f'<p class="qs-line qs-which" role="status">{safe(done)}</p>')
    if diagnosis is None:
        parts.append(_none_yet(session))
    else:
        parts += [_head(session, diagnosis), _next(session, diagnosis)]
        parts.append(account_html(diagnosis.account))
        title = safe(findings_title(diagnosis)) if diagnosis.findings else ""
        parts.append(f"<h2>{title}</h2>" if title else "")
        parts.append(findings_html(session, diagnosis))
        parts.append(_together(diagnosis))
        if why := session.failures.get("tried"):
            parts.append(line(why, kind="qs-bad"))
        parts.append(_cures())
        parts.append(layers_html(session, diagnosis.account, selection))
        parts += [line(note, kind="qs-faint") for note in diagnosis.notes]
    body = "".join(parts)
    return mo.Html(f'<div class="qs-layer qs-diagnose" data-testid="diagnosis">{body}</div>')


def _none_yet(session: Session) -> str:
    if session.opened.is_float:
        text = "This is a float model: nothing in it is quantized, so nothing can be wrong with it."
        return missing(text, QUANTIZE)
    why = session.why_not_diagnosed
    if not why:
        return '<p class="qs-line qs-faint" role="status">Being diagnosed…</p>'
    offers = (OPEN_FLOAT,) if session.opened.no_float else ()
    return missing(why if why.endswith(".") else f"{why}.", *offers)


def _head(session: Session, diagnosis: Diagnosis) -> str:
    """Answer in one sentence how good the model is."""
    account = diagnosis.account
    loss = account.loss
    of = f"on {many(diagnosis.images, diagnosis.sample_word)}"
    if loss.helps:
        points = with_minus(safe(gain_text(loss)))
        text = f"Quantizing costs {points} {unit_of(account)} {of}{_most(account)}."
    elif isnan(loss.delta.delta):
        # The float model has no SQNR against itself, so there is a score and no loss.
        score = with_minus(safe(score_text(account.quantized)))
        text = f"{safe(account.quantized.measure)}: {score} {of}{_most_above(account)}."
    elif loss.is_sure:
        text = f"The quantized model is better than the float one {of}."
    else:
        text = f"What quantizing costs cannot be told from chance {of}."
    if account.kernels is not None and account.kernels.is_sure and account.kernels.value < 0:
        text += f" The kernels of {safe(account.kernels_of)} cost more."
    more = ""
    if diagnosis.images < len(session.sample):
        more = f' <span class="qs-faint">{len(session.sample):,} are on their way.</span>'
    return f'<p class="qs-line qs-verdict" data-testid="verdict">{text}{more}</p>'


def _most(account: Account) -> str:
    """Say which half holds most of a loss, where that is sure."""
    half = account.loss.value / 2
    parts = {"weights": account.weights_off, "activations": account.activations_off}
    held = [name for name, gain in parts.items() if gain.helps and gain.value > half]
    return f"; most of it comes back with all {held[0]} float" if len(held) == 1 else ""


def _most_above(account: Account) -> str:
    """Say which half raises a score most, where there is no loss to have a half of."""
    parts = {"weights": account.weights_off, "activations": account.activations_off}
    name, gain = max(parts.items(), key=lambda part: part[1].value)
    if not gain.helps:
        return ""
    return f"; with all {name} float {with_minus(safe(gain_text(gain)))} {unit_of(account)}"


def _cures() -> str:
    """Offer the cures that fit any network; each adds edits, which can be taken back."""
    offers = "".join(offer(kind, "cure", kind=kind) for kind in CURES)
    return (
        '<section class="qs-card" data-testid="cures"><h2>Cures</h2>'
        '<p class="qs-line qs-faint">Edits found from calibration images. They join the edits in '
        f"force, and What if shows what they bring.</p>{offers}</section>"
    )


def _together(diagnosis: Diagnosis) -> str:
    if diagnosis.together is None:
        return ""
    said = with_minus(safe(attempt_text(diagnosis.together)))
    return f'<p class="qs-line" data-testid="together">All that helped, together: {said}</p>'


def _next(session: Session, diagnosis: Diagnosis) -> str:
    """Offer what can be done next, one button each."""
    can_try = any(remedy.can_be_tried for f in diagnosis.findings for remedy in f.remedies)
    offers = []
    if can_try and not diagnosis.was_tried:
        offers.append(offer("measure every proposal", "try-all"))
    offers += [
        offer("look at the selected layer", "tab", tab="Layer"),
        offer("change a factor", "tab", tab="What if"),
        offer(f"see {session.noun}s that changed", "tab", tab="Samples"),
        offer("quantize otherwise", "tab", tab="Quantize"),
    ]
    return f'<p class="qs-line qs-next" data-testid="next">{"".join(offers)}</p>'
