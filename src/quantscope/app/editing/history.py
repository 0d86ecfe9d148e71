"""The edits in force before, and the way back and forth through them."""

from collections.abc import Hashable
from threading import Lock
from time import monotonic

from quantscope.app.opened import Opened
from quantscope.edit import Edit

Edits = tuple[Edit, ...]

_MOST_KEPT = 64
_MOST_STEPS = 50
_SECONDS_IN_A_ROW = 1.5

_kept: dict[Hashable, tuple[Edits, ...]] = {}
_lock = Lock()


class History:
    """The edits in force before; one gesture, however many moves it takes, is one step back."""

    def __init__(self, before: tuple[Edits, ...] = ()) -> None:
        self._before: list[Edits] = list(before)
        self._after: list[Edits] = []
        self._gesture: Hashable = None
        self._at = 0.0

    def __bool__(self) -> bool:
        return bool(self._before)

    @property
    def can_redo(self) -> bool:
        return bool(self._after)

    @property
    def before(self) -> tuple[Edits, ...]:
        """All that was in force before, the oldest first."""
        return tuple(self._before)

    def keep(self, edits: Edits, gesture: Hashable) -> None:
        """`edits` are about to be left; moves of the same `gesture` in a row are kept once."""
        now = monotonic()
        goes_on = gesture is not None and gesture == self._gesture
        if not goes_on or now - self._at > _SECONDS_IN_A_ROW:
            self._before.append(edits)
            del self._before[:-_MOST_STEPS]
        self._after.clear()
        self._gesture, self._at = gesture, now

    def undo(self, now: Edits) -> Edits:
        """Give what was in force before `now`."""
        self._gesture = None
        if not self._before:
            return now
        self._after.append(now)
        return self._before.pop()

    def redo(self, now: Edits) -> Edits:
        """Give what the last undo has left."""
        self._gesture = None
        if not self._after:
            return now
        self._before.append(now)
        return self._after.pop()


def keep_history(opened: Opened, edits: Edits, history: History) -> None:
    """Keep the way that led to these edits, for a page that is loaded again with them."""
    if not edits:
        return  # a fresh visit begins with none too, and has come no way
    with _lock:
        _kept.pop(key := (opened.key, edits), None)
        _kept[key] = history.before
        while len(_kept) > _MOST_KEPT:
            _kept.pop(next(iter(_kept)))


def history_of(opened: Opened, edits: Edits) -> History:
    """Give a history of one's own, with the way that led to these edits if it is known."""
    with _lock:
        return History(_kept.get((opened.key, edits), ()))
