"""Inputs of a matrix product of which a few channels are far larger than all others."""

from collections.abc import Iterator

import numpy as np

from quantscope.diagnose.evidence import Evidence
from quantscope.diagnose.results import Finding, Place, Remedy
from quantscope.edit import SetBits
from quantscope.plain_text import many

KIND = "outlier-channels"
WHY = (
    "A few channels set the step for all others; transformers have such channels in every token, "
    "so leaving them out by clipping breaks the model."
)
_TIMES = 16.0
_PRODUCTS = frozenset({"MatMul", "Gemm"})
# Of few channels, no one can say which are the outliers.
_LEAST_CHANNELS = 8
_MOST_SHARE = 0.1


def far_channels(evidence: Evidence) -> dict[str, Place]:
    """Hold the largest value of each channel against that of the middle one."""
    layers = {layer.name: layer for layer in evidence.network.layers}
    places: dict[str, Place] = {}
    for tensor, row in evidence.activations:
        readers = [layers[name] for name in tensor.consumers if name in layers]
        if not any(r.op_type in _PRODUCTS and r.weight is not None for r in readers):
            continue
        moving = [c for c in row.channels if c.float_min != c.float_max]
        sizes = np.array([max(abs(c.float_min or 0.0), abs(c.float_max or 0.0)) for c in moving])
        if sizes.size < _LEAST_CHANNELS or not np.median(sizes):
            continue
        times = sizes / np.median(sizes)
        far = times > _TIMES
        if not far.any() or far.mean() > _MOST_SHARE + 1 / far.size:
            continue
        channels = [moving[int(place)].channel for place in np.flatnonzero(far)]
        named = ", ".join(str(channel) for channel in channels[:4])
        more = f" and {len(channels) - 4} more" if len(channels) > 4 else ""
        places[tensor.name] = Place(
            tensor.name,
            f"channel{'s' * (len(channels) > 1)} {named}{more} of {len(row.channels)} reach "
            f"{times.max():.0f} times as far as the middle one",
            {
                "outlier_channels": channels,
                "channels": len(row.channels),
                "times_larger": float(times.max()),
            },
        )
    return places


def find(evidence: Evidence) -> Iterator[Finding]:
    """Tell of all inputs of matrix products that have such channels."""
    places = far_channels(evidence)
    if places:
        names = tuple(places)
        yield Finding(
            KIND,
            f"A few channels are far larger than the others before "
            f"{many(len(places), 'matrix product')}",
            WHY,
            tuple(places.values()),
            (
                Remedy(
                    f"give {many(len(names), 'input')} 16 bits",
                    tuple(SetBits(name, 16) for name in names),
                ),
            ),
            tensors=names,
        )
