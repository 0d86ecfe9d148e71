"""Read `preprocessor_config.json`, in which models on model hubs say how they see a picture."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quantscope.errors import BadDataError
from quantscope.files import is_there, read_json

NAME = "preprocessor_config.json"
_WHAT = "a preprocessor's settings, as models on model hubs carry them"
_BILINEAR, _RESAMPLINGS = 2, 6
_MOST_SIZE = 16_384
_CROPPED_BELOW = 384
"""Sizes from here on are not cropped where `crop_pct` is given."""


@dataclass(frozen=True)
class Preprocessor:
    """The steps of one file; None where it leaves a step out.

    `stretch` and `crop` are height and width, `shortest` the shorter side after resizing.
    """

    path: Path
    shortest: int | None
    stretch: tuple[int, int] | None
    crop: tuple[int, int] | None
    resample: int
    scale: float
    mean: tuple[float, ...]
    std: tuple[float, ...]
    is_bgr: bool


def find_preprocessor(*folders: Path | None) -> Preprocessor | None:
    """Read the file in the first of the folders that has one."""
    for folder in folders:
        if folder is not None and is_there(folder / NAME):
            return read_preprocessor(folder / NAME)
    return None


def read_preprocessor(path: Path) -> Preprocessor:
    facts = read_json(path, _WHAT)
    if not isinstance(facts, dict):
        raise BadDataError(f"{path} holds no settings by name; give {_WHAT}")
    shortest, stretch = _resizing(path, facts)
    crop: tuple[int, int] | None = None
    if facts.get("do_center_crop", False):
        crop = _height_width(path, "crop_size", facts.get("crop_size", facts.get("size")))
    ratio = facts.get("crop_pct")
    if ratio is not None and shortest is not None and crop is None:
        ratio = _number(path, "crop_pct", ratio)
        if not 0.1 <= ratio <= 1:
            raise BadDataError(f"{path} has crop_pct {ratio:g}; it is a share from 0.1 to 1")
        if shortest < _CROPPED_BELOW:
            crop, shortest = (shortest, shortest), int(shortest / ratio)
        else:
            stretch = (shortest, shortest)
            shortest = None
    resample = facts.get("resample", _BILINEAR)
    if not isinstance(resample, int) or not 0 <= resample < _RESAMPLINGS:
        raise BadDataError(f"{path} has resample {resample!r}; it is a number from 0 to 5")
    scale = 1.0
    if facts.get("do_rescale", True):
        scale = _number(path, "rescale_factor", facts.get("rescale_factor", 1 / 255))
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    if facts.get("do_normalize", True):
        mean = _numbers(path, "image_mean", facts.get("image_mean", 0.5))
        std = _numbers(path, "image_std", facts.get("image_std", 0.5))
        if not all(number > 0 for number in std):
            raise BadDataError(f"{path} has image_std {list(std)}, which is divided by")
    return Preprocessor(
        path,
        shortest,
        stretch,
        crop,
        resample,
        scale,
        mean,
        std,
        is_bgr=bool(facts.get("do_flip_channel_order", False)),
    )


def _resizing(path: Path, facts: Mapping[str, Any]) -> tuple[int | None, tuple[int, int] | None]:
    """Give the shorter side after resizing, or height and width."""
    size = facts.get("size")
    if size is None or not facts.get("do_resize", True):
        return None, None
    if isinstance(size, dict) and "shortest_edge" in size:
        if "longest_edge" in size:
            raise BadDataError(
                f"{path} resizes to a shorter side of {size['shortest_edge']} and a longer one of "
                f"at most {size['longest_edge']}, so that sizes differ; give one for all with "
                f"--size HEIGHTxWIDTH"
            )
        return _side(path, "size", size["shortest_edge"]), None
    # A plain number, in files of older versions: the shorter side where the middle is cut out.
    if isinstance(size, int) and facts.get("do_center_crop", False):
        return _side(path, "size", size), None
    return None, _height_width(path, "size", size)


def _height_width(path: Path, key: str, found: Any) -> tuple[int, int]:
    if isinstance(found, dict) and {"height", "width"} <= found.keys():
        return _side(path, key, found["height"]), _side(path, key, found["width"])
    if isinstance(found, dict) and "shortest_edge" in found:
        found = found["shortest_edge"]
    side = _side(path, key, found)
    return side, side


def _side(path: Path, key: str, found: Any) -> int:
    if isinstance(found, bool) or not isinstance(found, int) or not 1 <= found <= _MOST_SIZE:
        text = repr(found)[:60]
        raise BadDataError(
            f"{path} has {key} {text}; it is pixels, or height and width, or a shortest_edge"
        )
    return found


def _number(path: Path, key: str, found: Any) -> float:
    numbers = _numbers(path, key, found)
    if len(numbers) != 1:
        raise BadDataError(f"{path} has {key} {repr(found)[:60]}; it is one number")
    return numbers[0]


def _numbers(path: Path, key: str, found: Any) -> tuple[float, ...]:
    numbers = found if isinstance(found, list) else [found]
    right = (isinstance(one, int | float) and not isinstance(one, bool) for one in numbers)
    if not numbers or not all(right):
        raise BadDataError(f"{path} has {key} {repr(found)[:60]}; it is numbers")
    return tuple(float(one) for one in numbers)
