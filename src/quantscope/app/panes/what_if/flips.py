"""The images that edits put into another class: groups of small pictures."""

from typing import Any

import numpy as np

from quantscope.app.thumbnail import thumbnail
from quantscope.data import Samples
from quantscope.run import PairedDelta

_SHOWN = 24

_TITLES = {
    "lost": "now wrong",
    "gained": "now right",
    "other": "wrong before and now, otherwise",
}


def flip_groups(delta: PairedDelta, images: Samples) -> list[dict[str, Any]]:
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


def _image(delta: PairedDelta, images: Samples, row: int) -> dict[str, Any]:
    names = (*delta.first.class_names, "NaN")  # the prediction is -1 where a score is NaN
    return {
        "index": int(delta.first.indices[row]),
        "src": thumbnail(images, int(row)),
        "label": names[delta.first.labels[row]],
        "before": names[delta.second.predictions[row]],
        "after": names[delta.first.predictions[row]],
    }
