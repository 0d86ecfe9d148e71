"""The layout of a tensor's values in a comparison: images, channels, and the rest."""

from dataclasses import dataclass

import numpy as np

from quantscope.arithmetic import QuantParams
from quantscope.model import Network, QuantTensor
from quantscope.model.channels import activation_channel_axis

CLIP_TOLERANCE = 1e-6
"""The fraction of a range by which a value may lie outside and not count as clipped.

Float32 may put a value at the very end outside.
"""


@dataclass(frozen=True)
class Layout:
    """The axes that are summed over, which leaves images and channels.

    `shape` is the one that they are axes of, empty for the tensor's own; `behind` counts its axes
    after that of the channels.
    """

    over: tuple[int, ...]
    shape: tuple[int, ...] = ()
    behind: int = 1


def layout_of(network: Network, tensor: QuantTensor) -> Layout:
    axis, shape = activation_channel_axis(network, tensor), tensor.shape
    if shape is None:
        return Layout(over=(2,), shape=(0, 1, -1))
    if len(shape) < 2:
        return Layout(over=(2,), shape=(1, 1, -1))
    # Channels along the first axis: images cannot be told apart, and count as one.
    if axis == 0:
        width = shape[0]
        return Layout(over=(2,), shape=(1, width if isinstance(width, int) else 1, -1))
    if len(shape) == 2 and axis == 1:
        return Layout(over=(2,), shape=(0, 0, -1))  # no axis is left to sum over
    over = tuple(at for at in range(1, len(shape)) if at != axis)
    return Layout(over, behind=0 if axis is None else len(shape) - 1 - axis)


def ends_of(params: QuantParams, layout: Layout) -> tuple[np.ndarray, np.ndarray]:
    """Give the representable range, computed as DequantizeLinear does, so its ends are inside."""
    scale = params.scale.astype(np.float32)
    with np.errstate(over="ignore"):  # a range may reach beyond float32
        ends = [
            scale * (q - params.zero_point).astype(np.float32) for q in (params.qmin, params.qmax)
        ]
    if scale.ndim == 1:
        ends = [end.reshape(-1, *[1] * layout.behind) for end in ends]
    low, high = np.minimum(*ends), np.maximum(*ends)
    return np.asarray(low, np.float32), np.asarray(high, np.float32)
