"""Write pieces of HTML that panes share. Every text from a model goes through `safe`."""

from collections.abc import Iterable, Sequence
from html import escape
from json import dumps

from quantscope.app.edited import EditedFile
from quantscope.app.selection import Selection
from quantscope.plain_text import printable


def safe(text: str) -> str:
    return escape(printable(text))


def share_text(share: float, digits: int = 2) -> str:
    """Write `0.03 %`; a share that is not zero never reads as zero."""
    smallest = 10.0**-digits
    if share and abs(100 * share) < smallest / 2:
        return f"< {smallest:g} %" if share > 0 else f"> −{smallest:g} %"
    return f"{100 * share:.{digits}f} %".replace("-", "−")


def select_button(selection: Selection, text: str, *, chosen: bool = False) -> str:
    """Write a name that selects what it names, as a click in the graph does."""
    sent = escape(dumps(selection.to_dict()), quote=True)
    mark = ' aria-pressed="true"' if chosen else ""
    return f'<button type="button" class="qs-link" data-select="{sent}"{mark}>{safe(text)}</button>'


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[int] = ()) -> str:
    """Write a table whose cells and headings are HTML already."""

    def cells(tag: str, row: Sequence[str]) -> str:
        return "".join(
            f"<{tag}{' class=qs-right' if place in right else ''}>{cell}</{tag}>"
            for place, cell in enumerate(row)
        )

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return (
        f'<div class="qs-scroll"><table class="qs-cells"><thead><tr>{cells("th", head)}</tr>'
        f"</thead><tbody>{body}</tbody></table></div>"
    )


def line(text: str, *, kind: str = "") -> str:
    """Write a paragraph; the text is escaped."""
    return f'<p class="qs-line {kind}">{escape(text)}</p>'


def said_of(edited: EditedFile | None, text: str) -> str:
    """Say which model a pane shows, while edits are in force; `{edits}` names them."""
    if edited is None:
        return ""
    said = escape(text.format(edits=edited.in_force))
    return f'<p class="qs-line qs-which" data-testid="which-model">{said}</p>'


def stacked_bar(parts: Sequence[tuple[str, str, float]]) -> str:
    """Draw shares of a whole as (name, colour, share); negative ones are named, without width."""
    whole = sum(max(share, 0.0) for *_, share in parts) or 1.0
    blocks = "".join(
        f'<i style="width:{100 * max(share, 0.0) / whole:.2f}%;background:{colour}"></i>'
        for _, colour, share in parts
    )
    keys = "".join(
        f'<span><i style="background:{colour}"></i>{name} <b>{share_text(share, 0)}</b></span>'
        for name, colour, share in parts
    )
    return f'<div class="qs-bar">{blocks}</div><div class="qs-keys">{keys}</div>'
