"""Kernels that saturate: a cost of the CPU that runs the model, not of its quantization."""

from collections.abc import Iterator

import numpy as np

from quantscope.diagnose.evidence import Evidence
from quantscope.diagnose.kernels import saturating_layers
from quantscope.diagnose.results import Finding, Place, Remedy
from quantscope.plain_text import many

KIND = "saturating-kernels"
WHY = (
    "Without VNNI, an x86 CPU adds two products of uint8 and int8 into 16 bits, and what is larger "
    "becomes 32,767; weights of 7 bits cannot reach that."
)


def find(evidence: Evidence) -> Iterator[Finding]:
    """List the layers whose products can saturate, if the CPU that is asked about does that."""
    if not evidence.saturates:
        return
    places = []
    for layer, weight in saturating_layers(evidence.network, evidence.kernels).items():
        integers = np.abs(weight.integers().astype(np.int64))
        large = float((integers > 64).mean())
        places.append(
            Place(
                layer,
                f"{large:.1%} of its weights are beyond 64, the largest is {int(integers.max())}",
                {"share_beyond_64": large, "largest_weight": int(integers.max())},
            )
        )
    if places:
        yield Finding(
            KIND,
            f"The kernels of {evidence.kernels_of} saturate in {many(len(places), 'layer')}",
            WHY,
            tuple(sorted(places, key=lambda place: -place.numbers["share_beyond_64"])),
            (
                Remedy(
                    "quantize with 7-bit weights",
                    options={"reduce_range": True},
                    command="quantscope quantize FLOAT -o OUT --reduce-range",
                ),
            ),
            tensors=tuple(f"{place.where}.weight" for place in places),
            cost_of="kernels",
        )
