"""Draw rows of samples as PNGs that stand in a page."""

import struct
import zlib
from base64 import b64encode
from typing import Any

import numpy as np
from numpy.typing import NDArray


def draw_row(image: NDArray[Any], *, most: int) -> str:
    """Give a PNG as a data URI, at most `most` pixels a side; empty where it is no picture."""
    pixels = _pixels(image)
    if pixels is None:
        return ""
    # Every so many pixels: a page of large pictures would be megabytes.
    step = -(-max(pixels.shape[:2]) // most)
    return _png(np.ascontiguousarray(pixels[::step, ::step]))


def _pixels(image: NDArray[Any]) -> NDArray[np.uint8] | None:
    """Give pixels as [height, width, 3]; None where the image is no picture.

    Values that are no bytes are spread over their own range: only shapes count.
    """
    if image.ndim == 2:
        image = image[None]
    if image.ndim != 3 or 0 in image.shape:
        return None
    if image.shape[0] in (1, 3, 4):
        image = image.transpose(1, 2, 0)
    elif image.shape[2] not in (1, 3, 4):
        return None
    image = image[:, :, :3]  # a fourth channel is what shows through
    if image.dtype != np.uint8:
        low, high = np.nanmin(image), np.nanmax(image)
        with np.errstate(all="ignore"):
            spread = (image.astype(np.float64) - low) / (high - low) if high > low else 0 * image
        image = np.nan_to_num(255 * spread, posinf=255, neginf=0).clip(0, 255).astype(np.uint8)
    return np.broadcast_to(image, (*image.shape[:2], 3))


def _png(pixels: NDArray[np.uint8]) -> str:
    """Write a PNG by hand: while a slider moves, dozens of them are wanted in an instant."""
    height, width, _ = pixels.shape
    # Each row of a PNG begins with its filter; 0 is none.
    unfiltered = np.zeros((height, 1), np.uint8)
    rows = np.concatenate([unfiltered, pixels.reshape(height, -1)], axis=1).tobytes()

    def chunk(kind: bytes, content: bytes) -> bytes:
        crc = zlib.crc32(kind + content)
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", crc)

    # 8 bits a channel, RGB, nothing unusual.
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = (chunk(b"IHDR", head), chunk(b"IDAT", zlib.compress(rows)), chunk(b"IEND", b""))
    content = b"\x89PNG\r\n\x1a\n" + b"".join(parts)
    return f"data:image/png;base64,{b64encode(content).decode()}"
