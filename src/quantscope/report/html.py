"""Write what pages are made of as HTML: tables, facts and lists, with every text escaped."""

from collections.abc import Iterable
from html import escape

from quantscope.plain_text import printable
from quantscope.report.table import Column, Number, Table

_SORTABLE = ' class="sortable"'


def text_html(text: str) -> str:
    """Escape a text for HTML, and show control characters in it as escapes."""
    return escape(printable(text))


def facts_html(facts: Iterable[tuple[str, str]]) -> str:
    """Write names and what there is to say of them, for inside a `<dl>`."""
    return "".join(f"<dt>{text_html(name)}</dt><dd>{text_html(text)}</dd>" for name, text in facts)


def list_html(lines: Iterable[str]) -> str:
    """Write a `<ul>` with an item for each line of text."""
    return "<ul>" + "".join(f"<li>{text_html(line)}</li>" for line in lines) + "</ul>"


def table_html(table: Table, *, sorts: bool = False) -> str:
    """Write the table without its title; it scrolls where it is wider than the page.

    `sorts` gives headings that sort when they are clicked (by the script of `page.py`). In such a
    table a column of numbers without a single one is left out.
    """
    if sorts:
        table = table.keep(
            [
                not column.right or any(_value(row[place]) is not None for row in table.rows)
                for place, column in enumerate(table.columns)
            ]
        )
    head = "".join(_heading(column, sorts=sorts) for column in table.columns)
    body = "".join(
        f"<tr{_attributes(table, place)}>"
        + "".join(_cell(*each, sorts=sorts) for each in zip(table.columns, row, strict=True))
        + "</tr>"
        for place, row in enumerate(table.rows)
    )
    return (
        f'<div class="wide"><table{_SORTABLE if sorts else ""}>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _value(cell: str) -> float | None:
    """Give the number that a cell sorts by, None for a cell of text."""
    return cell.value if isinstance(cell, Number) else None


def _attributes(table: Table, place: int) -> str:
    """Write a row's attributes: the id that links lead to, and the mark where it is flagged."""
    anchor = f' id="{escape(table.anchors[place])}"' if table.anchors else ""
    return anchor + (' class="flagged"' if place in table.flagged else "")


def _heading(column: Column, *, sorts: bool) -> str:
    text = text_html(column.heading)
    kind = "" if column.right else " class=text"
    if not sorts:
        return f'<th scope="col"{kind}>{text}</th>'
    unit = f"<small>{text_html(column.unit)}</small>" if column.unit else ""
    return (
        f'<th scope="col" aria-sort="none" data-first="{column.first}" '
        f'title="{text_html(column.explained)}"{kind}>'
        f'<button type="button">{text}</button>{unit}</th>'
    )


def _cell(column: Column, cell: str, *, sorts: bool) -> str:
    text = text_html(cell)
    if not column.right:
        return f'<td class="text">{text}</td>'
    if not sorts:
        return f"<td>{text}</td>"
    value = _value(cell)
    return f'<td data-v="{"" if value is None else f"{value:.9g}"}">{text}</td>'
