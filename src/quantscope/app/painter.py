"""Draw figures in a thread, the latest wanted first: a click never waits for a picture."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from threading import Condition, Thread
from typing import Any

from matplotlib.figure import Figure

from quantscope.app.mistake import mistake
from quantscope.app.pictures import HALF, Picture, picture_of
from quantscope.app.session import Session
from quantscope.app.widgets import Gallery
from quantscope.errors import QuantscopeError

_SECONDS_OF_REST = 0.06


@dataclass(frozen=True)
class Wanted:
    """A picture that a pane asks for. Equal keys are equal pictures, within a session."""

    key: Hashable
    title: str
    draw: Callable[[], Figure]
    width: float = HALF
    height: float | None = None


_Asked = tuple[Session, tuple[Wanted, ...]]


class Painter:
    """Fills a gallery from a thread. Each call of `show` makes what was asked before unwanted."""

    def __init__(self, gallery: Gallery) -> None:
        self.gallery = gallery
        self._waiting: _Asked | None = None
        self._shown: tuple[Wanted, ...] = ()
        self._news = Condition()
        self._closed = False
        self._thread: Thread | None = None

    def show(self, session: Session, wanted: Sequence[Wanted], *, tab: str = "") -> None:
        """Show at once what is drawn already; the rest says that it is being drawn.

        They are `tab`'s: under another one nobody sees them.
        """
        known = [session.peek_picture(one.key) for one in wanted]
        cards = [_card(one, found) for one, found in zip(wanted, known, strict=True)]
        with self._news:
            self._shown = tuple(wanted)
            with self.gallery.hold_sync():
                self.gallery.cards, self.gallery.tab = cards, tab
            self._waiting = (session, tuple(wanted)) if None in known else None
            self._news.notify()
            if self._waiting and self._thread is None:
                self._thread = Thread(target=self._paint, daemon=True)
                self._thread.start()

    def find(self, card: str) -> Wanted:
        """Find what a card of the gallery shows, by its id."""
        found = next((one for one in self._shown if str(one.key) == card), None)
        if found is None:
            raise QuantscopeError("This figure is not shown any more; save one that is")
        return found

    def close(self) -> None:
        with self._news:
            self._closed = True
            self._news.notify()

    def _paint(self) -> None:
        while True:
            with self._news:
                self._news.wait_for(lambda: self._closed or self._waiting is not None)
                if self._closed or self._waiting is None:
                    return
                current = self._waiting
                # Clicks come in rows: nothing is drawn for one that is followed at once.
                if self._news.wait_for(partial(self._is_outdated, current), _SECONDS_OF_REST):
                    continue
            self._fill(current)

    def _fill(self, current: _Asked) -> None:
        """Draw one picture after the other until something else is asked for."""
        session, wanted = current
        for place, one in enumerate(wanted):
            with self._news:
                if self._is_outdated(current):
                    return
            # What another round has drawn since `show` is there at once, and shown too.
            card = _draw_card(session, one)
            with self._news:
                if self._is_outdated(current):
                    return
                if self.gallery.cards[place] != card:
                    cards = list(self.gallery.cards)
                    cards[place] = card
                    self.gallery.cards = cards
        with self._news:
            if self._waiting is current:
                self._waiting = None

    def _is_outdated(self, current: _Asked) -> bool:
        return self._closed or self._waiting is not current


def _draw_card(session: Session, wanted: Wanted) -> dict[str, Any]:
    def draw() -> Picture:
        return picture_of(wanted.draw(), width=wanted.width, height=wanted.height)

    try:
        return _card(wanted, session.picture(wanted.key, draw))
    except QuantscopeError as error:
        return {**_card(wanted, None), "error": str(error)}
    # Whatever goes wrong in one figure, the others are still drawn.
    except Exception as error:
        return {**_card(wanted, None), "error": mistake(error)}


def _card(wanted: Wanted, found: Picture | None) -> dict[str, Any]:
    """Give what `Gallery.cards` has of one picture, drawn or not."""
    empty = {"title": wanted.title, "src": "", "caption": "", "regions": [], "error": ""}
    shape = {"width": wanted.width, "height": wanted.height or 3.4, "wide": wanted.width > HALF}
    drawn = found.to_dict() if found else {}
    return {**empty, **shape, **drawn, "id": str(wanted.key), "title": wanted.title}
