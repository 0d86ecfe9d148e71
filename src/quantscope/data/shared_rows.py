"""Tell whether two sets have rows in common, whatever they are called."""

import hashlib
from collections.abc import Iterator

import numpy as np

from quantscope.data.samples import Samples

_MOST_SHARED = 0.01
"""The share of rows that two sets may have in common by chance: public sets hold a few twice."""
_ROWS_AT_ONCE = 256


def shared_rows(samples: Samples, others: Samples) -> int:
    """Count the rows of `samples` that are among the others; 0 for so few as may be chance."""
    theirs = set(_digests(others))
    shared = sum(digest in theirs for digest in _digests(samples))
    return shared if shared > _MOST_SHARED * min(len(samples), len(others)) else 0


def _digests(samples: Samples) -> Iterator[bytes]:
    """Hash every row over all arrays; sets of other shapes or types share none."""
    for start in range(0, len(samples), _ROWS_AT_ONCE):
        parts = [np.asarray(a[start : start + _ROWS_AT_ONCE]) for a in samples.arrays.values()]
        for row in range(len(parts[0])):
            state = hashlib.blake2b(digest_size=16)
            for part in parts:
                state.update(f"{part.dtype.str} {part.shape[1:]}".encode())
                state.update(np.ascontiguousarray(part[row]).tobytes())
            yield state.digest()
