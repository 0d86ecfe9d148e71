"""The images that edits put into another class: groups of small pictures."""

import struct
import zlib
from base64 import b64encode
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantscope.app.memo import Memo
from quantscope.data import ImageSet
from quantscope.run import PairedDelta

_SHOWN = 24
_PICTURES = Memo(1024)

_TITLES = {
    "lost": "now wrong",
    "gained": "now right",
    "other": "wrong before and now, otherwise",
}


def flip_groups(delta: PairedDelta, images: ImageSet) -> list[dict[str, Any]]:
    """As `Flips.groups` has them; `delta` is of these images, edited against original."""
    now, before, labels = delta.first.predictions, delta.second.predictions, delta.first.labels
    moved = now != before
    rows = {
        "lost": moved & (before == labels),
        "gained": moved & (now == labels),
        "other": moved & (before != labels) & (now != labels),
    }
    return [
        {
            "key": key,
            "title": _TITLES[key],
            "count": int(chosen.sum()),
            "images": [_image(delta, images, row) for row in np.flatnonzero(chosen)[:_SHOWN]],
        }
        for key, chosen in rows.items()
        if key != "other" or chosen.any()
    ]


def _image(delta: PairedDelta, images: ImageSet, row: int) -> dict[str, Any]:
    names = (*delta.first.class_names, "NaN")  # the prediction is -1 where a score is NaN
    return {
        "index": int(delta.first.indices[row]),
        "src": thumbnail(images, int(row)),
        "label": names[delta.first.labels[row]],
        "before": names[delta.second.predictions[row]],
        "after": names[delta.first.predictions[row]],
    }


def thumbnail(images: ImageSet, row: int) -> str:
    """A PNG as a data URI; empty where the images are no pictures."""
    if images.layout != "nchw-pixels":
        return ""
    key = (images.name, int(images.indices[row]))
    return _PICTURES.get(key, lambda: _png(images.images[row].transpose(1, 2, 0)))


def _png(pixels: NDArray[np.uint8]) -> str:
    """Written by hand: while a slider moves, dozens of them are wanted in an instant."""
    height, width, _ = pixels.shape
    unfiltered = np.zeros((height, 1), np.uint8)
    rows = np.concatenate([unfiltered, pixels.reshape(height, -1)], axis=1).tobytes()

    def chunk(kind: bytes, content: bytes) -> bytes:
        crc = zlib.crc32(kind + content)
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", crc)

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = (chunk(b"IHDR", head), chunk(b"IDAT", zlib.compress(rows)), chunk(b"IEND", b""))
    content = b"\x89PNG\r\n\x1a\n" + b"".join(parts)
    return f"data:image/png;base64,{b64encode(content).decode()}"
