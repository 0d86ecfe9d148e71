"""Weights with one scale, whose channels differ widely."""

from collections.abc import Collection, Iterator

from quantscope.diagnose.evidence import Evidence
from quantscope.diagnose.results import Finding, Place, Remedy
from quantscope.model import QuantTensor
from quantscope.plain_text import many

KIND = "channel-spread"
WHY = (
    "One scale for all channels is as coarse as the largest of them needs, so a channel of small "
    "weights is left with a few integers."
)
# 16 times smaller: of 8 bits, 4 are left.
_TIMES = 16.0


def constant_outputs(evidence: Evidence, weight: QuantTensor) -> frozenset[int]:
    """Give the channels that stay constant in the float model behind the layers that read these."""
    rows = [row for tensor, row in evidence.activations if tensor.producer in weight.consumers]
    return frozenset(c.channel for r in rows for c in r.channels if c.float_min == c.float_max)


def find(evidence: Evidence) -> Iterator[Finding]:
    """Hold the largest weight of each channel against that of the tensor."""
    places: list[Place] = []
    for tensor, row in evidence.rows:
        if tensor.role != "weight" or not tensor.params.is_per_tensor or len(row.channels) < 2:
            continue
        sizes = {
            c.channel: max(abs(c.float_min or 0.0), abs(c.float_max or 0.0)) for c in row.channels
        }
        largest = max(sizes.values())
        # A channel that answers the same whatever comes in has no use for finer weights.
        still = constant_outputs(evidence, tensor)
        small = {
            c: size for c, size in sizes.items() if 0 < size < largest / _TIMES and c not in still
        }
        if not small:
            continue
        worst = min(small, key=small.__getitem__)
        sqnr = next((c.sqnr_db for c in row.channels if c.channel == worst), None)
        said = "" if sqnr is None else f", with an SQNR of {sqnr:.1f} dB"
        places.append(
            Place(
                tensor.name,
                f"the weights of {len(small)} of {len(sizes)} channels are more than "
                f"{_TIMES:.0f} times smaller than the largest; channel {worst} is "
                f"{largest / small[worst]:.3g} times smaller{said}",
                {
                    "small_channels": len(small),
                    "channels": len(sizes),
                    "worst_channel": worst,
                    "times_smaller": largest / small[worst],
                    "worst_channel_sqnr_db": sqnr,
                },
            )
        )
    if places:
        yield Finding(
            KIND,
            f"One scale serves channels of very different weights in "
            f"{many(len(places), 'weight tensor')}",
            WHY,
            tuple(places),
            (
                Remedy(
                    "quantize with a scale for each channel",
                    options={"per_channel": True},
                    command="quantscope quantize FLOAT -o OUT --per-channel",
                ),
                *_balance(evidence, {place.where for place in places}),
            ),
            tensors=tuple(place.where for place in places),
        )


def _balance(evidence: Evidence, weights: Collection[str]) -> Iterator[Remedy]:
    """Propose to rescale channels where one of these weights has a neighbour that takes it."""
    pairs, _ = evidence.editor.neighbours
    if any({p.weight.name, p.second_weight.name} & set(weights) for p in pairs):
        yield Remedy(
            "balance the channels with those of the neighbouring layer",
            cure="equalization",
            command="quantscope cure QUANT --equalization -o OUT",
        )
