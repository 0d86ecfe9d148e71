"""This module writes a person's files whole or not at all, never over another one by accident."""

import hashlib
import os
import re
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from quantscope.errors import BadConfigError, QuantscopeError
from quantscope.files.command import refuse_any, refuse_source, running_command, status_of

try:
    import fcntl
except ModuleNotFoundError:  # Windows
    fcntl = None  # type: ignore[assignment]

TEMPORARY = ".quantscope-"
"""The beginning of the names of files that are being written."""

_FileId = tuple[int, int, str]
"""A folder's device and inode, and a name in it that does not tell upper from lower case."""

_TEMPORARY = re.compile(re.escape(TEMPORARY) + r"[0-9a-f]{8}-\w{8}(\.[^.]*)?")


def check_outputs(outputs: Iterable[Path], *, reads: Iterable[Path] = ()) -> None:
    """Raise now, before any long work, if files could not be written later.

    They must be writable, other files than those that are read, and different ones, however their
    paths are spelled: relative, through links, as hard links or in other letters.
    """
    found = [status for path in reads if (status := status_of(path)) is not None]
    places: set[_FileId] = set()
    for path in outputs:
        check_output(path)
        refuse_any(path, found)
        if (place := _place(path)) in places:
            raise BadConfigError(f"{path} would be written twice; give each output its own name")
        places.add(place)


def check_output(path: Path) -> None:
    """Raise now, before any long work, if `path` could not be written later."""
    if not status_of(path.parent):
        raise QuantscopeError(f"There is no folder {path.parent} to write {path.name} into")
    if not path.parent.is_dir():
        raise QuantscopeError(f"{path.parent} is not a folder to write {path.name} into")
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        mode = stat.S_IFREG
    except (OSError, ValueError) as error:
        raise QuantscopeError(f"Cannot write {path}: {_reason(error)}") from None
    if stat.S_ISDIR(mode):
        raise QuantscopeError(f"{path} is a folder; give the name of a file to write")
    if stat.S_ISLNK(mode):
        raise QuantscopeError(
            f"{path} is a link, which is not written through; name the file itself: "
            f"{os.path.realpath(path)}"
        )
    if not stat.S_ISREG(mode):
        raise QuantscopeError(f"{path} is a device or a pipe; give the name of a file to write")
    if not os.access(path.parent, os.W_OK):
        raise QuantscopeError(f"The folder {path.parent} is not writable; choose another")


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Give a temporary path that becomes `path` when the block ends without an error."""
    check_output(path)
    refuse_source(path)
    try:
        temporary, handle = _make_temporary(path)
    except OSError as error:
        raise QuantscopeError(f"Cannot write {path}: {error.strerror}") from None
    try:
        yield temporary
        temporary.chmod(_mode(path))  # it was made for its owner alone
        # The content reaches the disk before the name does: no crash leaves half a file under it.
        _sync(temporary)
        _move(temporary, path)
        with suppress(OSError):  # it is written; some file systems cannot sync a folder
            _sync(path.parent)
    except OSError as error:
        raise QuantscopeError(f"Cannot write {path}: {error.strerror or error}") from None
    finally:
        os.close(handle)
        temporary.unlink(missing_ok=True)


def write_whole(path: Path, content: bytes) -> None:
    with whole_file(path) as temporary:
        temporary.write_bytes(content)


def remove_leftovers(folder: Path, prefix: str = TEMPORARY) -> None:
    """Remove what processes that were killed left of the files that they wrote here.

    A process that lives holds a lock on its own.
    """
    if fcntl is None:
        return
    for leftover in folder.glob(f"{prefix}*"):
        if _TEMPORARY.fullmatch(leftover.name) and not leftover.is_symlink():
            with suppress(OSError):
                handle = os.open(leftover, os.O_RDONLY | os.O_NONBLOCK)  # a pipe would wait
                try:
                    _lock(handle, wait=False)
                    leftover.unlink()
                finally:
                    os.close(handle)


def _make_temporary(path: Path) -> tuple[Path, int]:
    """Make a file beside `path` and lock it; the lock lasts until the handle is closed.

    Its name says which file it becomes, so that only leftovers of that one are removed here.
    """
    prefix = f"{TEMPORARY}{hashlib.sha256(os.fsencode(path.name)).hexdigest()[:8]}-"
    remove_leftovers(path.parent, prefix)
    while True:
        # In the same folder, so that giving it its name moves no data.
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=prefix, suffix=path.suffix)
        with suppress(OSError):  # some file systems have no locks
            _lock(handle, wait=True)
        # Another process may have removed it before it was locked.
        if os.fstat(handle).st_nlink:
            return Path(name), handle
        os.close(handle)


def _lock(handle: int, *, wait: bool) -> None:
    if fcntl is not None:
        fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)


def _mode(path: Path) -> int:
    """Give the permissions of the file that is replaced, or those of any new file."""
    if (status := status_of(path)) is not None:
        return stat.S_IMODE(status.st_mode)
    umask = os.umask(0)  # there is no way to read it but to set it
    os.umask(umask)
    return 0o666 & ~umask


def _move(temporary: Path, path: Path) -> None:
    """Give the file its name. One that must be new does not replace what came in the meantime."""
    command = running_command()
    if command is None or path not in command.new:
        temporary.replace(path)
        return
    try:
        # Unlike a rename, a hard link fails where the name is taken.
        path.hardlink_to(temporary)
    except FileExistsError:
        raise BadConfigError(
            f"{path} appeared while it was made; give another name, or replace it with --force"
        ) from None
    except OSError:  # a file system without hard links
        temporary.replace(path)


def _sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, have reached the disk."""
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _place(path: Path) -> _FileId:
    """Identify a file that need not exist yet; other letter case may be the same file."""
    folder = path.parent.stat()
    return folder.st_dev, folder.st_ino, path.name.casefold()


def _reason(error: OSError | ValueError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
