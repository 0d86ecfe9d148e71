"""Decode pictures when their batch is asked for."""

import hashlib
import io
import warnings
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from quantscope.data.pictures.steps import PictureSteps
from quantscope.data.samples import LazyRows
from quantscope.errors import BadDataError
from quantscope.files import check_memory, read_bytes

if TYPE_CHECKING:
    from PIL.Image import Image

FORMATS = ("PNG", "JPEG", "BMP", "WEBP", "GIF", "TIFF", "PPM")
SUFFIXES = frozenset(
    (".png", ".jpg", ".jpeg", ".bmp", ".webp", ".gif", ".tif", ".tiff", ".ppm", ".pgm")
)
_MOST_BYTES = 256 * 2**20
_MOST_PIXELS = 40_000_000
_WHAT = "a picture"
_DEEP = ("I", "F")
"""The names of modes with more than 8 bits begin with one of these."""


class PictureRows(LazyRows):
    """Pictures as rows; several chosen ones are again such, and only `np.asarray` decodes."""

    def __init__(self, files: Sequence[Path], steps: PictureSteps) -> None:
        self.files, self.steps = tuple(files), steps

    @cached_property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        """Rows first; where nothing says the size, it is that of the first picture."""
        size = self.steps.size
        if size is None:
            height, width = self._pixels(0).shape[:2]
            size = height, width
        return (len(self.files), *self.steps.row_shape(size))

    @property
    def dtype(self) -> np.dtype[Any]:  # type: ignore[override]
        return np.dtype(self.steps.dtype)

    def __getitem__(self, chosen: Any) -> Any:
        if isinstance(chosen, int | np.integer):
            return self._row(int(chosen))
        if isinstance(chosen, slice):
            files: Sequence[Path] = self.files[chosen]
        else:
            files = [self.files[place] for place in np.asarray(chosen)]
        part = PictureRows(files, self.steps)
        part.shape = (len(files), *self.shape[1:])
        return part

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        del copy  # what is decoded is always new
        check_memory(
            int(np.prod(self.shape)) * self.dtype.itemsize, f"{len(self)} decoded pictures"
        )
        rows = np.empty(self.shape, self.dtype)
        for place in range(len(self)):
            rows[place] = self._row(place)
        return rows if dtype is None else rows.astype(dtype)

    def digest(self) -> str:
        """Hash the files' content and the steps."""
        state = hashlib.sha256(repr(self.steps).encode())
        for path in self.files:
            state.update(hashlib.sha256(_content(path)).digest())
        return state.hexdigest()

    def picture(self, row: int) -> NDArray[np.uint8]:
        """Give a row as a person sees it: [height, width, 3 or 1], resized but not normalized."""
        return self._pixels(row)

    def _row(self, place: int) -> NDArray[Any]:
        row = self.steps.apply(self._pixels(place))
        if row.shape != self.shape[1:]:
            first, found = ("x".join(map(str, shape)) for shape in (self.shape[1:], row.shape))
            raise BadDataError(
                f"{self.files[place]} is {found} where {self.files[0].name} is {first}; give one "
                f"size for all with --size HEIGHTxWIDTH"
            )
        return row

    def _pixels(self, place: int) -> NDArray[np.uint8]:
        return decode(self.files[place], self.steps)


def decode(path: Path, steps: PictureSteps) -> NDArray[np.uint8]:
    """Decode a picture and bring it to its size: [height, width, 3 or 1]."""
    # Loaded here: most commands never see a picture.
    from PIL import Image, ImageOps

    content = _content(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of odd metadata, and of sizes, which are checked here
            opened = Image.open(io.BytesIO(content), formats=FORMATS)
            _check_pixels(path, *opened.size)
            turned = ImageOps.exif_transpose(opened)
            image = _eight_bits(turned).convert("L" if steps.channels == "gray" else "RGB")
    except BadDataError:
        raise
    # Pillow's readers fail in any way on damaged files; bombs raise an error of their own.
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        if "cannot identify" in reason:
            reason = "it is none, or damaged"
        raise BadDataError(
            f"{path} cannot be decoded ({reason}); give pictures such as PNG or JPEG"
        ) from None
    pixels = np.asarray(_sized(image, steps), np.uint8)
    return pixels if pixels.ndim == 3 else pixels[..., None]


def _content(path: Path) -> bytes:
    return read_bytes(path, _WHAT, most_bytes=_MOST_BYTES)


def _check_pixels(path: Path, width: int, height: int) -> None:
    if width * height > _MOST_PIXELS:
        raise BadDataError(
            f"{path} has {width:,} x {height:,} pixels, more than the {_MOST_PIXELS:,} that are "
            f"decoded; make it smaller"
        )


def _eight_bits(image: "Image") -> "Image":
    """Bring 16 bits to 8 by leaving the lower ones out; Pillow itself would cut at 255."""
    if not image.mode.startswith(_DEEP):
        return image
    from PIL import Image

    values = np.asarray(image)
    if values.max(initial=0) > np.iinfo(np.uint8).max:
        values = values // values.dtype.type(256)
    return Image.fromarray(values.clip(0, 255).astype(np.uint8))


def _sized(image: "Image", steps: PictureSteps) -> "Image":
    from PIL.Image import Resampling

    width, height = image.size
    wanted = None
    if steps.cover is not None:
        by = max(steps.cover[0] / height, steps.cover[1] / width)
        wanted = (
            max(steps.cover[0], round(height * by)),
            max(steps.cover[1], round(width * by)),
        )
    elif steps.shortest is not None:
        short, long = sorted((height, width))
        longer = int(steps.shortest * long / short)
        wanted = (steps.shortest, longer) if height <= width else (longer, steps.shortest)
    elif steps.stretch is not None:
        wanted = steps.stretch
    if wanted is not None and wanted != (height, width):
        # A strip of a picture would become one of a million pixels in length.
        if wanted[0] * wanted[1] > _MOST_PIXELS:
            raise BadDataError(
                f"A picture of {height}x{width} would be resized to {wanted[0]}x{wanted[1]}; "
                f"give pictures that are less narrow"
            )
        image = image.resize(wanted[::-1], Resampling(steps.resample))
    crop = steps.crop or steps.cover
    if crop is not None and crop != image.size[::-1]:
        width, height = image.size
        top, left = (height - crop[0]) // 2, (width - crop[1]) // 2
        # Beyond its edges a picture is black.
        image = image.crop((left, top, left + crop[1], top + crop[0]))
    return image
