"""A value is written over only where nobody else can see it: held against the files' own order."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.ao.quantization.fx._decomposed
import torch.nn.functional as F
from tiny_qdq import images_of
from torch import Tensor, nn
from torch_nets import save

from quantscope.run.torch_compare import compare_paired, fitting_pairing
from quantscope.run.torch_pairs import PairedPrograms
from quantscope.run.torch_programs import opened_program

PICTURES = np.random.default_rng(2).normal(0, 1, (7, 3, 5, 7)).astype(np.float32)
Body = Callable[["Net", Tensor], Tensor]


class Net(nn.Module):
    """A body between a quantized input and a head; without quantizers it is the float network."""

    def __init__(self, body: Body, *, is_quantized: bool) -> None:
        super().__init__()
        made = torch.Generator().manual_seed(1)
        self.body, self.is_quantized = body, is_quantized
        self.conv = nn.Parameter(torch.randn(4, 3, 3, 3, generator=made) * 0.4)
        self.offset = nn.Parameter(torch.randn(1, 4, 1, 1, generator=made))
        self.head = nn.Parameter(torch.randn(3, 4, generator=made) * 0.4)

    def quantized(self, value: Tensor, scale: float, zero_point: int) -> Tensor:
        if not self.is_quantized:
            return value
        ops = torch.ops.quantized_decomposed
        params = scale, zero_point, 0, 255, torch.uint8
        integers = ops.quantize_per_tensor(value, *params)
        found: Tensor = ops.dequantize_per_tensor(integers, *params)
        return found

    def forward(self, x: Tensor) -> Tensor:
        value = F.conv2d(self.quantized(x, 0.03, 100), self.conv, padding=1)
        pooled = F.adaptive_avg_pool2d(self.body(self, value), 1)
        return self.quantized(F.linear(torch.flatten(pooled, 1), self.head), 0.03, 120)


def shared(net: Net, v: Tensor) -> Tensor:
    """Read by a ReLU, by a quantizer and by a later sum."""
    one, two = net.quantized(torch.relu(v), 0.02, 0), net.quantized(v, 0.03, 128)
    return net.quantized(net.quantized(one + two, 0.04, 100) + v, 0.05, 120)


def read_twice(net: Net, v: Tensor) -> Tensor:
    v = torch.relu(v)
    return net.quantized(v + net.quantized(v, 0.02, 0), 0.04, 0)


def viewed(net: Net, v: Tensor) -> Tensor:
    flat = torch.relu(torch.flatten(v, 2)).reshape(v.shape)
    return net.quantized(flat + v, 0.04, 90)


def expanded(net: Net, v: Tensor) -> Tensor:
    wide = torch.relu(F.adaptive_avg_pool2d(v, 1).expand_as(v))
    return net.quantized(wide + torch.relu(v), 0.04, 0)


def in_line(net: Net, v: Tensor) -> Tensor:
    return net.quantized(torch.relu(torch.relu(v)), 0.02, 0)


def of_a_constant(net: Net, v: Tensor) -> Tensor:
    return net.quantized(torch.relu(v) + torch.relu(net.offset), 0.04, 0)


@pytest.mark.parametrize("body", [of_a_constant, shared, read_twice, viewed, expanded, in_line])
def test_numbers_are_those_of_the_files_own_order(body: Body, tmp_path: Path) -> None:
    original = save(Net(body, is_quantized=False), tmp_path / "float.pt2")
    model = save(Net(body, is_quantized=True), tmp_path / "quantized.pt2")
    with opened_program(original) as floats, opened_program(model) as quantized:
        pairing = fitting_pairing(floats, quantized)
        programs = PairedPrograms(floats, quantized, pairing, detail="sqnr")
        found = compare_paired(programs, images_of(PICTURES))
        programs._as_stated = True
        stated = compare_paired(programs, images_of(PICTURES))
    assert [t.sqnr_db for t in found.activations] == [t.sqnr_db for t in stated.activations]
    assert len(found.activations) > 2
    assert any(action.overwrites for action in programs._actions)
