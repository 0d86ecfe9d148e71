"""The layers of ResNet8 as data: the ONNX, PyTorch and Keras forms all follow it."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quantscope.errors import BadModelError

Weights = Mapping[str, NDArray[np.float32]]
"""The weights by name: `stem.weight` [out, in, height, width], ..., `head.weight` [10, 64]."""


@dataclass(frozen=True)
class ConvSpec:
    """A convolution with Keras's `same` padding, batch norm folded in."""

    name: str
    channels_in: int
    channels_out: int
    kernel: int
    stride: int

    @property
    def pads(self) -> tuple[int, int, int, int]:
        """The pads at top, left, bottom and right; an odd one goes to the bottom and right."""
        total = max(self.kernel - self.stride, 0)
        before = total // 2
        return before, before, total - before, total - before


STEM = ConvSpec("stem", 3, 16, 3, 1)
STACKS = tuple(
    (
        ConvSpec(f"stack{n}.conv1", channels_in, channels, 3, stride),
        ConvSpec(f"stack{n}.conv2", channels, channels, 3, 1),
        ConvSpec(f"stack{n}.shortcut", channels_in, channels, 1, stride) if stride > 1 else None,
    )
    for n, channels_in, channels, stride in ((1, 16, 16, 1), (2, 16, 32, 2), (3, 32, 64, 2))
)
CONVOLUTIONS = (STEM, *(conv for stack in STACKS for conv in stack if conv is not None))
CLASSES = 10
FEATURES = 64


def expected_shapes() -> dict[str, tuple[int, ...]]:
    """Give the shape of every weight, in the order of the network."""
    shapes: dict[str, tuple[int, ...]] = {}
    for conv in CONVOLUTIONS:
        kernel = (conv.kernel, conv.kernel)
        shapes[f"{conv.name}.weight"] = (conv.channels_out, conv.channels_in, *kernel)
        shapes[f"{conv.name}.bias"] = (conv.channels_out,)
    shapes["head.weight"] = (CLASSES, FEATURES)
    shapes["head.bias"] = (CLASSES,)
    return shapes


def check_weights(weights: Weights, *, source: str) -> None:
    """Raise if these are not ResNet8's weights, saying which one is not."""
    expected = expected_shapes()
    for name, shape in expected.items():
        if name not in weights:
            raise BadModelError(f"{source} is not a ResNet8: it has no tensor '{name}'")
        found = tuple(weights[name].shape)
        if found != shape:
            raise BadModelError(
                f"{source} is not a ResNet8: '{name}' has shape {list(found)}, "
                f"expected {list(shape)}"
            )
    for name in weights:
        if name not in expected:
            raise BadModelError(f"{source} is not a ResNet8: it has a tensor '{name}' too many")
