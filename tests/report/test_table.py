"""Tables that must fit: what gives way, in which order, and that nothing is lost unsaid."""

import pytest

from quantscope.report.table import Column, Table, wrap
from quantscope.report.wording import format_rounded

TABLE = Table(
    "t",
    (
        Column("tensor", kind="name"),
        Column("SQNR", right=True),
        Column("RMSE", right=True, spare=1),
        Column("inherited from", spare=2),
        Column("", kind="bar"),
    ),
    (
        ("stack2.shortcut.out", "29.1", "0.68", "stem.out 6.0%, stack1.conv2.out 83.9%", "█" * 16),
        ("head.out", "exact", "0.00", "", "█" * 8),
    ),
)


def test_without_a_width_everything_stands_in_full() -> None:
    lines = list(TABLE.lines())
    assert lines[0].split() == ["tensor", "SQNR", "RMSE", "inherited", "from"]
    assert "stack1.conv2.out 83.9%  ████████████████" in lines[1]
    assert len(lines) == 3


@pytest.mark.parametrize("width", range(26, 100))
def test_a_table_fits_and_breaks_no_word(width: int) -> None:
    lines = list(TABLE.lines(width))
    note = lines.pop() if lines[-1].startswith("no room for ") else ""
    assert max(map(len, lines)) <= width
    words = {word for row in TABLE.rows for cell in row for word in cell.split(" ")}
    for word in " ".join(lines[1:]).split():
        assert word in words or "…" in word or set(word) == {"█"}, word
    for heading in ("RMSE", "inherited from"):
        assert (heading in note) != (heading in lines[0])


def test_the_least_needed_column_goes_first_and_is_named() -> None:
    wide = list(TABLE.lines(46))
    assert "inherited from" not in wide[0] and "RMSE" in wide[0]
    assert wide[-1] == "no room for inherited from: a wider terminal, or --json, has all"
    narrow = list(TABLE.lines(27))
    assert narrow[0].split() == ["tensor", "SQNR"]
    assert narrow[-1].startswith("no room for RMSE, inherited from: ")


def test_bars_take_the_room_that_is_left() -> None:
    def bars(width: int) -> list[int]:
        return [line.count("█") for line in list(TABLE.lines(width))[1:3]]

    assert bars(120) == [16, 8]
    assert bars(46) == [12, 6]
    assert bars(36) == [0, 0]


def test_names_are_shortened_in_the_middle() -> None:
    assert "stack2.…tcut.out" in list(TABLE.lines(23))[1]


def test_prose_is_broken_at_spaces_under_its_beginning() -> None:
    assert wrap("  stem.out: its values use 13% of it", 20) == [
        "  stem.out: its",
        "  values use 13% of",
        "  it",
    ]
    assert wrap("a line", None) == ["a line"]
    assert wrap("", 20) == [""]


@pytest.mark.parametrize(
    ("value", "form", "text"),
    [
        (-0.0004, ".1%", "0.0%"),
        (-0.0006, ".1%", "-0.1%"),
        (-0.001, "+.2f", "+0.00"),
        (0.25, "+.1f", "+0.2"),
    ],
)
def test_what_rounds_to_zero_has_no_minus(value: float, form: str, text: str) -> None:
    assert format_rounded(value, form) == text
