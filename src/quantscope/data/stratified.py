"""Choose fewer samples, with the classes in the set's own proportions."""

import numpy as np

from quantscope.data.samples import Samples
from quantscope.errors import BadConfigError


def stratified(data: Samples, count: int) -> Samples:
    """Choose `count` images, classes in the set's own proportions; the same ones every time."""
    if count < 1:
        raise BadConfigError(f"A quick answer needs at least one image, not {count}")
    if count >= len(data):
        return data
    # Each row's place among its class, from 0 to 1: a prefix by it takes the same share of each.
    share = np.empty(len(data))
    for label in np.unique(data.labels):
        rows = np.flatnonzero(data.labels == label)
        share[rows] = (np.arange(len(rows)) + 0.5) / len(rows)
    chosen = np.argsort(share, kind="stable")[:count]
    return data.select(np.sort(chosen))
