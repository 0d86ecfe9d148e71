"""Show findings of any kind: what was seen, where, what it costs, and what can be tried."""

from collections.abc import Iterator

from quantscope.app.panes.diagnose.worst import select_place
from quantscope.app.panes.parts import offer, safe, select_button, with_minus
from quantscope.app.session import Session
from quantscope.diagnose import Attempt, Diagnosis, Finding, Remedy
from quantscope.report import attempt_text, cost_text

_PLACES_SHOWN = 6


def findings_html(session: Session, diagnosis: Diagnosis) -> str:
    """Write a card for each finding, what costs most first."""
    if not diagnosis.findings:
        return (
            '<section class="qs-card" data-testid="no-findings"><h2>Nothing known stands out</h2>'
            '<p class="qs-line">No known defect was found: what is lost is what 8 bits cost, or '
            "chance. What-if and Quantize show whether another choice does better.</p></section>"
        )
    return "".join(
        _card(session, diagnosis, place, finding)
        for place, finding in enumerate(diagnosis.findings)
    )


def _card(session: Session, diagnosis: Diagnosis, place: int, finding: Finding) -> str:
    cost = with_minus(safe(cost_text(finding, diagnosis.account.quantized.unit)))
    sure = finding.cost is not None and finding.cost.helps
    more = len(finding.places) - _PLACES_SHOWN
    rest = f"<li>and {more} more</li>" if more > 0 else ""
    seen = "".join(
        f"<li>{_where(session, each.where)}: {safe(each.seen)}</li>"
        for each in finding.places[:_PLACES_SHOWN]
    )
    return (
        f'<section class="qs-card qs-finding{" qs-costs" if sure else ""}" '
        f'data-testid="finding-{safe(finding.kind)}"><h3>{safe(finding.title)}</h3>'
        f'<p class="qs-line"><b>{cost}</b></p><ul>{seen}{rest}</ul>'
        f'<p class="qs-line qs-faint">{safe(finding.why)}</p>'
        f'<ul class="qs-remedies">{"".join(_remedies(place, finding))}</ul></section>'
    )


def _where(session: Session, name: str) -> str:
    chosen = select_place(session, name)
    return safe(name) if chosen is None else select_button(chosen, name)


def _remedies(place: int, finding: Finding) -> Iterator[str]:
    tried = {attempt.remedy.what: attempt for attempt in finding.attempts}
    for number, remedy in enumerate(finding.remedies):
        said = _said(tried.get(remedy.what))
        yield f"<li>{safe(remedy.what)} {_button(remedy, place, number)}{said}</li>"


def _button(remedy: Remedy, place: int, number: int) -> str:
    at = {"finding": str(place), "remedy": str(number)}
    if remedy.options:
        return offer("quantize so", "remedy", **at)
    if remedy.edits:
        return offer("put in force", "remedy", **at)
    return f"<code>{safe(remedy.command)}</code>" if remedy.command else ""


def _said(attempt: Attempt | None) -> str:
    if attempt is None:
        return ""
    kind = " qs-edited" if attempt.helps else ""
    text = with_minus(safe(attempt_text(attempt)))
    return f' <span class="qs-tried{kind}" data-testid="attempt">{text}</span>'
