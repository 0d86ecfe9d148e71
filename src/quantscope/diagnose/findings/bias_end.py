"""A bias so near to int32's end that a sum may overflow."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from quantscope.diagnose.evidence import Evidence
from quantscope.diagnose.findings.biases import AddedBias, added_biases
from quantscope.diagnose.results import Finding, Place, Remedy
from quantscope.edit import SetScale
from quantscope.model import QuantTensor
from quantscope.plain_text import many

Integers = NDArray[np.int64]

KIND = "bias-end"
WHY = (
    "Sums of products are kept in 32 bits, and wrap around beyond their end: a large positive "
    "answer becomes a large negative one."
)
_LARGEST = 2**31 - 1
# A bias shall be left with a quarter of the range, so that sums have the rest.
_ROOM = 4.0


def find(evidence: Evidence) -> Iterator[Finding]:
    """Add to each bias the largest sum that its weights can make of any input."""
    places: list[Place] = []
    edits: list[SetScale] = []
    for each in added_biases(evidence.network):
        stored = np.abs(each.bias.integers().astype(np.int64)).reshape(-1)
        worst = stored + _largest_sums(each, stored.size)
        # A bias of modest size is not what a sum of many products overflows by.
        over = (worst > _LARGEST) & (stored > _LARGEST / _ROOM)
        if not over.any():
            continue
        channel = int(np.argmax(np.where(over, stored, -1)))
        held, added = int(stored[channel]), int(worst[channel] - stored[channel])
        places.append(
            Place(
                each.bias.name,
                f"channel {channel} holds {held:,}, {held / _LARGEST:.0%} of int32's end, and its "
                f"products can add {added:,}",
                {
                    "channel": channel,
                    "integer": held,
                    "largest_sum": added,
                    "channels": int(over.sum()),
                },
            )
        )
        edits.append(_coarser(each, stored))
    if places:
        yield Finding(
            KIND,
            f"In {many(len(places), 'layer')}, the bias lies near int32's end",
            WHY,
            tuple(places),
            (
                Remedy(
                    f"give the weights of {many(len(edits), 'layer')} coarser steps, so that the "
                    f"bias takes a quarter of int32",
                    tuple(edits),
                ),
            ),
            tensors=tuple(place.where for place in places),
            cost_of="kernels",
        )


def _largest_sums(each: AddedBias, channels: int) -> Integers:
    """Give, for each output channel, the largest sum that products of these weights can have."""
    integers = each.weight.integers().astype(np.int64) - _zero_points(each.weight)
    params = each.x.params
    zero = int(params.zero_point.reshape(-1)[0])
    reach = max(params.qmax - zero, zero - params.qmin)
    if each.layer.op_type == "ConvTranspose":
        integers = np.moveaxis(integers, 1, 0)
    elif each.layer.op_type == "Gemm" and not each.layer.attributes.get("transB"):
        integers = integers.T
    if len(integers) != channels:  # grouped transposed convolutions: all weights, to be safe
        return np.full(channels, np.abs(integers).sum() * reach)
    return np.asarray(np.abs(integers).reshape(channels, -1).sum(axis=1) * reach)


def _zero_points(weight: QuantTensor) -> Integers:
    params = weight.params
    zero = np.asarray(params.zero_point, np.int64)
    if params.axis is None or zero.ndim == 0:
        return zero.reshape(())
    shape = [1] * weight.integers().ndim
    shape[params.axis] = -1
    return zero.reshape(shape)


def _coarser(each: AddedBias, stored: Integers) -> SetScale:
    """Scale the weights' steps so that each bias fits into its share of int32."""
    factor = np.maximum(stored * _ROOM / _LARGEST, 1.0)
    scale = np.asarray(each.weight.params.scale, np.float64).reshape(-1)
    if scale.size == 1:
        return SetScale(each.weight.name, factor=float(factor.max()))
    return SetScale(each.weight.name, scale=tuple(float(s) for s in scale * factor))
