"""Lock a folder, so that one process at a time writes into it."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from quantscope.errors import BadDataError
from quantscope.files import check_output

LOCK = ".lock"

if sys.platform == "win32":
    import msvcrt

    def _lock(stream: IO[bytes]) -> None:
        msvcrt.locking(stream.fileno(), msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _lock(stream: IO[bytes]) -> None:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder's lock, which the system releases even when the process is killed."""
    check_output(folder / LOCK)  # opening a pipe would wait
    with (folder / LOCK).open("ab") as stream:
        try:
            _lock(stream)
        except (BlockingIOError, PermissionError):
            raise BadDataError(
                f"Another quantscope is fetching into {folder}; wait for it to finish"
            ) from None
        yield
