"""This module reads a person's files: regular ones only, no larger or deeper than they may be."""

import json
import math
import os
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

from quantscope.errors import BadDataError, QuantscopeError
from quantscope.files.command import note_read

Kind = Callable[[str], QuantscopeError]
"""The error to raise, made from its text."""

_MOST_JSON_BYTES = 8 * 2**20  # as Python objects it may take twenty times that
_DEEPEST = 100  # json.loads recurses, and ends in a RecursionError where brackets go deep
_LARGE = 64 * 2**20  # smaller files are read even if they are all holes
# Possessive, so that no text makes it try again; a string without an end reaches to the file's end.
_STRINGS = re.compile(r'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)', re.DOTALL)


def is_there(path: Path) -> bool:
    """Tell whether something has this name, be it readable or not.

    `Path.exists` raises where a folder cannot be searched or a name is too long.
    """
    try:
        path.lstat()
    except PermissionError:
        return True  # nobody can say; reading it will tell why
    except (OSError, ValueError):
        return False
    return True


def is_folder(path: Path) -> bool:
    """Tell whether `path` is a folder that can be seen."""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def check_file(
    path: Path, what: str, kind: Kind = BadDataError, *, most_bytes: int | None = None
) -> int:
    """Raise one line unless `path` is a regular file that can be read; give its size in bytes.

    `what` ends the line, as in "give WHAT". The command will not write over the file.
    """
    handle, size = _open(path, what, kind, most_bytes)
    os.close(handle)
    return size


def read_bytes(
    path: Path, what: str, *, most_bytes: int, kind: Kind = BadDataError, own: bool = False
) -> bytes:
    """Read a regular file of at most so many bytes.

    A file that is quantscope's `own`, such as a study's rows, may be written again by the command
    that reads it.
    """
    handle, size = _open(path, what, kind, most_bytes, own=own)
    try:
        with os.fdopen(handle, "rb") as file:
            return file.read(size)
    except OSError as error:
        raise kind(f"Cannot read {path}: {error.strerror or error}") from None


def read_json(
    path: Path,
    what: str,
    *,
    kind: Kind = BadDataError,
    most_bytes: int = _MOST_JSON_BYTES,
    own: bool = False,
) -> Any:
    """Read a JSON file whose every object has each key once."""
    try:
        return parse_json(read_bytes(path, what, most_bytes=most_bytes, kind=kind, own=own))
    except ValueError as error:
        raise kind(f"{path} is not JSON ({error}); give {what}") from None


def parse_json(content: bytes | str) -> Any:
    """Parse JSON; raise `ValueError` for what is not, or is nested deeper than anybody writes.

    Stricter than the `json` module: no key twice, no NaN, no number that overflows to infinity.
    """
    try:
        # "-sig", since some editors begin a file with a byte order mark.
        text = content if isinstance(content, str) else content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError("it is not text") from None
    if _depth(text) > _DEEPEST:
        raise ValueError(f"it is nested more than {_DEEPEST} deep")
    return json.loads(
        text, object_pairs_hook=_once, parse_constant=_no_constant, parse_float=_finite
    )


def _depth(content: str) -> int:
    """Count how deep brackets are nested, without those in strings."""
    import numpy as np  # slower to load than most files are to read

    marks = np.frombuffer(_STRINGS.sub("", content).encode("utf-8", "replace"), np.uint8)
    steps = np.isin(marks, (ord("["), ord("{"))).astype(np.int32)
    steps -= np.isin(marks, (ord("]"), ord("}")))
    return int(np.cumsum(steps, dtype=np.int32).max(initial=0))


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make an object of its pairs; a key that is there twice is refused, not overwritten."""
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise ValueError(f"{twice!r} is there twice")
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number in JSON")


def _finite(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise ValueError(f"{text} is too large for a number")
    return number


def _open(
    path: Path, what: str, kind: Kind, most_bytes: int | None, *, own: bool = False
) -> tuple[int, int]:
    """Open a regular file and give its handle and size; refuse anything else without waiting."""
    # Without O_NONBLOCK, opening a pipe waits until somebody writes to it.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        handle = os.open(path, flags)
    except FileNotFoundError:
        raise kind(f"There is no file {path}; give {what}") from None
    except (OSError, ValueError) as error:  # ValueError: a null byte in the name
        raise kind(_unreadable(path, what, error)) from None
    status = os.fstat(handle)
    if fault := _fault(handle, status, most_bytes):
        os.close(handle)
        raise kind(f"{path} {fault}; give {what}")
    if not own:
        note_read(path)
    return handle, status.st_size


def _fault(handle: int, status: os.stat_result, most_bytes: int | None) -> str | None:
    """Say why an open file is not read; None if it may be."""
    if stat.S_ISDIR(status.st_mode):
        return "is a folder"
    if not stat.S_ISREG(status.st_mode):
        return "is not a regular file"
    if most_bytes is not None and status.st_size > most_bytes:
        return f"has {status.st_size:,} bytes, more than the {most_bytes:,} that are read"
    if status.st_size > _LARGE and (stored := _stored_bytes(handle, status.st_size)) is not None:
        return (
            f"is almost all holes ({stored:,} of {status.st_size:,} bytes are stored), as a "
            "download that was not finished"
        )
    return None


def _stored_bytes(handle: int, size: int) -> int | None:
    """Give how many bytes of a file are stored if that is under 1 %, else None.

    A file of holes reads as zeros: it costs its whole size in time and memory, and holds nothing.
    """
    if not hasattr(os, "SEEK_DATA"):  # Windows
        return None
    stored = place = 0
    try:
        while place < size and 100 * stored < size:
            start = os.lseek(handle, place, os.SEEK_DATA)
            place = os.lseek(handle, start, os.SEEK_HOLE)
            stored += place - start
    except OSError:  # ENXIO: no more data; file systems that know no holes say that all is data
        pass
    finally:
        os.lseek(handle, 0, os.SEEK_SET)
    return stored if 100 * stored < size else None


def _unreadable(path: Path, what: str, error: OSError | ValueError) -> str:
    if isinstance(error, IsADirectoryError):  # Windows opens no folders
        return f"{path} is a folder; give {what}"
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return (
        f"Cannot read {str(path)!r}: {reason}"
        if "\0" in str(path)
        else (f"Cannot read {path}: {reason}")
    )
