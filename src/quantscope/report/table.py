"""Hold tables, facts and lines as values: testable without a terminal or a browser.

A table becomes text here, fitted to a terminal's width, and HTML in `html.py`.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import Literal, NamedTuple, Self

from rich.cells import cell_len, chop_cells

from quantscope.plain_text import elide

_GAP = "  "
_NARROWEST = 14
_SHORTEST_NAME = 16
_SHORTEST_BAR = 4


class Column(NamedTuple):
    """How a column looks, and how it gives way where room is short.

    Numbers stand `right` and are never folded. Where a terminal has no room, bars become shorter,
    names are cut in their middle and other text is folded; if that is not enough, the columns of
    the highest `spare` are left out, and so on.

    A page also shows the `unit` below the heading and what is `explained` of it, and sorts by the
    column: `first` is the order that a click gives first, which has the worst on top.
    """

    heading: str
    right: bool = False
    kind: Literal["text", "name", "bar"] = "text"
    spare: int = 0
    unit: str = ""
    explained: str = ""
    first: Literal["ascending", "descending"] = "ascending"
    is_faint: bool = False


class Number(str):
    """A cell that knows the number it shows, by which a page sorts it; None goes last."""

    __slots__ = ("value",)
    value: float | None

    def __new__(cls, text: str, value: float | None = None) -> Self:
        made = super().__new__(cls, text)
        made.value = value
        return made


class Strong(str):
    """A cell that stands out among its neighbours."""

    __slots__ = ()


class Fact(NamedTuple):
    """One line of a heading: a label, and what there is to say."""

    label: str
    text: str


@dataclass(frozen=True)
class Line:
    """A line that is printed as it is, never broken, and how loudly."""

    text: str = ""
    tone: Literal["plain", "strong", "faint", "warning"] = "plain"


@dataclass(frozen=True)
class Table:
    """Cells of text in columns. `title` is one line that also explains what the columns do not say.

    On a page, rows may have `anchors` to link to, one for each row or none at all, and those whose
    places are in `flag_tensors` are marked.
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    anchors: tuple[str, ...] = ()
    flagged: frozenset[int] = frozenset()

    def column(self, heading: str) -> tuple[str, ...]:
        """Give the cells below a heading."""
        place = [column.heading for column in self.columns].index(heading)
        return tuple(row[place] for row in self.rows)

    def lines(self, width: int | None = None) -> Iterator[str]:
        """Lay the table out in `width`: the heading, the rows, and last what there was no room for.

        None for the width means as wide as it needs to be.
        """
        table = self if width is None else self._fit(width)
        yield from table._lay_out(width)
        kept = table.columns
        left_out = [c.heading for c in self.columns if c not in kept and c.kind != "bar"]
        if left_out:
            names = ", ".join(dict.fromkeys(left_out))
            yield f"no room for {names}: a wider terminal, or --json, has all"

    def _fit(self, width: int) -> "Table":
        """Leave out the columns that there is no room for."""
        table = self
        while table._least_width() > width:
            most = max(column.spare for column in table.columns)
            if not most:
                break
            table = table.keep([column.spare != most for column in table.columns])
        widths = table._widths(width)
        return table.keep(
            [
                # A bar of one to three characters tells nothing, so it goes.
                column.kind != "bar" or size >= _SHORTEST_BAR
                for column, size in zip(table.columns, widths, strict=True)
            ]
        )

    def keep(self, kept: Sequence[bool]) -> "Table":
        """Leave out the columns whose place in `kept` is False."""
        rows = tuple(tuple(compress(row, kept)) for row in self.rows)
        return replace(self, columns=tuple(compress(self.columns, kept)), rows=rows)

    def _lay_out(self, width: int | None) -> Iterator[str]:
        """Give the lines of the table; a cell that is folded makes its row several lines."""
        headings = tuple(column.heading for column in self.columns)
        natural, widths = self._widths(None), self._widths(width)
        for row in (headings, *self.rows) if any(headings) else self.rows:
            cells = [
                _cell(text, column, size, full)
                for text, column, size, full in zip(row, self.columns, widths, natural, strict=True)
            ]
            for place in range(max(map(len, cells), default=0)):
                parts = [cell[place] if place < len(cell) else "" for cell in cells]
                yield _GAP.join(
                    _align(part, size, right=column.right)
                    for part, size, column in zip(parts, widths, self.columns, strict=True)
                ).rstrip()

    def _cells_by_column(self) -> list[tuple[str, ...]]:
        headings = tuple(column.heading for column in self.columns)
        return list(zip(headings, *self.rows, strict=True))

    def _widths(self, width: int | None) -> list[int]:
        """Share out the width.

        Bars give way first, then text down to its longest word, then any text.
        """
        widths = [max(map(cell_len, cells)) for cells in self._cells_by_column()]
        if width is None:
            return widths
        gaps = len(_GAP) * (len(widths) - 1)
        for kinds, least in (
            (("bar",), [0] * len(widths)),
            (("text", "name"), self._least_widths()),
            (("text", "name"), [_NARROWEST] * len(widths)),
        ):
            while sum(widths) + gaps > width:
                giving = [
                    place
                    for place, column in enumerate(self.columns)
                    if not column.right and column.kind in kinds and widths[place] > least[place]
                ]
                if not giving:
                    break
                # The widest gives, one character at a time, so that columns of like size stay so.
                widths[max(giving, key=widths.__getitem__)] -= 1
        return widths

    def _least_width(self) -> int:
        # Bars can vanish, so neither they nor their gaps need room.
        columns = [c for c in self.columns if c.kind != "bar"]
        return sum(self._least_widths()) + len(_GAP) * (len(columns) - 1)

    def _least_widths(self) -> list[int]:
        """Give the widths in which numbers stand, no word is broken and names can be told apart."""
        found = []
        for column, cells in zip(self.columns, self._cells_by_column(), strict=True):
            full = max(map(cell_len, cells))
            if column.kind == "bar":
                found.append(0)
            elif column.right:
                found.append(full)
            elif column.kind == "name":
                found.append(min(full, _SHORTEST_NAME))
            else:
                longest = max(cell_len(word) for cell in cells for word in cell.split(" "))
                found.append(max(min(full, _NARROWEST), longest))
        return found


def _cell(text: str, column: Column, width: int, full: int) -> list[str]:
    """Give the lines of one cell; a bar keeps its share of `full`, the longest bar there is."""
    if column.kind == "name":
        return [elide(text, width)]
    if column.kind == "bar":
        return [text[: round(len(text) * width / (full or 1))]]
    return _fold(text, width)


def wrap(line: str, width: int | None) -> list[str]:
    """Break a line of prose at spaces; what goes on stands under its beginning."""
    margin = " " * (len(line) - len(line.lstrip(" ")))
    room = None if width is None else max(_NARROWEST, width - len(margin))
    return [margin + part for part in _fold(line[len(margin) :], room)]


def fact_lines(facts: Iterable[Fact], width: int | None = None) -> Iterator[tuple[str, str]]:
    """Give each line as its padded label and its text, which is folded to fit `width`."""
    facts = tuple(facts)
    margin = max((cell_len(fact.label) for fact in facts), default=0) + len(_GAP)
    for label, text in facts:
        room = None if width is None else max(_NARROWEST, width - margin)
        for place, line in enumerate(_fold(text, room)):
            yield _align("" if place else label, margin), line


def _align(text: str, width: int, *, right: bool = False) -> str:
    blank = " " * (width - cell_len(text))
    return blank + text if right else text + blank


def _fold(text: str, width: int | None) -> list[str]:
    """Break a text at spaces where there are some, inside a word where there are none."""
    if width is None or cell_len(text) <= width:
        return [text]
    lines: list[str] = []
    line = ""
    for word in text.split(" "):
        joined = f"{line} {word}" if line else word
        if cell_len(joined) <= width:
            line = joined
            continue
        if line:
            lines.append(line)
        *full, line = chop_cells(word, width) or [""]
        lines += full
    return [*lines, line] if line else lines
