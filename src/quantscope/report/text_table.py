"""Tables and facts as values that lay themselves out: testable without a terminal."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rich.cells import cell_len, chop_cells

_GAP = "  "
_NARROWEST = 14


class Column(NamedTuple):
    """Numbers stand `right` and are never folded."""

    heading: str
    right: bool = False


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
        """The heading, then the rows. Text is folded to fit `width`, down to what is readable."""
        headings = tuple(column.heading for column in self.columns)
        widths = self._widths((headings, *self.rows), width)
        for row in (headings, *self.rows) if any(headings) else self.rows:
            cells = [_folded(text, size) for text, size in zip(row, widths, strict=True)]
            for place in range(max(map(len, cells), default=0)):
                parts = [cell[place] if place < len(cell) else "" for cell in cells]
                yield _GAP.join(
                    _aligned(part, size, right=column.right)
                    for part, size, column in zip(parts, widths, self.columns, strict=True)
                ).rstrip()

    def _widths(self, rows: Sequence[Sequence[str]], width: int | None) -> list[int]:
        widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
        if width is None:
            return widths
        excess = sum(widths) + len(_GAP) * (len(widths) - 1) - width
        while excess > 0:
            folding = [
                place
                for place, column in enumerate(self.columns)
                if not column.right and widths[place] > _NARROWEST
            ]
            if not folding:
                break
            widest = max(folding, key=widths.__getitem__)
            widths[widest] -= 1
            excess -= 1
        return widths


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
