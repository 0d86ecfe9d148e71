"""The wishes that a person has for the rows to load, beyond where they are."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from quantscope.errors import BadConfigError

PictureLayout = Literal["nchw", "nhwc"]
Channels = Literal["rgb", "bgr", "gray"]

LONE = ""
"""The name under which a shape is given that is for a lone input."""

_MOST_SIZE = 16_384


@dataclass(frozen=True)
class PictureWishes:
    """How pictures become numbers; None where the model, or a file beside it, shall say.

    A pixel, 0 to 255, is multiplied by `scale`; `mean` is taken away and the rest divided by `std`,
    a number a channel or one for all. `size` is height and width.
    """

    size: tuple[int, int] | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    scale: float | None = None
    layout: PictureLayout | None = None
    channels: Channels | None = None

    def __post_init__(self) -> None:
        if self.size is not None and not all(1 <= side <= _MOST_SIZE for side in self.size):
            raise BadConfigError(
                f"A picture's size is 1 to {_MOST_SIZE:,} pixels a side, not "
                f"{self.size[0]}x{self.size[1]}"
            )
        if self.std is not None and not all(number > 0 for number in self.std):
            found = ",".join(f"{number:g}" for number in self.std)
            raise BadConfigError(f"--std is what is divided by, so more than 0, not {found}")

    @property
    def given(self) -> tuple[str, ...]:
        """The options that were given, as a person types them."""
        return tuple(f"--{name}" for name, value in vars(self).items() if value is not None)


@dataclass(frozen=True)
class RowWishes:
    """All that is said of the rows: `shapes` are whole shapes of inputs, batch and all, by name."""

    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    pictures: PictureWishes = PictureWishes()
    seed: int = 0


def parse_shape(text: str) -> tuple[str, tuple[int, ...]]:
    """Read NAME=1x3x320x320, or 1x3x320x320 for a lone input, whose name is given as empty."""
    # A name may hold "=" itself; sizes never do.
    name, _, sizes = text.rpartition("=")
    try:
        shape = tuple(int(part) for part in sizes.split("x") if sizes)
    except ValueError:
        shape = (0,)
    if any(size < 1 for size in shape):
        raise BadConfigError(
            f"--shape takes sizes from 1 on with an x between, such as 1x3x320x320 or "
            f"NAME=1x3x320x320, not '{text}'"
        )
    return name or LONE, shape


def parse_size(text: str) -> tuple[int, int]:
    """Read 224, or HEIGHTxWIDTH."""
    sides = text.split("x")
    if len(sides) not in (1, 2) or not all(side.isascii() and side.isdigit() for side in sides):
        raise BadConfigError(
            f"--size takes pixels, such as 224, or 480x640 for height and width, not '{text}'"
        )
    return int(sides[0]), int(sides[-1])


def parse_numbers(option: str, text: str) -> tuple[float, ...]:
    """Read numbers with commas between; each may be a fraction, as 1/255."""
    try:
        numbers = tuple(_number(part) for part in text.split(","))
    except (ValueError, ZeroDivisionError):
        numbers = (math.nan,)
    if not all(math.isfinite(number) for number in numbers):
        raise BadConfigError(
            f"{option} takes numbers with commas between, such as 0.485,0.456,0.406 or 1/255, not "
            f"'{text}'"
        )
    return numbers


def _number(text: str) -> float:
    top, slash, bottom = text.partition("/")
    return float(top) / float(bottom) if slash else float(top)
