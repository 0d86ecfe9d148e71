"""Show one row of samples: each of its arrays as a picture, ids, a waveform or numbers."""

from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantscope.app.panes.parts import safe
from quantscope.app.pictures import THUMBNAIL_SIDE, heat_map, picture_src
from quantscope.data import Samples
from quantscope.report import number, shape_text

_IDS_IN_A_THUMBNAIL, _IDS = 18, 512
_NUMBERS_IN_A_THUMBNAIL, _NUMBERS = 6, 64
_POINTS = 240
_WAVE = "#5b8fb9"  # seen on white and on black


def thumbnail_of(samples: Samples, row: int) -> dict[str, str]:
    """Give `src`, a picture as a data URI, or `text`, the beginning of what the row holds."""
    for name, array in samples.arrays.items():
        if samples.shown_as(name) != "picture":
            continue
        if src := picture_src(np.asarray(array[row]), most=THUMBNAIL_SIDE):
            return {"src": src, "text": ""}
    name = next(iter(samples.arrays))
    values, kind = np.asarray(samples.arrays[name][row]), samples.shown_as(name)
    if kind == "waveform":
        return {"src": wave_src(values), "text": ""}
    if kind == "ids":
        return {"src": "", "text": ids_text(values, _IDS_IN_A_THUMBNAIL)}
    if src := heat_map(values, most=THUMBNAIL_SIDE):
        return {"src": src, "text": ""}
    return {"src": "", "text": numbers_text(values, _NUMBERS_IN_A_THUMBNAIL)}


def row_html(samples: Samples, row: int) -> str:
    """Show all arrays of a row, each under its name where there are several."""
    return "".join(_arrays(samples, row))


def _arrays(samples: Samples, row: int) -> Iterator[str]:
    several = len(samples.arrays) > 1
    for name, array in samples.arrays.items():
        values = np.asarray(array[row])
        head = f"<h3>{safe(name)} {_facts(values)}</h3>" if several else ""
        yield f'<div class="qs-array">{head}{_array_html(values, samples.shown_as(name))}</div>'


def _array_html(values: NDArray[Any], kind: str) -> str:
    if kind == "picture" and (src := picture_src(values)):
        return f'<img src="{src}" alt="">'
    if kind == "waveform":
        return f'<img class="qs-wave" src="{wave_src(values)}" alt="">'
    if kind == "ids":
        return f'<p class="qs-ids">{ids_text(values, _IDS)}</p>'
    src = heat_map(values)
    shown = f'<img class="qs-heat" src="{src}" alt="">' if src else ""
    return f'{shown}<p class="qs-ids">{numbers_text(values, _NUMBERS)}</p>'


def _facts(values: NDArray[Any]) -> str:
    facts = f"{values.dtype} {shape_text(values.shape)}"
    return f'<span class="qs-faint">{safe(facts)}</span>'


def ids_text(values: NDArray[Any], most: int) -> str:
    """Write ids as they are, in their order."""
    flat = values.ravel()
    return " ".join(str(int(v)) for v in flat[:most]) + (" …" if flat.size > most else "")


def numbers_text(values: NDArray[Any], most: int) -> str:
    flat = values.ravel()
    some = " ".join(number(float(v)) for v in flat[:most]).replace("-", "−")
    return some + (" …" if flat.size > most else "")


def wave_src(values: NDArray[Any]) -> str:
    """Draw a waveform as an SVG: the least and the largest of each of some hundred pieces."""
    flat = np.nan_to_num(np.asarray(values, np.float64).ravel())
    reach = float(np.abs(flat).max()) or 1.0
    pieces = np.array_split(flat, min(_POINTS, flat.size))
    lines = "".join(
        f"M{x} {50 - 48 * float(part.max()) / reach:.1f}V{51 - 48 * float(part.min()) / reach:.1f}"
        for x, part in enumerate(pieces)
    )
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-1 0 {len(pieces) + 1} 101" '
        f'preserveAspectRatio="none"><path d="{lines}" stroke="{_WAVE}" fill="none"/></svg>'
    )
    return f"data:image/svg+xml;base64,{b64encode(svg.encode()).decode()}"
