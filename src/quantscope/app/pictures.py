"""Turn figures into cards of the page: title and note as text, the rest as an image with places."""

import io
import zlib
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox
from numpy.typing import NDArray

from quantscope.app.memo import Memo
from quantscope.report import draw_row

_DPI = 160
HALF, WHOLE = 4.8, 7.4
"""The widths in inches of cards: two side by side, or one across."""


@dataclass(frozen=True)
class ClickArea:
    """The place of a layer's artist (the layer is its `gid`): shares of the image, y downwards."""

    gid: str
    x0: float
    x1: float
    y0: float
    y1: float


@dataclass(frozen=True)
class Picture:
    """A drawn figure. `src` is a data URI; `width` and `height` only say the proportions."""

    title: str
    caption: str
    src: str = field(repr=False)
    width: int
    height: int
    regions: tuple[ClickArea, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {**vars(self), "regions": [vars(region) for region in self.regions]}


def picture_of(figure: Figure, *, width: float = HALF, height: float | None = None) -> Picture:
    """Draw a figure of `report.figures` at another size; letters keep theirs.

    `height` None keeps the axes' own height. The figure is used up: its title and note are gone.
    """
    title, caption = _take_out_texts(figure)
    figure.set_size_inches(width, height or figure.get_figheight())
    figure.set_dpi(_DPI)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=_DPI, metadata={"Software": None})
    wide, high = (round(side * _DPI) for side in figure.get_size_inches())
    regions = tuple(_regions(figure, wide, high))
    src = f"data:image/png;base64,{b64encode(buffer.getvalue()).decode()}"
    return Picture(title, caption, src, wide, high, regions)


def _take_out_texts(figure: Figure) -> tuple[str, str]:
    """Take title and note out of the figure, and give them.

    As HTML both are sharper, wrap by themselves, and leave the legend its line.
    """
    title = figure.get_suptitle()
    if title:
        figure.suptitle("")
    elif figure.axes:
        title = figure.axes[0].get_title(loc="left")
        # A legend outside the layout counts on the title's line; a blank keeps it.
        legends = (axes.get_legend() for axes in figure.axes)
        needed = any(found is not None and not found.get_in_layout() for found in legends)
        figure.axes[0].set_title(" " if needed else "", loc="left")
    caption = " ".join(figure.get_supxlabel().split())
    if caption:
        figure.supxlabel("")
    return title.replace(r"\$", "$"), caption.replace(r"\$", "$")


def _regions(figure: Figure, wide: int, high: int) -> Iterator[ClickArea]:
    """Find the place of each layer in each axes, widened to its neighbours.

    A thin mark is hard to hit.
    """
    for axes in figure.axes:
        boxes: dict[str, list[Bbox]] = {}
        for artist in axes.get_children():
            box = _extent(artist) if isinstance(artist.get_gid(), str) else None
            if box is not None and np.isfinite(box.get_points()).all():
                boxes.setdefault(str(artist.get_gid()), []).append(box)
        if len(boxes) < 2:  # a figure of one layer selects nothing
            continue
        room = axes.get_window_extent()
        joined = {gid: Bbox.union(found) for gid, found in boxes.items()}
        for gid, box in _widen(joined, room).items():
            yield ClickArea(
                gid,
                x0=float(box.x0 / wide),
                x1=float(box.x1 / wide),
                y0=float(1 - box.y1 / high),
                y1=float(1 - box.y0 / high),
            )


def _extent(artist: Artist) -> Bbox:
    return Bbox(artist.get_window_extent().get_points())


def _widen(boxes: dict[str, Bbox], room: Bbox) -> dict[str, Bbox]:
    """Widen boxes to columns, or rows, that meet halfway between neighbours."""
    centres = {gid: ((box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2) for gid, box in boxes.items()}
    # Layers lie side by side in some figures, below one another in others.
    axis = 0 if _spread(centres, 0) >= _spread(centres, 1) else 1
    order = sorted(centres, key=lambda gid: centres[gid][axis])
    places = [centres[gid][axis] for gid in order]
    start, end = (room.x0, room.x1) if axis == 0 else (room.y0, room.y1)
    cuts = [start, *((a + b) / 2 for a, b in pairwise(places)), end]
    found = {}
    for gid, low, high in zip(order, cuts, cuts[1:], strict=False):
        sides = (
            ((low, room.y0), (high, room.y1)) if axis == 0 else ((room.x0, low), (room.x1, high))
        )
        found[gid] = Bbox(sides)
    return found


def _spread(centres: dict[str, tuple[float, float]], axis: int) -> float:
    values = [centre[axis] for centre in centres.values()]
    return max(values) - min(values)


_PICTURES = Memo(1024)
_LEAST_SIDE = 3
SHOWN_SIDE, THUMBNAIL_SIDE = 448, 96
"""The most pixels a side of a picture that is looked at, and of a small one among others."""


def picture_src(one: NDArray[Any], *, most: int = SHOWN_SIDE) -> str:
    """Give a PNG as a data URI, at most `most` pixels a side; empty where it is no picture."""
    content = np.ascontiguousarray(one)
    key = (content.shape, content.dtype.str, zlib.crc32(content.data), most)
    return _PICTURES.get(key, lambda: draw_row(content, most=most))


def heat_map(values: NDArray[Any], *, most: int = SHOWN_SIDE) -> str:
    """Draw an array of two sizes, least to largest, as a PNG; empty for one of another form."""
    sides = [size for size in values.shape if size != 1]
    if len(sides) != 2 or min(sides) < _LEAST_SIDE or values.dtype.kind not in "iuf":
        return ""
    return picture_src(np.asarray(values, np.float32).reshape(sides), most=most)
