"""How the values of a tensor lie in a comparison: images, channels, and the rest."""

from dataclasses import dataclass

import numpy as np

from quantscope.arithmetic import QuantParams
from quantscope.model import Network, QuantTensor
from quantscope.model.channels import channel_axis


@dataclass(frozen=True)
class Layout:
    """How to lay a tensor out: its axes in this order, then this shape."""

    shape: tuple[int, ...]
    channels_last: bool = False
    order: tuple[int, ...] = ()
    """Empty where they stay as they are."""


def layout_of(network: Network, tensor: QuantTensor) -> Layout:
    axis, rank = channel_axis(network, tensor), len(tensor.shape or ())
    if tensor.shape is not None and rank < 2:
        return Layout((1, 1, -1))
    if axis is None:
        return Layout((0, 1, -1))
    width = tensor.shape[axis] if tensor.shape is not None else None
    if axis == 1:
        return Layout((0, 0, -1))
    if axis == rank - 1 and isinstance(width, int):
        return Layout((0, -1, width), channels_last=True)
    if axis == 0:
        return Layout((1, width if isinstance(width, int) else 1, -1))
    others = (at for at in range(1, rank) if at != axis)
    return Layout((0, 0, -1), order=(0, axis, *others))


def ends_of(params: QuantParams, *, channels_last: bool) -> tuple[np.ndarray, np.ndarray]:
    """The representable range, computed as DequantizeLinear does, so that its ends are inside."""
    scale = params.scale.astype(np.float32)
    with np.errstate(over="ignore"):  # a range may reach beyond float32
        ends = [
            scale * (q - params.zero_point).astype(np.float32) for q in (params.qmin, params.qmax)
        ]
    if scale.ndim == 1:
        ends = [end if channels_last else end[:, None] for end in ends]
    low, high = np.minimum(*ends), np.maximum(*ends)
    return np.asarray(low, np.float32), np.asarray(high, np.float32)
