"""The callback by which long work tells how far it is, without knowing who is watching."""

from typing import Protocol


class Progress(Protocol):
    """A function that is called as work advances; it raises `StoppedError` to stop the work.

    `what` is the step as a person reads it; `done` of `total` parts of it are finished.
    """

    def __call__(self, what: str, done: int, total: int) -> None: ...


def silent(what: str, done: int, total: int) -> None:
    """Report to nobody: the `Progress` of work that nobody watches."""
