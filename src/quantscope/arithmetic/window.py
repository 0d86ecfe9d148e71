"""This module places a convolution's or a pool's window: padding, strides, dilations, patches."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from quantscope.arithmetic.params import Array
from quantscope.errors import BadModelError

AutoPad: TypeAlias = Literal["NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"]


@dataclass(frozen=True)
class ConvAttributes:
    """The attributes of ONNX's Conv family; an empty tuple stands for ONNX's default.

    `pads` lists all begins, then all ends, as ONNX does. `ceil_mode` is for pools only.
    """

    strides: tuple[int, ...] = ()
    pads: tuple[int, ...] = ()
    dilations: tuple[int, ...] = ()
    group: int = 1
    auto_pad: AutoPad = "NOTSET"
    ceil_mode: bool = False


@dataclass(frozen=True)
class Window:
    """`ConvAttributes` made definite for one input size and one kernel; one entry per axis."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads_begin: tuple[int, ...]
    pads_end: tuple[int, ...]
    output: tuple[int, ...]


def resolve_window(
    spatial: Sequence[int], kernel: Sequence[int], attributes: ConvAttributes
) -> Window:
    """Work out what ONNX's defaults and `auto_pad` mean here; raise if the kernel does not fit.

    With `ceil_mode` the padding at the end may become more than was asked for.
    """
    rank = len(spatial)
    if len(kernel) != rank:
        raise BadModelError(f"A kernel of rank {len(kernel)} does not fit an input of rank {rank}.")
    strides = attributes.strides or (1,) * rank
    dilations = attributes.dilations or (1,) * rank
    pads = attributes.pads or (0,) * (2 * rank)
    if len(strides) != rank or len(dilations) != rank or len(pads) != 2 * rank:
        raise BadModelError(
            f"{len(strides)} strides, {len(dilations)} dilations and {len(pads)} pads for "
            f"{rank} axes; {rank}, {rank} and {2 * rank} are needed."
        )
    if min((*strides, *dilations, *kernel), default=1) < 1 or min(pads, default=0) < 0:
        raise BadModelError("Strides, dilations and kernel sizes start at 1, pads at 0.")
    begin, end, output = [], [], []
    for i, size in enumerate(spatial):
        extent = (kernel[i] - 1) * dilations[i] + 1
        low, high = pads[i], pads[rank + i]
        if attributes.auto_pad in ("SAME_UPPER", "SAME_LOWER"):
            missing = max((-(-size // strides[i]) - 1) * strides[i] + extent - size, 0)
            low = missing // 2 if attributes.auto_pad == "SAME_UPPER" else missing - missing // 2
            high = missing - low
        elif attributes.auto_pad == "VALID":
            low = high = 0
        span = size + low + high - extent
        if span < 0:
            raise BadModelError(
                f"A kernel that spans {extent} does not fit an axis of {size} padded by "
                f"{low} and {high}."
            )
        steps = span // strides[i]
        if attributes.ceil_mode and span % strides[i]:
            # A last window that would start in the end padding is left out, as in ONNX.
            steps += (steps + 1) * strides[i] < size + low
            high += max(steps * strides[i] - span, 0)
        begin.append(low)
        end.append(high)
        output.append(steps + 1)
    return Window(
        tuple(kernel), tuple(strides), tuple(dilations), tuple(begin), tuple(end), tuple(output)
    )


def windows(x: Array, window: Window, *, pad_value: int) -> Array:
    """Give a read-only view [N, C, *output, *kernel] of what each window sees.

    Only padding copies x.
    """
    pads = [(0, 0), (0, 0), *zip(window.pads_begin, window.pads_end, strict=True)]
    if any(p != (0, 0) for p in pads):
        x = np.pad(x, pads, constant_values=pad_value)
    rank = len(window.kernel)
    extent = tuple((k - 1) * d + 1 for k, d in zip(window.kernel, window.dilations, strict=True))
    view = sliding_window_view(x, extent, axis=tuple(range(2, 2 + rank)))
    steps: list[slice] = [slice(None), slice(None)]
    # A stride that leaves a remainder must not add a window.
    for stride, count in zip(window.strides, window.output, strict=True):
        steps.append(slice(0, stride * (count - 1) + 1, stride))
    steps.extend(slice(None, None, d) for d in window.dilations)
    return np.asarray(view[tuple(steps)])


def patches(x: Array, window: Window, *, pad_value: int) -> Array:
    """Lay out, row by row, what filters are multiplied with: [N * positions, kernel positions, C].

    Kernel positions, then channels, is also the order in which onnxruntime's kernels read.
    """
    # Channels last in memory, so that the copy below moves runs of channels.
    channels_last = np.ascontiguousarray(np.moveaxis(x, 1, -1))
    seen = windows(np.moveaxis(channels_last, -1, 1), window, pad_value=pad_value)
    rank = len(window.kernel)
    order = (0, *range(2, 2 + rank), *range(2 + rank, 2 + 2 * rank), 1)
    positions, taps = int(np.prod(window.output)), int(np.prod(window.kernel))
    return np.asarray(seen.transpose(order).reshape(len(x) * positions, taps, x.shape[1]))


def image_slices(x: Array, window: Window) -> list[slice]:
    """Slice the batch so that the patches of a slice stay small enough for the caches."""
    per_image = x.shape[1] * int(np.prod(window.kernel)) * int(np.prod(window.output))
    images = max(2**21 // max(per_image, 1), 1)
    return [slice(start, start + images) for start in range(0, len(x), images)]


def filters(w: Array, group: int) -> Array:
    """Lay an ONNX weight [M, C/group, *kernel] out as [group, filters of a group, K].

    K runs as in `patches`.
    """
    return np.moveaxis(w, 1, -1).reshape(group, w.shape[0] // group, -1)


def check_conv_shapes(x: Array, w: Array, attributes: ConvAttributes) -> None:
    if x.ndim < 3 or w.ndim != x.ndim:
        raise BadModelError(
            f"A convolution of an input of shape {list(x.shape)} with weights of shape "
            f"{list(w.shape)}; both need the same rank, 3 or more."
        )
    group = attributes.group
    if group < 1 or w.shape[0] % group or x.shape[1] != w.shape[1] * group:
        raise BadModelError(
            f"{x.shape[1]} input channels and weights of shape {list(w.shape)} do not fit "
            f"{group} groups."
        )
