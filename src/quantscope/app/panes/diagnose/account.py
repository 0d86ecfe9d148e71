"""Draw the account: what comes back with parts of the network float, as bars with intervals."""

from collections.abc import Sequence
from math import isfinite
from typing import NamedTuple

from quantscope.app.panes.diagnose.worst import select_place
from quantscope.app.panes.parts import offer, safe, select_button, with_minus
from quantscope.app.place import Selection
from quantscope.app.session import Session
from quantscope.app.words import word
from quantscope.diagnose import Account, Gain
from quantscope.report import format_signed, gain_text


class _Bar(NamedTuple):
    """One row: `name` and `ask` are HTML, `colour` a custom property of the page."""

    name: str
    gain: Gain
    colour: str
    ask: str = ""
    more: str = ""


def account_html(account: Account) -> str:
    """Show the loss, and what of it comes back with weights, activations or both float."""
    bars = [
        _Bar("float model", account.loss, "float"),
        _Bar("all weights float", account.weights_off, "edited", _off("weights")),
        _Bar("all activations float", account.activations_off, "edited", _off("activations")),
        _Bar("both float", account.both_off, "edited"),
    ]
    if account.kernels is not None:
        name = word("runtime", f"kernels of {account.kernels_of}")
        bars.append(_Bar(name, account.kernels, "shortcut"))
    unit = unit_of(account)
    return (
        f'<section class="qs-card" data-testid="account"><h2>What the loss is made of</h2>'
        f'<p class="qs-line qs-faint">More than the quantized model as its file states it'
        f"{f', in {unit}' if unit else ''}, with 95 % intervals.</p>{_table(bars)}</section>"
    )


def layers_html(session: Session, account: Account, selection: Selection) -> str:
    """List the layers that hold most of the loss; each selects itself."""
    if not account.layers:
        return ""
    bars = []
    for share in account.layers:
        chosen = select_place(session, share.layer)
        name = (
            safe(share.layer)
            if chosen is None
            else select_button(chosen, share.layer, chosen=chosen.layer == selection.layer)
        )
        own = "" if share.own_sqnr_db is None else f"{share.own_sqnr_db:.1f} dB"
        bars.append(_Bar(name, share.gain, "edited", more=own))
    measured = f"{len(account.layers)} of {account.layers_in_all} layers and inputs were measured"
    return (
        f'<section class="qs-card" data-testid="worst-layers"><h2>Where it sits</h2>'
        f'<p class="qs-line qs-faint">What comes back with one layer float, the most first; '
        f"{measured}, those that add most error of their own.</p>"
        f"{_table(bars, more='its own error')}</section>"
    )


def unit_of(account: Account) -> str:
    unit = account.quantized.unit
    return "points" if unit == "share" else safe(unit)


def _off(role: str) -> str:
    return offer("try", "off-role", role=role)


def _table(bars: Sequence[_Bar], *, more: str = "") -> str:
    ends = [end for bar in bars for end in _ends(bar.gain)]
    low, high = min((0.0, *ends)), max((0.0, *ends))
    rows = "".join(
        f'<tr><th scope="row">{bar.name}</th><td class="qs-gained">{_picture(bar, low, high)}</td>'
        f'<td class="qs-right">{with_minus(safe(gain_text(bar.gain)))}</td>'
        f'<td class="qs-right qs-faint">{_decibels(bar.gain)}</td>'
        f"{f'<td class=qs-right>{bar.more}</td>' if more else ''}"
        f"<td>{bar.ask}</td></tr>"
        for bar in bars
    )
    heads = ["comes back", word("sqnr", "pooled SQNR"), *([more] if more else [])]
    cells = "".join(f'<th scope="col" class="qs-right">{head}</th>' for head in heads)
    return (
        f'<table class="qs-account"><thead><tr><td></td><td></td>{cells}<td></td></tr></thead>'
        f"<tbody>{rows}</tbody></table>"
    )


def _ends(gain: Gain) -> tuple[float, ...]:
    ends = gain.delta.interval_95 or ()
    return tuple(end for end in (gain.delta.delta, *ends) if isfinite(end))


def _picture(bar: _Bar, low: float, high: float) -> str:
    """Draw a bar from zero, and the interval as a line over it."""
    found = _ends(bar.gain)
    span = high - low
    if not found or not span:
        return ""

    def at(value: float) -> float:
        return 100 * (value - low) / span

    value, *ends = found
    left, right = sorted((at(0.0), at(value)))
    line = ""
    if len(ends) == 2:
        start, end = at(ends[0]), at(ends[1])
        line = f'<b style="left:{start:.2f}%;width:{end - start:.2f}%"></b>'
    return (
        f'<span class="qs-span" aria-hidden="true"><s style="left:{at(0.0):.2f}%"></s>'
        f'<i style="left:{left:.2f}%;width:{right - left:.2f}%;background:var(--qs-{bar.colour})">'
        f"</i>{line}</span>"
    )


def _decibels(gain: Gain) -> str:
    change = gain.sqnr_change_db
    return "" if change is None else f"{format_signed(change, '+.2f')} dB"
