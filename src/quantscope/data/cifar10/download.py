"""Download one file over HTTP: resumed where it stopped, checked, never left half."""

import hashlib
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import cast

from quantscope.data.cifar10.facts import Archive
from quantscope.errors import BadDataError
from quantscope.progress import Progress, silent

_CHUNK = 1 << 18


class DownloadFailedError(BadDataError):
    """The server could not be reached, gave up, or sent something else."""


def download(
    archive: Archive, part: Path, *, progress: Progress = silent, timeout_s: float = 30.0
) -> Path:
    """Fill `part` with the archive, going on from what is there, and check it.

    A cut connection is resumed as long as each try brings something; what came stays in `part`
    for the next call. A file that fails its checksum is removed, and if it began with an older
    download it is tried once more from the start. OSError means that `part` cannot be written.
    """
    resumed = part.exists() and part.stat().st_size > 0
    _fill(archive, part, progress=progress, timeout_s=timeout_s)
    if resumed and not _is_intact(part, archive):
        part.unlink()
        _fill(archive, part, progress=progress, timeout_s=timeout_s)
    if not _is_intact(part, archive):
        part.unlink()
        raise DownloadFailedError(
            f"{archive.url} arrived damaged (its md5 is not {archive.md5}) and was removed"
        )
    return part


def _is_intact(file: Path, archive: Archive) -> bool:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "md5").hexdigest() == archive.md5


def _fill(archive: Archive, part: Path, *, progress: Progress, timeout_s: float) -> None:
    part.touch()
    while True:
        before = part.stat().st_size
        complaint = "the connection was cut"
        try:
            if _receive(archive, part, progress=progress, timeout_s=timeout_s):
                return
        except _NetworkError as error:
            complaint = str(error)
        if part.stat().st_size <= before:
            if not before:
                part.unlink()
            raise DownloadFailedError(f"{archive.url} could not be downloaded ({complaint})")


class _NetworkError(Exception):
    """An error of the network, kept apart from OSError, which here means the disk."""


def _receive(archive: Archive, part: Path, *, progress: Progress, timeout_s: float) -> bool:
    """Make one request; give True when all of the file is there."""
    done = part.stat().st_size
    with _open(archive.url, start=done, timeout_s=timeout_s) as response:
        if response.status == 416:  # nothing comes after `done`: complete, or from another file
            return True
        if response.status == 206 and _first_byte(response) == done:
            mode = "ab"
        else:
            # The server sends all of it again, or another part than it was asked for.
            mode, done = "wb", 0
        length = response.headers.get("Content-Length", "")
        total = done + int(length) if length.isdigit() else 0
        with part.open(mode) as stream:
            for chunk in _chunks(response):
                stream.write(chunk)
                done += len(chunk)
                if done > archive.max_bytes:
                    stream.truncate(0)
                    raise DownloadFailedError(f"{archive.url} is far larger than CIFAR-10")
                progress("Downloading CIFAR-10", done, max(total, done))
    return done == total or not total


def _open(url: str, *, start: int, timeout_s: float) -> HTTPResponse:
    headers = {"User-Agent": "quantscope", "Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
    request = urllib.request.Request(url, headers=headers)
    try:
        return cast(HTTPResponse, urllib.request.urlopen(request, timeout=timeout_s))
    except urllib.error.HTTPError as error:
        if error.code == 416 and start:
            return cast(HTTPResponse, error)
        error.close()
        raise _NetworkError(f"the server answered {error.code} {error.reason}") from None
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise _NetworkError(getattr(reason, "strerror", None) or str(reason)) from None


def _first_byte(response: HTTPResponse) -> int | None:
    match = re.match(r"bytes (\d+)-", response.headers.get("Content-Range", ""))
    return int(match[1]) if match else None


def _chunks(response: HTTPResponse) -> Iterator[bytes]:
    while True:
        try:
            chunk = response.read(_CHUNK)
        except (OSError, HTTPException) as error:
            raise _NetworkError(str(error) or type(error).__name__) from None
        if not chunk:
            return
        yield chunk
