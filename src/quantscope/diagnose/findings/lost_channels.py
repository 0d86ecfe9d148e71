"""Channels that the network uses, and that the step of their tensor leaves hardly any integers."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from quantscope.diagnose.evidence import Evidence
from quantscope.diagnose.findings.outlier_channels import far_channels
from quantscope.diagnose.results import Finding, Place, Remedy
from quantscope.edit import SetBits
from quantscope.model import Layer, QuantTensor
from quantscope.plain_text import many
from quantscope.run import TensorComparison

KIND = "lost-channels"
WHY = (
    "All channels share one step: where values are smaller than it, a channel that the next layer "
    "counts on becomes a constant."
)
# Two bits: what a channel says is then mostly rounding.
_LEAST_STEPS = 4.0
_LEAST_SHARE = 1 / 64
# It matters if the next layer hears it about as loud as others.
_HEARD = 0.5
_USED = 1 / 3


def find(evidence: Evidence) -> Iterator[Finding]:
    """Count the steps of each channel, and weigh it as the layers that read it do."""
    layers = {layer.name: layer for layer in evidence.network.layers}
    places: list[Place] = []
    explained = far_channels(evidence)
    for tensor, row in evidence.activations:
        if len(row.channels) < 2 or tensor.name in explained:
            continue
        heard = _loudness(row, [layers[name] for name in tensor.consumers if name in layers])
        steps = _spans(row) / float(np.max(tensor.params.scale))
        if heard is None or not np.median(heard):
            continue
        if (row.used_share_of_range or 0.0) < _USED:
            continue  # the range is too wide for all channels
        # Few bits leave every channel few steps; one that is lost takes little of the range.
        least = min(_LEAST_STEPS, _LEAST_SHARE * 2**tensor.params.bits)
        lost = (steps > 0) & (steps < least) & (heard > _HEARD * np.median(heard))
        if not lost.any():
            continue
        channel = int(np.argmax(np.where(lost, heard, -1)))
        places.append(
            Place(
                tensor.name,
                f"{int(lost.sum())} of {lost.size} channels have less than {_LEAST_STEPS:.0f} "
                f"steps; channel {channel} has {steps[channel]:.1f}, and the next layer hears it "
                f"{heard[channel] / np.median(heard):.1f} times as loud as others",
                {
                    "lost_channels": [int(c) for c in np.flatnonzero(lost)],
                    "channels": int(lost.size),
                    "steps": float(steps[channel]),
                    "loudness": float(heard[channel] / np.median(heard)),
                },
            )
        )
    if places:
        names = tuple(place.where for place in places)
        yield Finding(
            KIND,
            f"Channels are left with hardly any integers in {many(len(places), 'tensor')}",
            WHY,
            tuple(places),
            (
                Remedy(
                    f"give {many(len(names), 'tensor')} 16 bits",
                    tuple(SetBits(name, 16) for name in names),
                ),
                Remedy("make these channels larger and the next layer's weights smaller"),
            ),
            tensors=names,
        )


def dead_channels(evidence: Evidence) -> dict[str, int]:
    """Count, by tensor, the channels that are constant in the float model already."""
    found = {t.name: int((_spans(row) == 0).sum()) for t, row in evidence.activations}
    return {name: count for name, count in found.items() if count}


def _spans(row: TensorComparison) -> NDArray[np.float64]:
    return np.array([(c.float_max or 0.0) - (c.float_min or 0.0) for c in row.channels])


def _loudness(row: TensorComparison, readers: list[Layer]) -> NDArray[np.float64] | None:
    """Give the span of each channel times the largest weight that a reader has for it."""
    spans = _spans(row)
    found = [
        sizes
        for reader in readers
        if (sizes := _weights_of_inputs(reader)) is not None and sizes.size == spans.size
    ]
    return None if not found else np.asarray(spans * np.max(found, axis=0), np.float64)


def _weights_of_inputs(layer: Layer) -> NDArray[np.float64] | None:
    """Give the largest weight that a layer has for each of its input channels."""
    weight: QuantTensor | None = layer.weight
    if weight is None or not weight.has_data:
        return None
    values = np.abs(weight.values())
    if layer.op_type == "Conv" and layer.attributes.get("group", 1) != 1:
        # Depthwise: each channel has weights of its own. Other groups are not looked into.
        return values.reshape(len(values), -1).max(axis=1) if values.shape[1] == 1 else None
    axis = {"Conv": 1, "ConvTranspose": 0, "MatMul": 0}.get(layer.op_type)
    if layer.op_type == "Gemm":
        axis = 1 if layer.attributes.get("transB") else 0
    if axis is None or (layer.op_type == "MatMul" and values.ndim != 2):
        return None
    return np.asarray(np.moveaxis(values, axis, 0).reshape(values.shape[axis], -1).max(axis=1))
