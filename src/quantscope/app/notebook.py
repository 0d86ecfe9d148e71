"""Show the library's results as marimo does, for notebooks of one's own."""

from collections.abc import Iterable
from html import escape
from importlib.resources import files

import marimo as mo

from quantscope.model import Network
from quantscope.report import Fact, Table, draw_network, render


def table(found: Table) -> mo.ui.table:
    """Show a table, sortable and searchable, with all rows on one page."""
    headings = [column.heading or " " for column in found.columns]
    rows = [dict(zip(headings, row, strict=True)) for row in found.rows]
    right = [column.heading for column in found.columns if column.right]
    return mo.ui.table(
        rows,
        selection=None,
        pagination=False,
        show_column_summaries=False,
        show_data_types=False,
        label=found.title,
        text_justify_columns=dict.fromkeys(right, "right"),
    )


def facts(found: Iterable[Fact]) -> mo.Html:
    lines = (f"<dt>{escape(fact.label)}</dt><dd>{escape(fact.text)}</dd>" for fact in found)
    look = "display:grid;grid-template-columns:max-content 1fr;gap:2px 18px"
    return mo.Html(f'<dl style="{look}">{"".join(lines)}</dl>')


def drawing(network: Network) -> mo.Html:
    """Draw the network on white, whatever the theme."""
    svg = render(draw_network(network), ".svg").decode()
    inner = svg[svg.index("<svg") :]
    return mo.Html(f'<div style="background:#fff;overflow:auto;max-height:70vh">{inner}</div>')


def style() -> mo.Html:
    """Give the playground's colours and texts without its layout; show it once in a notebook."""
    text = (files("quantscope.app") / "style.css").read_text(encoding="utf-8")
    # The layout stands between these two headings of the file.
    colours, _, rest = text.partition("/* marimo's own furniture */")
    _, _, texts = rest.partition("/* words, lines, header */")
    return mo.Html(f"<style>{colours}{texts}</style>")
