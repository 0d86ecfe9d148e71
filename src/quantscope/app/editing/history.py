"""The edits in force: where they outlive a page, and the way back through them."""

from collections.abc import Hashable
from threading import Lock
from time import monotonic

from quantscope.app.opened import Opened
from quantscope.edit import Edit

Edits = tuple[Edit, ...]

_MOST_KEPT = 16
_MOST_STEPS = 50
_SECONDS_IN_A_ROW = 1.5

_kept: dict[tuple[str, ...], Edits] = {}
_lock = Lock()


def edits_of(opened: Opened) -> Edits:
    """Give the edits that were in force when a page of this pair was last changed."""
    with _lock:
        return _kept.get(opened.key, ())


def keep_edits(opened: Opened, edits: Edits) -> None:
    with _lock:
        _kept.pop(opened.key, None)
        if edits:
            _kept[opened.key] = edits
        while len(_kept) > _MOST_KEPT:
            _kept.pop(next(iter(_kept)))


class History:
    """The edits in force before; one gesture, however many moves it takes, is one step back."""

    def __init__(self) -> None:
        self._before: list[Edits] = []
        self._gesture: Hashable = None
        self._at = 0.0

    def __bool__(self) -> bool:
        return bool(self._before)

    def keep(self, edits: Edits, gesture: Hashable) -> None:
        """`edits` are about to be left; moves of the same `gesture` in a row are kept once."""
        now = monotonic()
        goes_on = gesture is not None and gesture == self._gesture
        if not goes_on or now - self._at > _SECONDS_IN_A_ROW:
            self._before.append(edits)
            del self._before[:-_MOST_STEPS]
        self._gesture, self._at = gesture, now

    def undo(self) -> Edits:
        self._gesture = None
        return self._before.pop() if self._before else ()

    def clear(self) -> None:
        self._before.clear()
