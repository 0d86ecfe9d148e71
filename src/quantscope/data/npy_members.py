"""Read the arrays in a .npz file: their headers first, then as much as is wanted."""

import tokenize
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from quantscope.errors import BadDataError
from quantscope.files import check_file, check_memory

_LARGE = 256 * 2**20
_MAPPED = 64 * 2**20
"""The bytes from which an array that is not packed is mapped, not read: pages come as they are
used. Smaller ones are read, which also checks their sum.
"""
_MOST_TIMES = 20
"""The most times a large array may unpack to its packed size; beyond, it could be a bomb."""

_ENCRYPTED = 0x1
_LOCAL_HEADER = 30
"""The bytes of a zip's local header, before the name."""
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
# A header is a Python literal, so it may also fail as one.
BAD_HEADER = (
    ValueError,
    TypeError,
    SyntaxError,
    tokenize.TokenError,
    RecursionError,
    MemoryError,
    OverflowError,
)
_UNREADABLE = (zipfile.BadZipFile, zlib.error, OSError, EOFError, ValueError, NotImplementedError)


class NpyMember:
    """An array in an archive, of which only the header was read."""

    def __init__(self, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> None:
        self.name = info.filename.removesuffix(".npy")
        self._archive, self._info = archive, info
        if info.flag_bits & _ENCRYPTED or info.compress_type not in _METHODS:
            raise ValueError(f"'{self.name}' in it is encrypted, or packed as NumPy does not")
        with archive.open(info) as stream:
            self.shape, self._is_fortran, self.dtype = _header(stream, self.name)
            self._start = stream.tell()
        self._check_size()

    def read(self, rows: int | None = None) -> npt.NDArray[Any]:
        """Read the array, or only its first rows."""
        shape = self.shape
        if rows is not None and not self._is_fortran:
            shape = (min(rows, shape[0]), *shape[1:])
        wanted = prod(shape) * self.dtype.itemsize
        packed = self._info.compress_size
        if wanted >= _MAPPED and self._info.compress_type == zipfile.ZIP_STORED:
            return self._map(shape, rows)
        if wanted > max(_LARGE, _MOST_TIMES * packed):
            raise BadDataError(
                f"'{self.name}' in {self._archive.filename} unpacks from {packed:,} bytes to "
                f"{wanted:,}, which may be a bomb; if it is not, save it with np.savez, which does "
                "not pack"
            )
        check_memory(
            wanted,
            f"'{self.name}' in {self._archive.filename}",
            "take fewer rows, or save it with np.savez, which does not pack",
        )
        with self._archive.open(self._info) as stream:
            stream.seek(self._start)
            content = stream.read(wanted)
            if shape == self.shape:
                stream.read(1)  # the sum over all of it is checked at its end
        if len(content) < wanted:
            raise EOFError(f"'{self.name}' in it ends early")
        array = np.frombuffer(content, self.dtype)
        if self._is_fortran:
            return array.reshape(shape[::-1]).T[:rows]
        return array.reshape(shape)

    def _map(self, shape: tuple[int, ...], rows: int | None) -> npt.NDArray[Any]:
        """Map the array where it lies in the file, read-only."""
        path = Path(str(self._archive.filename))
        with path.open("rb") as file:
            file.seek(self._info.header_offset)
            head = file.read(_LOCAL_HEADER)
        if head[:4] != b"PK\x03\x04":
            raise zipfile.BadZipFile(f"'{self.name}' in it is not where the directory says")
        # The name and the extra field stand between the local header and the member.
        lengths = int.from_bytes(head[26:28], "little") + int.from_bytes(head[28:30], "little")
        start = self._info.header_offset + _LOCAL_HEADER + lengths + self._start
        mapped = np.memmap(path, self.dtype, "r", start, shape[::-1] if self._is_fortran else shape)
        return mapped.T[:rows] if self._is_fortran else mapped

    def _check_size(self) -> None:
        needed, held = prod(self.shape) * self.dtype.itemsize, self._info.file_size - self._start
        if needed != held:
            raise ValueError(f"'{self.name}' in it needs {needed:,} bytes and has {held:,}")


class NpyMembers(Mapping[str, NpyMember]):
    """The arrays of an archive by their names; a header is read when its array is asked for."""

    def __init__(self, archive: zipfile.ZipFile, infos: dict[str, zipfile.ZipInfo]) -> None:
        self._archive, self._infos = archive, infos
        self._found: dict[str, NpyMember] = {}

    def __getitem__(self, name: str) -> NpyMember:
        if name not in self._found:
            self._found[name] = NpyMember(self._archive, self._infos[name])
        return self._found[name]

    def __contains__(self, name: object) -> bool:
        return name in self._infos

    def __iter__(self) -> Iterator[str]:
        return iter(self._infos)

    def __len__(self) -> int:
        return len(self._infos)


def _header(stream: IO[bytes], name: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    try:
        read = _HEADERS[npy.read_magic(stream)]
    except (ValueError, KeyError):
        raise ValueError(f"'{name}' in it is not a NumPy array") from None
    try:
        shape, is_fortran, dtype = read(stream)
    except BAD_HEADER:
        raise ValueError(f"the header of '{name}' in it is damaged") from None
    if any(length < 0 for length in shape) or len(shape) > 32:
        raise ValueError(f"'{name}' in it has the impossible shape {list(shape)[:8]}")
    if dtype.hasobject:
        raise _ObjectsError
    return shape, is_fortran, dtype


@contextmanager
def open_npz(path: Path) -> Iterator[tuple["NpyMembers", str]]:
    """Open an archive; give its arrays by their names, and all names in words.

    What is wrong with it, now or when an array is read, becomes one line.
    """
    check_file(path, "a .npz file with images and labels")
    if not zipfile.is_zipfile(path):
        raise BadDataError(
            f"{path} is not a .npz file, or is cut short; write one with: "
            "np.savez(path, images=images, labels=labels)"
        )
    try:
        with zipfile.ZipFile(path) as archive:
            infos = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
            yield NpyMembers(archive, infos), ", ".join(sorted(infos)[:20]) or "nothing"
    except _ObjectsError:
        raise BadDataError(
            f"{path} holds Python objects, which are not read because they can run code; "
            "save plain arrays of numbers"
        ) from None
    except _UNREADABLE as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise BadDataError(f"{path} cannot be read ({reason}); write it anew") from None


class _ObjectsError(Exception):
    """Says that an array holds pickles."""
