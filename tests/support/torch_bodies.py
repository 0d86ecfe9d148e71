"""Small programs around a body of one's own, and what PyTorch itself computes in them, eagerly."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.ao.quantization.fx._decomposed
import torch.nn.functional as F
from comparison_nets import sqnr
from torch import Tensor, nn
from torch_nets import save

from quantscope.model import read_network
from quantscope.run.compare.results import Comparison

Array = np.ndarray[Any, Any]
Body = Callable[["Net", Tensor], Tensor]
PICTURES = np.random.default_rng(2).normal(0, 1, (7, 3, 5, 7)).astype(np.float32)
SCALES = np.array([0.01, 0.03, 0.05, 0.08], np.float32)
ZEROS = np.array([128, 100, 150, 0])


class Net(nn.Module):
    """A body between a quantized input and a head; without quantizers it is the float network.

    Run eagerly, `seen` has what each quantizer was given and gave, and the ends of its range.
    """

    def __init__(self, body: Body, *, is_quantized: bool) -> None:
        super().__init__()
        made = torch.Generator().manual_seed(1)
        self.body, self.is_quantized = body, is_quantized
        self.conv = nn.Parameter(torch.randn(4, 3, 3, 3, generator=made) * 0.4)
        self.offset = nn.Parameter(torch.randn(1, 4, 1, 1, generator=made))
        self.head = nn.Parameter(torch.randn(3, 4, generator=made) * 0.4)
        self.register_buffer("scales", torch.from_numpy(SCALES))
        self.register_buffer("zeros", torch.from_numpy(ZEROS))
        self.seen: list[tuple[Array, Array, Array, Array]] = []

    def quantized(
        self, value: Tensor, scale: float, zero_point: int, least: int = 0, most: int = 255
    ) -> Tensor:
        ops, params = torch.ops.quantized_decomposed, (scale, zero_point, least, most, torch.uint8)
        given = value if torch.compiler.is_compiling() else value.clone()
        if self.is_quantized:
            integers = ops.quantize_per_tensor(value, *params)
            found = ops.dequantize_per_tensor(integers, *params)
        else:
            found = value if value.dtype == torch.float32 else value.float()
        ends = (np.array(end - zero_point) * scale for end in (least, most))
        self._note(given, found, *ends)
        return found

    def by_channel(self, value: Tensor, axis: int = 1, most: int = 255) -> Tensor:
        ops, found = torch.ops.quantized_decomposed, value
        params = self.scales, self.zeros, axis, 0, most, torch.uint8
        if self.is_quantized:
            found = ops.dequantize_per_channel(ops.quantize_per_channel(value, *params), *params)
        shape = [-1 if at == axis % value.ndim else 1 for at in range(value.ndim)]
        ends = ((end - ZEROS) * SCALES.astype(np.float64) for end in (0, most))
        self._note(value, found, *(end.reshape(shape) for end in ends))
        return found

    def _note(self, given: Tensor, found: Tensor, low: Array, high: Array) -> None:
        if not torch.compiler.is_compiling():
            one, other = (v.detach().double().numpy().copy() for v in (given, found))
            self.seen.append((one, other, low, high))

    def forward(self, x: Tensor) -> Tensor:
        value = F.conv2d(self.quantized(x, 0.03, 100), self.conv, padding=1)
        pooled = F.adaptive_avg_pool2d(self.body(self, value), 1)
        return self.quantized(F.linear(torch.flatten(pooled, 1), self.head), 0.03, 120)


def saved(body: Body, folder: Path, *, batch: tuple[int, int] | int = (1, 64)) -> tuple[Path, Path]:
    """The quantized program and the float one."""
    return (
        save(Net(body, is_quantized=True), folder / "quantized.pt2", batch=batch),
        save(Net(body, is_quantized=False), folder / "float.pt2", batch=batch),
    )


@dataclass(frozen=True)
class Quantized:
    """One quantizer: the float network's value, what it was given and what it gave."""

    f: Array
    b: Array
    q: Array
    low: Array
    high: Array

    def shares(self) -> dict[str, float]:
        """Where its error comes from; these networks have no quantized weights."""
        c = np.clip(self.b, self.low, self.high)
        e = self.q - self.f.reshape(self.q.shape)
        parts = {
            "inherited": self.b - self.f.reshape(self.b.shape),
            "clipping": c - self.b,
            "rounding": self.q - c,
        }
        return {name: float((part * e).sum() / (e * e).sum()) for name, part in parts.items()}


def eager(body: Body, pictures: Array = PICTURES, *, batch: int | None = None) -> list[Quantized]:
    """Of each quantizer in the order of the program."""
    found = []
    for is_quantized in (False, True):
        net = Net(body, is_quantized=is_quantized)
        runs = []
        for at in range(0, len(pictures), batch or len(pictures)):
            net.seen = []
            with torch.no_grad():
                net(torch.from_numpy(pictures[at : at + (batch or len(pictures))].copy()))
            runs.append(net.seen)
        joined = []
        for parts in zip(*runs, strict=True):
            given, value = (np.concatenate([part[which] for part in parts]) for which in (0, 1))
            joined.append((given, value, *parts[0][2:]))
        found.append(joined)
    return [
        Quantized(float_seen[1], *seen) for float_seen, seen in zip(found[0], found[1], strict=True)
    ]


def place_of(model: Path, tensor: str) -> int:
    """Of its quantizer, by the number that the program has for the node."""
    integers = read_network(model).tensor(tensor).integer_names[0]
    number = integers.rpartition("_")[2]
    return int(number) if number.isdecimal() else 0


def assert_is_eager(found: Comparison, model: Path, expected: list[Quantized]) -> None:
    """SQNR and, where there are any, the shares of the sources."""
    for tensor in found.activations:
        truth = expected[place_of(model, tensor.name)]
        f = truth.f.reshape(truth.q.shape)
        if tensor.exact:
            np.testing.assert_array_equal(f, truth.q)
            continue
        assert tensor.sqnr_db == pytest.approx(sqnr(f, truth.q), abs=2e-3), tensor.name
        assert tensor.sources is not None or tensor.no_sources
        if tensor.sources is not None:
            assert tensor.sources.weights == pytest.approx(0, abs=1e-4), tensor.name
            for source, share in truth.shares().items():
                assert getattr(tensor.sources, source) == pytest.approx(share, abs=2e-3), source
