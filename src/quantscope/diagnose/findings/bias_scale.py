"""A bias that does not count in steps of input scale times weight scale."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from quantscope.diagnose.evidence import Evidence
from quantscope.diagnose.findings.biases import AddedBias, added_biases
from quantscope.diagnose.results import Finding, Place, Remedy
from quantscope.edit import Off
from quantscope.plain_text import many

Ratios = NDArray[np.float64]
Flags = NDArray[np.bool_]

KIND = "bias-scale"
WHY = (
    "Integer kernels add a bias to sums of products, so its steps must be theirs: else the layer "
    "runs as float, or a compiler adds the wrong number."
)
# What onnxruntime itself lets pass.
_TOLERANCE = 0.01


def off_scales(each: AddedBias) -> tuple[Ratios, Flags]:
    """Give each channel's scale over that of its sums, and whether it is another."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = each.scale / each.sum_scale
    return ratio, np.abs(ratio - 1) > _TOLERANCE


def find(evidence: Evidence) -> Iterator[Finding]:
    """Hold each bias's scale against the product of the two scales whose sums it joins."""
    kernels = {} if evidence.kernels is None else {k.name: k for k in evidence.kernels.layers}
    places: list[Place] = []
    for each in added_biases(evidence.network):
        ratio, off = off_scales(each)
        if not off.any():
            continue
        channel = int(np.argmax(np.where(off, np.abs(np.log(np.abs(ratio))), -1)))
        kernel = kernels.get(each.layer.name)
        runs = kernel is not None and kernel.kernel == "float"
        places.append(
            Place(
                each.bias.name,
                f"its scale is {ratio[channel]:.4g} times input scale times weight scale in "
                f"{int(off.sum())} of {off.size} channels"
                + (f"; {each.layer.name} runs as float here" if runs else ""),
                {
                    "ratio": float(ratio[channel]),
                    "channel": channel,
                    "channels_off": int(off.sum()),
                    "channels": int(off.size),
                    "runs_as_float": runs,
                },
            )
        )
    if places:
        names = tuple(place.where for place in places)
        yield Finding(
            KIND,
            f"In {many(len(places), 'layer')}, the bias's scale is not input scale times weight "
            f"scale",
            WHY,
            tuple(places),
            (Remedy("keep these biases float", tuple(Off(name) for name in names)),),
            tensors=names,
        )
