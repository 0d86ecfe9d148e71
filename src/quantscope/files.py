"""Writing a person's files: whole or not at all, and never over something else by accident."""

import hashlib
import os
import shlex
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

from quantscope.errors import BadConfigError, QuantscopeError

try:
    import fcntl
except ModuleNotFoundError:  # Windows
    fcntl = None  # type: ignore[assignment]

BUNDLED = Path(__file__).parent / "zoo" / "bundled"
"""The folder of the models that come with the package."""

TEMPORARY = ".quantscope-"
"""How the names of files begin that are being written."""

_Place = tuple[int, int, str]
"""A folder's device and inode, and a name in it that does not tell upper from lower case."""

_reads: ContextVar[list[os.stat_result] | None] = ContextVar("reads", default=None)
"""What was read since a command began; None where none did, as in a notebook."""


def as_argument(path: Path) -> str:
    """The path as a person can paste it after a command; a bundled ONNX model by its name."""
    is_bundled = path.parent == BUNDLED and path.suffix == ".onnx"
    return path.stem if is_bundled else shlex.quote(str(path))


@contextmanager
def one_command() -> Iterator[None]:
    """Begin a command: until the block ends, no file is written that was read before in it."""
    begun = _reads.set([])
    try:
        yield
    finally:
        _reads.reset(begun)


def note_read(path: Path) -> None:
    """Say that a file is read, so that the command does not write over it."""
    reads = _reads.get()
    if reads is not None and (found := _status(path)) is not None:
        reads.append(found)


def check_outputs(outputs: Iterable[Path], *, reads: Iterable[Path] = ()) -> None:
    """Raise now, before any long work, if files could not be written later.

    They must be writable, other files than those that are read, and different ones, however their
    paths are spelled: relative, through links, as hard links or in other letters.
    """
    found = [status for path in reads if (status := _status(path)) is not None]
    places: set[_Place] = set()
    for path in outputs:
        check_output(path)
        _refuse_source(path, found)
        if (place := _place(path)) in places:
            raise BadConfigError(f"{path} would be written twice; give each output its own name")
        places.add(place)


def check_output(path: Path) -> None:
    """Raise now, before any long work, if `path` could not be written later."""
    if not _status(path.parent):
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
            f"{path.resolve()}"
        )
    if not stat.S_ISREG(mode):
        raise QuantscopeError(f"{path} is a device or a pipe; give the name of a file to write")
    if not os.access(path.parent, os.W_OK):
        raise QuantscopeError(f"The folder {path.parent} is not writable; choose another")


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A temporary path beside `path` that becomes it when the block ends without an error."""
    check_output(path)
    _refuse_source(path, _reads.get() or ())
    prefix = f"{TEMPORARY}{hashlib.sha256(os.fsencode(path.name)).hexdigest()[:8]}-"
    _remove_leftovers(path.parent, prefix)
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=prefix, suffix=path.suffix)
    except OSError as error:
        raise QuantscopeError(f"Cannot write {path}: {error.strerror}") from None
    temporary = Path(name)
    try:
        if fcntl is not None:
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield temporary
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)  # mkstemp's files are private; a result is not
        _sync(temporary)
        temporary.replace(path)
        _sync(path.parent)
    except OSError as error:
        raise QuantscopeError(f"Cannot write {path}: {error.strerror or error}") from None
    finally:
        os.close(handle)
        temporary.unlink(missing_ok=True)


def write_whole(path: Path, content: bytes) -> None:
    with whole_file(path) as temporary:
        temporary.write_bytes(content)


def _sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, have reached the disk."""
    if path.is_dir() and os.name == "nt":  # Windows opens no folders
        return
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _remove_leftovers(folder: Path, prefix: str) -> None:
    """Remove what processes that were killed left on their way to this file.

    A process that lives holds a lock on its own.
    """
    if fcntl is None:
        return
    for leftover in folder.glob(f"{prefix}*"):
        with suppress(OSError):
            handle = os.open(leftover, os.O_RDONLY | os.O_NONBLOCK)  # a pipe would keep us waiting
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                leftover.unlink()
            finally:
                os.close(handle)


def _refuse_source(path: Path, reads: Iterable[os.stat_result]) -> None:
    status = _status(path)
    if status is not None and any(os.path.samestat(status, read) for read in reads):
        raise BadConfigError(f"{path} is a file that is read; give another name to write to")


def _status(path: Path) -> os.stat_result | None:
    """None where nothing can be there, as under a name that is too long."""
    try:
        return path.stat()
    except (OSError, ValueError):
        return None


def _place(path: Path) -> _Place:
    folder = path.parent.stat()
    return folder.st_dev, folder.st_ino, path.name.casefold()


def _reason(error: OSError | ValueError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
