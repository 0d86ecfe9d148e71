"""Writing a person's files: whole or not at all, and never over something else by accident."""

import os
import shlex
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from quantscope.errors import QuantscopeError

BUNDLED = Path(__file__).parent / "zoo" / "bundled"
"""The folder of the models that come with the package."""


def as_argument(path: Path) -> str:
    """The path as a person can paste it after a command; a bundled ONNX model by its name."""
    is_bundled = path.parent == BUNDLED and path.suffix == ".onnx"
    return path.stem if is_bundled else shlex.quote(str(path))


def check_output(path: Path) -> None:
    """Raise now, before any long work, if `path` could not be written later."""
    if path.is_dir():
        raise QuantscopeError(f"{path} is a folder; give the name of a file to write")
    if not path.parent.is_dir():
        raise QuantscopeError(f"There is no folder {path.parent} to write {path.name} into")
    if not os.access(path.parent, os.W_OK):
        raise QuantscopeError(f"The folder {path.parent} is not writable; choose another")


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A temporary path beside `path` that becomes it when the block ends without an error."""
    check_output(path)
    try:
        handle, name = tempfile.mkstemp(
            dir=path.parent, prefix=f".{path.name}.", suffix=path.suffix
        )
        os.close(handle)
    except OSError as error:
        raise QuantscopeError(f"Cannot write {path}: {error.strerror}") from None
    temporary = Path(name)
    try:
        yield temporary
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)  # mkstemp's files are private; a result is not
        temporary.replace(path)
    except OSError as error:
        raise QuantscopeError(f"Cannot write {path}: {error.strerror or error}") from None
    finally:
        temporary.unlink(missing_ok=True)


def write_whole(path: Path, content: bytes) -> None:
    with whole_file(path) as temporary:
        temporary.write_bytes(content)
