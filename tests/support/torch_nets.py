"""The small network of `comparison_nets` as PyTorch programs, float and quantized as PT2E does."""

from pathlib import Path
from typing import Any

import torch
from comparison_nets import QUANTIZERS, Layer, Residual
from torch import Tensor, nn
from torch.nn import functional

from quantscope.quantize.pt2e import quiet_torch

SHAPE = (3, 5, 7)
NAMES = {
    "x": "x",
    "conv": "relu.out",
    "branch": "conv2d_2.out",
    "add": "relu_2.out",
    "pool": "adaptive_avg_pool2d.out",
    "head": "linear.out",
}
"""Of the tensors, by their names in `comparison_nets`."""
_TYPES = {"uint8": torch.uint8, "int8": torch.int8}


class FloatNet(nn.Module):
    """conv (3x3, ReLU) -> branch (1x1); add (ReLU) of both -> pool -> head.

    With `in_place` the ReLUs and the addition write into what they are given.
    """

    def __init__(self, net: Residual, *, in_place: bool = False) -> None:
        super().__init__()
        for key in ("conv", "branch", "head"):
            layer: Layer = getattr(net, key)
            self.register_parameter(f"{key}_w", nn.Parameter(torch.from_numpy(layer.weight)))
            self.register_parameter(f"{key}_b", nn.Parameter(torch.from_numpy(layer.bias)))
        self.in_place = in_place

    def forward(self, x: Tensor) -> Tensor:
        conv = functional.conv2d(x, self.conv_w, self.conv_b, padding=1)
        conv = conv.relu_() if self.in_place else torch.relu(conv)
        branch = functional.conv2d(conv, self.branch_w, self.branch_b)
        total = branch.add_(conv).relu_() if self.in_place else torch.relu(conv + branch)
        pool = functional.adaptive_avg_pool2d(total, 1)
        return functional.linear(torch.flatten(pool, 1), self.head_w, self.head_b)


class QuantizedNet(nn.Module):
    """The same with a quantizer at each place of QUANTIZERS; `seen` are their integers.

    With `folded` the quantizers that clip at zero do the ReLUs' work. `off` are quantizers and
    weights that are left out, `weights` real values to take instead.
    """

    def __init__(
        self,
        net: Residual,
        *,
        in_place: bool = False,
        folded: bool = False,
        off: tuple[str, ...] = (),
        weights: dict[str, Tensor] | None = None,
    ) -> None:
        super().__init__()
        self.folded, self.off, self.weights = folded, off, weights or {}
        for key in ("conv", "branch", "head"):
            layer: Layer = getattr(net, key)
            self.register_buffer(f"{key}_w", torch.from_numpy(layer.integers))
            self.register_buffer(f"{key}_s", torch.from_numpy(layer.scales))
            self.register_buffer(f"{key}_z", torch.zeros(len(layer.scales), dtype=torch.int64))
            self.register_parameter(f"{key}_b", nn.Parameter(torch.from_numpy(layer.bias)))
        self.in_place = in_place
        self.seen: dict[str, Tensor] = {}

    def quantized(self, value: Tensor, key: str) -> Tensor:
        if key in self.off:
            return value
        scale, zero, kind = QUANTIZERS[key]
        dtype = _TYPES[kind.__name__]
        ends = torch.iinfo(dtype).min, torch.iinfo(dtype).max
        ops = torch.ops.quantized_decomposed
        integers = ops.quantize_per_tensor(value, scale, zero, *ends, dtype)
        if not torch.compiler.is_compiling():
            self.seen[key] = integers
        return ops.dequantize_per_tensor(integers, scale, zero, *ends, dtype)

    def weight(self, key: str) -> Tensor:
        if key in self.weights:
            return self.weights[key]
        held = [getattr(self, f"{key}_{part}") for part in "wsz"]
        ops: Any = torch.ops.quantized_decomposed
        return ops.dequantize_per_channel(*held, 0, -128, 127, torch.int8)

    def relu(self, value: Tensor, key: str) -> Tensor:
        if self.folded and key not in self.off:
            return value
        return value.relu_() if self.in_place else torch.relu(value)

    def forward(self, x: Tensor) -> Tensor:
        x = self.quantized(x, "x")
        conv = functional.conv2d(x, self.weight("conv"), self.conv_b, padding=1)
        conv = self.quantized(self.relu(conv, "conv"), "conv")
        branch = functional.conv2d(conv, self.weight("branch"), self.branch_b)
        branch = self.quantized(branch, "branch")
        total = branch.add_(conv) if self.in_place else conv + branch
        total = self.quantized(self.relu(total, "add"), "add")
        pool = self.quantized(functional.adaptive_avg_pool2d(total, 1), "pool")
        flat = torch.flatten(pool, 1)
        return self.quantized(functional.linear(flat, self.weight("head"), self.head_b), "head")


def save(module: nn.Module, path: Path, *, batch: tuple[int, int] | int = (1, 64)) -> Path:
    """As a program; `batch` is what it may be, or the only one that it takes."""
    import torch.ao.quantization.fx._decomposed

    if isinstance(batch, int):
        shapes, example = None, torch.zeros(batch, *SHAPE)
    else:
        least, most = batch
        shapes = ({0: torch.export.Dim("batch", min=least, max=most)},)
        example = torch.zeros(max(least, 2), *SHAPE)
    with quiet_torch(), torch.no_grad():
        torch.export.save(torch.export.export(module, (example,), dynamic_shapes=shapes), path)
    return path
