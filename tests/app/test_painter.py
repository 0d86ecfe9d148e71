"""Pictures come when they are drawn; what nobody waits for any more is not drawn."""

import threading
import time

import pytest
from matplotlib.figure import Figure

from quantscope.app.opened import open_pair
from quantscope.app.painter import Painter, Wanted
from quantscope.app.session import Session
from quantscope.app.widgets import Gallery
from quantscope.errors import BadConfigError


@pytest.fixture
def painter() -> Painter:
    return Painter(Gallery())


@pytest.fixture
def session() -> Session:
    return Session(open_pair("resnet8-int8"))


def filled(painter: Painter) -> list[dict[str, object]]:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        cards = painter.gallery.cards
        if cards and all(card["src"] or card["error"] for card in cards):
            return cards
        time.sleep(0.01)
    raise AssertionError("nothing was drawn")


def test_places_are_there_before_their_pictures(painter: Painter, session: Session) -> None:
    gate = threading.Event()

    def draw() -> Figure:
        gate.wait(30)
        return Figure()

    painter.show(session, [Wanted("a", "What it shows", draw)])
    (card,) = painter.gallery.cards
    assert (card["title"], card["src"]) == ("What it shows", "")
    gate.set()
    assert str(filled(painter)[0]["src"]).startswith("data:image/png")


def test_picture_is_drawn_once(painter: Painter, session: Session) -> None:
    drawn = []
    wanted = [Wanted("a", "A", lambda: drawn.append(1) or Figure())]
    painter.show(session, wanted)
    filled(painter)
    painter.show(session, wanted)
    filled(painter)
    assert drawn == [1]


def test_what_is_followed_at_once_is_not_drawn(painter: Painter, session: Session) -> None:
    drawn = []
    for key in "abcde":
        painter.show(session, [Wanted(key, key, lambda key=key: drawn.append(key) or Figure())])
    filled(painter)
    assert drawn == ["e"]


def test_what_cannot_be_drawn_says_so_and_the_rest_is(painter: Painter, session: Session) -> None:
    def refuse() -> Figure:
        raise BadConfigError("no such thing")

    painter.show(session, [Wanted("a", "A", refuse), Wanted("b", "B", Figure)])
    first, second = filled(painter)
    assert (first["error"], first["src"]) == ("no such thing", "")
    assert second["src"]
    painter.close()
