"""A constant channel that sets the range of all others."""

from collections.abc import Iterator
from math import log2

from quantscope.diagnose.evidence import Evidence
from quantscope.diagnose.results import Finding, Place, Remedy
from quantscope.edit import SetBits
from quantscope.plain_text import many

KIND = "constant-channel"
WHY = (
    "A number that never changes takes most of the range, though the next layer's bias could hold "
    "it, and leaves the others a coarse step."
)
_TIMES = 2.0


def find(evidence: Evidence) -> Iterator[Finding]:
    """Hold the channels that never change against those that do."""
    places: list[Place] = []
    for tensor, row in evidence.activations:
        sizes = [
            (max(abs(c.float_min), abs(c.float_max)), c.float_min == c.float_max, c.channel)
            for c in row.channels
            if c.float_min is not None and c.float_max is not None
        ]
        living = [size for size, is_constant, _ in sizes if not is_constant]
        still = [(size, channel) for size, is_constant, channel in sizes if is_constant]
        if not living or not still or max(still)[0] < _TIMES * max(living) or not max(living):
            continue
        size, channel = max(still)
        places.append(
            Place(
                tensor.name,
                f"channel {channel} is {size:.4g} for every sample, {size / max(living):.1f} times "
                f"as far out as any other: {log2(size / max(living)):.1f} bits are lost to it",
                {"channel": channel, "value": size, "times_larger": size / max(living)},
            )
        )
    if places:
        names = tuple(place.where for place in places)
        yield Finding(
            KIND,
            f"A constant channel sets the range of {many(len(places), 'tensor')}",
            WHY,
            tuple(places),
            (
                Remedy("take the channel out, and add what it does to the next layer's bias"),
                Remedy(
                    f"give {many(len(names), 'tensor')} 16 bits",
                    tuple(SetBits(name, 16) for name in names),
                ),
            ),
            tensors=names,
        )
