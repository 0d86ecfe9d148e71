"""Say how a picture becomes the numbers that a model takes."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantscope.data.pictures.preprocessor import Preprocessor
from quantscope.data.wishes import Channels, PictureLayout, PictureWishes
from quantscope.errors import BadConfigError, BadDataError
from quantscope.model import Port

_BILINEAR = 2
_CHANNELS: dict[Channels, int] = {"rgb": 3, "bgr": 3, "gray": 1}


@dataclass(frozen=True)
class PictureSteps:
    """The steps that are done to a picture, in this order.

    It is resized: to `cover` (height, width), whose middle is then cut out, to a `shortest` side,
    or `stretch`ed. The `crop` is cut from its middle. Then each pixel is multiplied by `scale`,
    `mean` is taken away, and the rest divided by `std`. `dtype` uint8 are pixels as they are.
    """

    cover: tuple[int, int] | None = None
    shortest: int | None = None
    stretch: tuple[int, int] | None = None
    crop: tuple[int, int] | None = None
    resample: int = _BILINEAR
    scale: float = 1 / 255
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    layout: PictureLayout = "nchw"
    channels: Channels = "rgb"
    dtype: str = "float32"

    @property
    def size(self) -> tuple[int, int] | None:
        """Height and width at the end; None where the picture's own decide."""
        return self.crop or self.cover or self.stretch

    @property
    def channel_count(self) -> int:
        return _CHANNELS[self.channels]

    def row_shape(self, size: tuple[int, int]) -> tuple[int, ...]:
        count = self.channel_count
        return (count, *size) if self.layout == "nchw" else (*size, count)

    def apply(self, pixels: NDArray[np.uint8]) -> NDArray[Any]:
        """Turn pixels [height, width, channels] in RGB, or gray, into one row."""
        values: NDArray[Any] = pixels[..., ::-1] if self.channels == "bgr" else pixels
        if self.dtype != "uint8":
            # As model hubs' own code does: one number after the other, in float32.
            mean, std = np.asarray(self.mean, np.float32), np.asarray(self.std, np.float32)
            values = (values.astype(np.float32) * np.float32(self.scale) - mean) / std
            values = values.astype(self.dtype)
        return np.ascontiguousarray(values.transpose(2, 0, 1) if self.layout == "nchw" else values)

    def words(self) -> str:
        """Say it in one line."""
        resized = {
            "": self.cover and "middle of {}x{}".format(*self.cover),
            "shorter side ": self.shortest,
            "resized to ": self.stretch and "{}x{}".format(*self.stretch),
            "middle of ": self.crop and "{}x{}".format(*self.crop),
        }
        parts = [f"{what}{value}" for what, value in resized.items() if value]
        parts.append(f"{self.channels.upper() if self.channels != 'gray' else 'gray'}")
        if self.dtype == "uint8":
            return ", ".join((*parts, "pixels 0 to 255"))
        inverse = 1 / self.scale if self.scale else 0
        by = f"1/{inverse:g}" if inverse > 1 else f"{self.scale:g}"
        parts.append(f"pixels times {by}")
        if any(self.mean) or any(number != 1 for number in self.std):
            mean, std = (",".join(f"{x:g}" for x in part) for part in (self.mean, self.std))
            parts.append(f"mean {mean}, std {std}")
        return ", ".join(parts)


def choose_steps(
    wishes: PictureWishes,
    found: Preprocessor | None,
    port: Port | None,
    row: tuple[Any, ...] | None,
) -> PictureSteps:
    """Choose the steps: a wish goes before the settings, and those before the input's shape.

    `row` is the shape of one row of the input, without its batch; None where nothing is known.
    """
    if row is not None and (len(row) != 3 or (port and np.dtype(port.dtype).kind not in "fui")):
        sizes = ",".join(str(size) if isinstance(size, int) else "?" for size in row)
        name = port.name if port else "the input"
        raise BadDataError(
            f"{name!r} takes rows of shape [{sizes}], which are not pictures; give --data FILE.npz"
        )
    steps = _of_settings(found)
    layout = wishes.layout or _layout(row)
    steps = replace(steps, layout=layout)
    count, height, width = (None, None, None) if row is None else _ordered(row, layout)
    steps = replace(steps, channels=_channels(wishes, found, count))
    if port is not None:
        steps = replace(steps, dtype="uint8" if np.dtype(port.dtype).kind in "ui" else port.dtype)
    fixed = (height, width) if isinstance(height, int) and isinstance(width, int) else None
    if wishes.size is not None:
        steps = replace(steps, cover=wishes.size, shortest=None, stretch=None, crop=None)
    elif steps.size is None and fixed is not None:
        cover = None if steps.shortest else fixed
        steps = replace(steps, cover=cover, crop=fixed if steps.shortest else None)
    return _normalized(steps, wishes)


def _of_settings(found: Preprocessor | None) -> PictureSteps:
    if found is None:
        return PictureSteps()
    return PictureSteps(
        shortest=found.shortest,
        stretch=found.stretch,
        crop=found.crop,
        resample=found.resample,
        scale=found.scale,
        mean=found.mean,
        std=found.std,
    )


def _layout(row: tuple[Any, ...] | None) -> PictureLayout:
    if row is None or row[0] in (1, 3) or row[2] not in (1, 3):
        return "nchw"
    return "nhwc"


def _ordered(row: tuple[Any, ...], layout: PictureLayout) -> tuple[Any, Any, Any]:
    """Give channels, height, width."""
    return (row[0], row[1], row[2]) if layout == "nchw" else (row[2], row[0], row[1])


def _channels(wishes: PictureWishes, found: Preprocessor | None, count: Any) -> Channels:
    if wishes.channels is not None:
        return wishes.channels
    if count == 1:
        return "gray"
    return "bgr" if found is not None and found.is_bgr else "rgb"


def _normalized(steps: PictureSteps, wishes: PictureWishes) -> PictureSteps:
    """Take over what is wished of the numbers; refuse what does not fit channels or type."""
    wished = [f"--{name}" for name in ("mean", "std", "scale") if getattr(wishes, name) is not None]
    if steps.dtype == "uint8":
        if wished:
            raise BadConfigError(
                f"The model takes pixels as whole numbers, so leave {' and '.join(wished)} out"
            )
        return steps
    steps = replace(
        steps,
        scale=steps.scale if wishes.scale is None else wishes.scale,
        mean=wishes.mean or steps.mean,
        std=wishes.std or steps.std,
    )
    for name, numbers in (("mean", steps.mean), ("std", steps.std)):
        if len(numbers) not in (1, steps.channel_count):
            found = ",".join(f"{number:g}" for number in numbers)
            raise BadDataError(
                f"The {name} of pictures has {len(numbers)} numbers ({found}), but they have "
                f"{steps.channel_count} channels ({steps.channels}); give one for each, or one "
                f"for all, with --{name}"
            )
    return steps
