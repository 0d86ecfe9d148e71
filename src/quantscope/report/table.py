"""Tables and facts as values that lay themselves out: testable without a terminal."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Literal, NamedTuple

from rich.cells import cell_len, chop_cells

from quantscope.plain_text import elided

_GAP = "  "
_NARROWEST = 14
_SHORTEST_NAME = 16
_SHORTEST_BAR = 4


class Column(NamedTuple):
    """Numbers stand `right` and are never folded.

    Where there is no room, bars become shorter, names are cut in their middle and other text is
    folded; if that is not enough, the columns of the highest `spare` are left out, and so on.
    """

    heading: str
    right: bool = False
    kind: Literal["text", "name", "bar"] = "text"
    spare: int = 0


class Fact(NamedTuple):
    """One line of a heading: what it is about, and what there is to say."""

    label: str
    text: str


@dataclass(frozen=True)
class TextTable:
    """`title` is one line that also explains what the columns do not say."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]

    def column(self, heading: str) -> tuple[str, ...]:
        place = [column.heading for column in self.columns].index(heading)
        return tuple(row[place] for row in self.rows)

    def lines(self, width: int | None = None) -> Iterator[str]:
        """The heading, then the rows, fitted to `width`; last, what there was no room for."""
        table = self if width is None else self._fitted(width)
        yield from table._laid_out(width)
        kept = table.columns
        left_out = [c.heading for c in self.columns if c not in kept and c.kind != "bar"]
        if left_out:
            names = ", ".join(dict.fromkeys(left_out))
            yield f"no room for {names}: a wider terminal, or --json, has all"

    def _fitted(self, width: int) -> "TextTable":
        """Without what there is no room for."""
        table = self
        while table._least_width() > width:
            most = max(column.spare for column in table.columns)
            if not most:
                break
            table = table._keeping([column.spare != most for column in table.columns])
        widths = table._widths(width)
        return table._keeping(
            [
                column.kind != "bar" or size >= _SHORTEST_BAR
                for column, size in zip(table.columns, widths, strict=True)
            ]
        )

    def _keeping(self, kept: Sequence[bool]) -> "TextTable":
        rows = tuple(tuple(compress(row, kept)) for row in self.rows)
        return TextTable(self.title, tuple(compress(self.columns, kept)), rows)

    def _laid_out(self, width: int | None) -> Iterator[str]:
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
                    _aligned(part, size, right=column.right)
                    for part, size, column in zip(parts, widths, self.columns, strict=True)
                ).rstrip()

    def _cells_by_column(self) -> list[tuple[str, ...]]:
        headings = tuple(column.heading for column in self.columns)
        return list(zip(headings, *self.rows, strict=True))

    def _widths(self, width: int | None) -> list[int]:
        """Bars give way first, then text down to its longest word, then any text."""
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
                widths[max(giving, key=widths.__getitem__)] -= 1
        return widths

    def _least_width(self) -> int:
        columns = [c for c in self.columns if c.kind != "bar"]
        return sum(self._least_widths()) + len(_GAP) * (len(columns) - 1)

    def _least_widths(self) -> list[int]:
        """In which every number stands, no word is broken and names can be told apart."""
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
    if column.kind == "name":
        return [elided(text, width)]
    if column.kind == "bar":
        return [text[: round(len(text) * width / (full or 1))]]
    return _folded(text, width)


def wrapped(line: str, width: int | None) -> list[str]:
    """A line of prose, broken at spaces; what goes on stands under its beginning."""
    margin = " " * (len(line) - len(line.lstrip(" ")))
    room = None if width is None else max(_NARROWEST, width - len(margin))
    return [margin + part for part in _folded(line[len(margin) :], room)]


def fact_lines(facts: Iterable[Fact], width: int | None = None) -> Iterator[tuple[str, str]]:
    """Label, padded, and text by line; the text is folded to fit `width`."""
    facts = tuple(facts)
    margin = max((cell_len(fact.label) for fact in facts), default=0) + len(_GAP)
    for label, text in facts:
        room = None if width is None else max(_NARROWEST, width - margin)
        for place, line in enumerate(_folded(text, room)):
            yield _aligned("" if place else label, margin), line


def _aligned(text: str, width: int, *, right: bool = False) -> str:
    blank = " " * (width - cell_len(text))
    return blank + text if right else text + blank


def _folded(text: str, width: int | None) -> list[str]:
    """Broken at spaces where there are some, inside a word where there are none."""
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
