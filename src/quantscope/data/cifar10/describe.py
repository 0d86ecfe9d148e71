"""Describe the images that are on this machine."""

from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from quantscope.data.cifar10.cache import FOLDER, cache_folder, load_verified
from quantscope.data.cifar10.facts import CIFAR10, Edition
from quantscope.data.cifar10.sample import load_calibration_pool, load_sample
from quantscope.data.samples import Samples
from quantscope.errors import BadDataError


@dataclass(frozen=True)
class SetInfo:
    """A set of images in a few facts; `stored_bytes` is what it takes on disk."""

    name: str
    location: str
    images: int
    stored_bytes: int
    class_counts: dict[str, int]
    digest: str

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class DataInfo:
    """The sets on this machine; `full_problem` is None when the full one is there, undamaged."""

    sample: SetInfo
    calibration_pool: SetInfo
    full: tuple[SetInfo, ...]
    full_folder: Path
    full_problem: str | None

    def to_dict(self) -> dict[str, Any]:
        return {
            "sample": self.sample.to_dict(),
            "calibration_pool": self.calibration_pool.to_dict(),
            "full": {
                "present": self.full_problem is None,
                "folder": str(self.full_folder),
                "problem": self.full_problem,
                "sets": [info.to_dict() for info in self.full],
            },
        }


def describe(*, cache: Path | None = None, edition: Edition = CIFAR10) -> DataInfo:
    """Describe what is bundled, and check whether the full set is there and intact."""
    cache = cache or cache_folder()
    folder = cache / FOLDER
    full: tuple[SetInfo, ...] = ()
    problem = None
    try:
        train = load_verified("train", cache=cache, edition=edition)
        test = load_verified("test", cache=cache, edition=edition)
        full = _info(train, folder, "train_*"), _info(test, folder, "test_*")
    except BadDataError as error:
        problem = str(error)
    bundled = Path(str(files("quantscope.data") / "bundled"))
    sample, pool = load_sample(), load_calibration_pool()
    return DataInfo(
        sample=_info(sample, bundled, f"{sample.name}.*"),
        calibration_pool=_info(pool, bundled, f"{pool.name}.*"),
        full=full,
        full_folder=folder,
        full_problem=problem,
    )


def _info(images: Samples, folder: Path, pattern: str) -> SetInfo:
    return SetInfo(
        name=images.name,
        location=str(folder),
        images=len(images),
        stored_bytes=sum(file.stat().st_size for file in folder.glob(pattern)),
        class_counts=images.class_counts(),
        digest=images.digest,
    )
