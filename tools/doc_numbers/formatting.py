"""Format rows of Markdown tables and columns of text."""

from collections.abc import Iterable, Sequence

import numpy as np

Value = str | int | float
Fields = dict[str, Value]


def rows(cells: Iterable[Sequence[Value]]) -> str:
    """Write the lines of a Markdown table, without its head."""
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in cells)


def columns(cells: Sequence[Sequence[Value]]) -> str:
    """Write lines of text whose columns are aligned to the right."""
    texts = [[str(cell) for cell in line] for line in cells]
    widths = [max(len(line[i]) for line in texts) for i in range(len(texts[0]))]
    return "\n".join(
        "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True))
        for line in texts
    )


def place(at: Iterable[int]) -> str:
    return ",".join(str(i) for i in at)


def signed(value: int) -> str:
    """Write a number as something that is added: `+ 3`, `- 3`."""
    return f"+ {value}" if value >= 0 else f"- {-value}"


def percent(part: int, whole: int) -> str:
    """Write two digits that count, and a plain 0 where nothing does."""
    share = np.format_float_positional(100 * part / whole, precision=2, fractional=False, trim="-")
    return "0" if part == 0 else f"{share} %"
