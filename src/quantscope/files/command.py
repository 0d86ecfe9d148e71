"""This module remembers which files a command read, so that it does not write over one of them.

Files are compared by device and inode, so it does not matter how a path is spelled.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path

from quantscope.errors import BadConfigError


@dataclass
class Command:
    """The files that a command has read so far, and the outputs that must not replace anything."""

    reads: list[tuple[Path, os.stat_result]] = field(default_factory=list)
    new: frozenset[Path] = frozenset()


_command: ContextVar[Command | None] = ContextVar("command", default=None)
"""The command that runs; None where there is none, as in a notebook."""


@contextmanager
def one_command() -> Iterator[Command]:
    """Begin a command: until the block ends, no file is written that was read before in it."""
    command = Command()
    begun = _command.set(command)
    try:
        yield command
    finally:
        _command.reset(begun)


def running_command() -> Command | None:
    """Give the command that runs, if any."""
    return _command.get()


def note_read(path: Path) -> None:
    """Say that a file is read, so that the command does not write over it."""
    command = _command.get()
    if command is not None and (found := status_of(path)) is not None:
        command.reads.append((path, found))


def refuse_source(path: Path) -> None:
    """Raise if `path` is a file that the command reads."""
    command = _command.get()
    refuse_any(path, [status for _, status in command.reads] if command else ())


def refuse_to_remove(folder: Path) -> None:
    """Raise if a file that the command reads lies in a folder that is to be removed."""
    command = _command.get()
    place = Path(os.path.realpath(folder))
    for path, _ in command.reads if command else ():
        if Path(os.path.realpath(path)).is_relative_to(place):
            raise BadConfigError(f"{path} is in a folder that is emptied; move it elsewhere")


def refuse_any(path: Path, reads: Iterable[os.stat_result]) -> None:
    """Raise if `path` is one of the files that were looked at."""
    status = status_of(path)
    if status is not None and any(os.path.samestat(status, read) for read in reads):
        raise BadConfigError(f"{path} is a file that is read; give another name to write to")


def status_of(path: Path) -> os.stat_result | None:
    """Look at a file; None where nothing can be there, as under a name that is too long."""
    try:
        return path.stat()
    except (OSError, ValueError):  # ValueError: a null byte in the name
        return None
