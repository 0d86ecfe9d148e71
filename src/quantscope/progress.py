"""How long work tells how far it is, without knowing who is watching."""

from typing import Protocol


class Progress(Protocol):
    """Called as work advances. Raise `StoppedError` from it to stop the work."""

    def __call__(self, what: str, done: int, total: int) -> None: ...


def silent(what: str, done: int, total: int) -> None:
    """Nobody is watching."""
