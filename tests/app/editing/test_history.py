"""The way back through the edits, and the edits in a page's address."""

import zlib
from base64 import urlsafe_b64encode
from urllib.parse import quote

import pytest

from quantscope.app import editing as book
from quantscope.app.opened import Opened, open_pair
from quantscope.edit import Off, SetScale
from quantscope.errors import BadConfigError


@pytest.fixture(scope="module")
def opened() -> Opened:
    return open_pair("resnet8-int8")


def test_undo_and_redo_go_the_same_way() -> None:
    history, first, second = book.History(), (SetScale("stem.out", 0.1),), (Off("stem"),)
    history.keep((), None)
    history.keep(first, None)
    assert history.undo(second) == first
    assert history.undo(first) == ()
    assert not history and history.redo(()) == first
    assert history.redo(first) == second
    assert not history.can_redo
    history.undo(second)
    history.keep(first, None)  # another edit: what was undone is gone
    assert not history.can_redo


def test_the_way_to_some_edits_is_kept_for_the_model_and_a_fresh_page_has_none(
    opened: Opened,
) -> None:
    other, edits = open_pair("resnet8-uint8"), (SetScale("stem.out", 0.1),)
    book.keep_history(opened, edits, book.History(((), (Off("stem"),))))
    again = book.history_of(opened, edits)
    assert again.undo(edits) == (Off("stem"),)
    assert len(book.history_of(opened, edits).before) == 2  # each page has its own
    assert not book.history_of(other, edits)
    book.keep_history(opened, (), book.History((edits,)))
    assert not book.history_of(opened, ())


@pytest.mark.parametrize("count", [0, 1, 3, 400])
def test_an_address_gives_the_edits_that_were_written_into_it(count: int) -> None:
    edits = tuple(SetScale(f"layer{n * 7919}.out", 0.1 + n / 977) for n in range(count))
    text = book.edits_to_address(edits)
    assert len(text) <= 1500 and bool(text) == bool(edits)
    assert quote(text, safe="") == text
    assert book.edits_from_address(text) == edits


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("hello", "cannot be read"),
        (".0123", "not kept any more"),
        (urlsafe_b64encode(zlib.compress(b"[[]]")).decode(), "An edit is an object"),
        (urlsafe_b64encode(zlib.compress(b"[" * 100_000)).decode(), "cannot be read"),
        (urlsafe_b64encode(zlib.compress(b"{}")).decode(), "cannot be read"),
    ],
)
def test_an_address_that_nobody_wrote_is_one_line(text: str, line: str) -> None:
    with pytest.raises(BadConfigError, match=line):
        book.edits_from_address(text)
