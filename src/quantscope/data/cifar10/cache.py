"""Keep the full set in the user's cache: opened as memory maps, put there whole or not at all."""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import platformdirs

from quantscope.data.cifar10.facts import CIFAR10, CLASS_NAMES, Edition, SplitName
from quantscope.data.npy_members import BAD_HEADER
from quantscope.data.samples import Samples
from quantscope.errors import BadDataError, QuantscopeError
from quantscope.files import TEMPORARY, check_file, check_output, is_folder

FOLDER = "cifar10"
MAKING = f"{TEMPORARY}{FOLDER}-"
"""The beginning of the names of folders in which a set is being made."""

_SPLITS: tuple[SplitName, SplitName] = ("train", "test")
Arrays = tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]


def cache_folder() -> Path:
    """Give the folder of what can be fetched again; QUANTSCOPE_CACHE moves it."""
    chosen = os.environ.get("QUANTSCOPE_CACHE")
    if not chosen:
        return Path(platformdirs.user_cache_dir("quantscope"))
    try:
        return Path(chosen).expanduser()
    except RuntimeError:
        raise BadDataError(
            f"QUANTSCOPE_CACHE is {chosen}, whose home folder is not known"
        ) from None


def load_full(
    split: SplitName, *, cache: Path | None = None, edition: Edition = CIFAR10
) -> Samples:
    """Open a split of the full set as a read-only memory map.

    Shapes and sizes are checked; the pixels were verified when they were fetched.
    """
    folder = (cache or cache_folder()) / FOLDER
    if not is_folder(folder):
        raise BadDataError(
            f"The full CIFAR-10 set is not in {folder}; get it with: quantscope data fetch"
        )
    expected = edition.split(split)
    count = len(expected)
    try:
        images = _mapped(folder / f"{split}_images.npy")
        labels = np.array(_mapped(folder / f"{split}_labels.npy")[: count + 1])
    except QuantscopeError as error:
        raise _damaged(folder, split, str(error)) from None
    if images.shape != (count, 3, 32, 32) or images.dtype != np.uint8:
        raise _damaged(folder, split, f"its images are {images.dtype} {list(images.shape)}")
    if labels.shape != (count,) or labels.dtype != np.int64:
        raise _damaged(folder, split, f"its labels are {labels.dtype} {list(labels.shape)}")
    labels.flags.writeable = False
    return Samples.of_images(
        name=f"cifar10-{split}",
        images=images.view(np.ndarray),
        labels=labels,
        indices=np.arange(count, dtype=np.int64),
        class_names=CLASS_NAMES,
        layout="nchw-pixels",
    )


def _mapped(path: Path) -> npt.NDArray[Any]:
    """Open an array as a memory map, which reads no more than is looked at."""
    check_file(path, "the file that was fetched")
    try:
        found: npt.NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, EOFError, *BAD_HEADER) as error:
        raise BadDataError(next(iter(str(error).splitlines()), "it cannot be read")) from None
    return np.atleast_1d(found)


def _damaged(folder: Path, split: str, found: str) -> BadDataError:
    return BadDataError(
        f"The {split} half of {folder} is damaged ({found}); mend it with: quantscope data fetch"
    )


def is_verified(cache: Path, edition: Edition) -> bool:
    """Say whether the full set is there and every pixel and label is as it should be."""
    try:
        for split in _SPLITS:
            load_verified(split, cache=cache, edition=edition)
    except BadDataError:
        return False
    return True


def load_verified(split: SplitName, *, cache: Path, edition: Edition = CIFAR10) -> Samples:
    """Load a split as `load_full` does, and check every pixel and label."""
    half = load_full(split, cache=cache, edition=edition)
    if half.digest != edition.split(split).digest:
        raise _damaged(cache / FOLDER, split, "its images or labels are not CIFAR-10's")
    return half


@contextmanager
def writing_into(folder: Path) -> Iterator[None]:
    """Turn a full disk or a folder that cannot be written into a line that says what to do."""
    try:
        yield
    except OSError as error:
        raise BadDataError(
            f"Cannot write into {folder}: {error.strerror or error}; the full set needs about "
            "400 MB while it is fetched, 190 MB after. Make room, or set QUANTSCOPE_CACHE to "
            "another folder"
        ) from error


def install(train: Arrays, test: Arrays, *, cache: Path) -> Path:
    """Write the arrays and move them into place together; replace a damaged set.

    The caller holds the cache's lock.
    """
    target = cache / FOLDER
    _refuse_others(target)
    with writing_into(cache):
        cache.mkdir(parents=True, exist_ok=True)
        making = Path(tempfile.mkdtemp(prefix=MAKING, dir=cache))
        try:
            for split, (images, labels) in zip(_SPLITS, (train, test), strict=True):
                _write_npy(making / f"{split}_images.npy", images)
                _write_npy(making / f"{split}_labels.npy", labels.astype(np.int64))
            # mkdtemp makes it readable for its owner alone.
            making.chmod(0o755)
            if target.exists():
                target.rename(making / "replaced")
                # From here to the next rename there is no set; what is lost was damaged.
            making.rename(target)
            shutil.rmtree(target / "replaced", ignore_errors=True)
        finally:
            shutil.rmtree(making, ignore_errors=True)
    return target


def _refuse_others(target: Path) -> None:
    """Raise if the folder that is replaced holds anything that is not ours."""
    ours = {f"{split}_{part}.npy" for split in _SPLITS for part in ("images", "labels")}
    others = sorted(path.name for path in target.glob("*") if path.name not in ours)
    if others:
        raise BadDataError(
            f"{target} holds {others[0]}, which is not of CIFAR-10 and would be lost; move it "
            "elsewhere, or set QUANTSCOPE_CACHE to another folder"
        )


def remove_leftovers(cache: Path) -> None:
    """Remove what a killed fetch left behind."""
    for leftover in cache.glob(f"{MAKING}*"):
        shutil.rmtree(leftover, ignore_errors=True)


def _write_npy(path: Path, array: npt.NDArray[np.generic]) -> None:
    # Not np.save: on a full disk its error lacks the reason, and a memory map would crash.
    array = np.ascontiguousarray(array)
    with path.open("wb") as stream:
        np.lib.format.write_array_header_1_0(
            stream, np.lib.format.header_data_from_array_1_0(array)
        )
        stream.write(array.data)
        stream.flush()
        os.fsync(stream.fileno())


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
