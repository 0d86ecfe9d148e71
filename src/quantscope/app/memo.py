"""Results that are computed once, however many pages ask, and forgotten when there are too many."""

from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any, TypeVar, cast

T = TypeVar("T")


class Memo:
    """A bounded store: what was used longest ago goes first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: dict[Hashable, Any] = {}
        self._gates: dict[Hashable, Lock] = {}
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._kept)

    def peek(self, key: Hashable) -> Any:
        """What is kept, or None; never computes."""
        with self._lock:
            return self._kept.get(key)

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """What is kept, or what `make` gives; a second caller waits for the first one's."""
        with self._lock:
            if key in self._kept:
                return cast(T, self._touch(key))
            gate = self._gates.setdefault(key, Lock())
        with gate:
            with self._lock:
                if key in self._kept:
                    return cast(T, self._touch(key))
            value = make()
            self.put(key, value)
        return value

    def put(self, key: Hashable, value: Any) -> None:
        with self._lock:
            self._kept.pop(key, None)
            self._kept[key] = value
            self._gates.pop(key, None)
            while len(self._kept) > self._most:
                self._kept.pop(next(iter(self._kept)))

    def _touch(self, key: Hashable) -> Any:
        self._kept[key] = self._kept.pop(key)
        return self._kept[key]
