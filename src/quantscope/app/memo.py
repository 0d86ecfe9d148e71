"""Keep results that are computed once, however many pages ask."""

import ctypes
import gc
import sys
from collections.abc import Callable, Hashable, MutableMapping
from threading import Lock, Timer
from typing import Any, TypeVar, cast
from weakref import WeakValueDictionary

T = TypeVar("T")

_NOTHING: Any = object()


class Shared:
    """A store of what pages share: a value is kept while any of them holds it."""

    def __init__(self) -> None:
        self._kept: MutableMapping[Hashable, Any] = WeakValueDictionary()
        self._gates: dict[Hashable, Lock] = {}
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._kept)

    def peek(self, key: Hashable) -> Any:
        """Give what is kept, or None; never compute."""
        with self._lock:
            return self._kept.get(key)

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """Give what is kept, or what `make` gives; a second caller waits for the first one's."""
        with self._lock:
            if (found := self._found(key)) is not _NOTHING:
                return cast(T, found)
            # A gate for each key: `make` may take minutes and ask for other keys.
            gate = self._gates.setdefault(key, Lock())
        with gate:
            with self._lock:
                if (found := self._found(key)) is not _NOTHING:
                    return cast(T, found)
            value = make()
            self.put(key, value)
        return value

    def put(self, key: Hashable, value: Any) -> None:
        with self._lock:
            self._kept.pop(key, None)
            self._kept[key] = value
            self._gates.pop(key, None)

    def _found(self, key: Hashable) -> Any:
        return self._kept.get(key, _NOTHING)


class Memo(Shared):
    """A bounded store: what was used longest ago goes first."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most
        self._kept = {}

    def put(self, key: Hashable, value: Any) -> None:
        super().put(key, value)
        with self._lock:
            while len(self._kept) > self._most:
                self._kept.pop(next(iter(self._kept)))

    def _found(self, key: Hashable) -> Any:
        # A dictionary keeps the order of insertion, so this moves the key to the end.
        found = self._kept.pop(key, _NOTHING)
        if found is not _NOTHING:
            self._kept[key] = found
        return found


_M_ARENA_MAX = -8  # glibc's malloc.h
_SECONDS = 2.0
"""The time from when a page has closed to when its threads are gone too."""


def use_one_heap() -> None:
    """Let all threads share one heap.

    Answers are found in many short threads. glibc gives each a heap of its own, and what one frees
    another cannot use: memory crept up by hundreds of megabytes over a long session.
    """
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "mallopt"):
        libc.mallopt(_M_ARENA_MAX, 1)


def give_back_soon() -> None:
    """Give back what a page held, when it has let go of it; glibc keeps it for later otherwise."""
    timer = Timer(_SECONDS, _give_back)
    timer.daemon = True
    timer.start()


def _give_back() -> None:
    gc.collect()  # a page's widgets know it, and it knows them
    give_back()


def give_back() -> None:
    """Give what was freed back to the system: after a comparison of a ResNet50 half a gigabyte."""
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "malloc_trim"):
        libc.malloc_trim(0)
