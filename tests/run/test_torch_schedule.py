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
from quantscope.run.torch_quantizers import _in_floats
from quantscope.run.torch_schedule import LEAST_SCALE

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


def padded(net: Net, v: Tensor) -> Tensor:
    """Its second quantizer has the first one's numbers, its third others."""
    same = net.quantized(F.pad(net.quantized(v, 0.03, 128), (0, 1, 0, 1)), 0.03, 128)
    return net.quantized(F.max_pool2d(same, 2), 0.05, 128)


def padded_otherwise(net: Net, v: Tensor) -> Tensor:
    """What is filled in is on no grid."""
    return net.quantized(F.pad(net.quantized(v, 0.03, 128), (0, 1), value=0.01), 0.03, 128)


@pytest.mark.parametrize(
    "body", [of_a_constant, shared, read_twice, viewed, expanded, in_line, padded, padded_otherwise]
)
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
    is_padded = body is padded
    assert any(action.on_grid for action in programs._actions) == is_padded


@pytest.mark.parametrize("scale", [LEAST_SCALE, 1e-30, 0.035445035, 0.1, 1 / 3, 0.9995117, 7e20])
def test_what_was_quantized_stays_as_it_is(scale: float) -> None:
    """All integers that 16 bits can be apart."""
    apply = _in_floats(scale, -65535, 65535)
    once = torch.arange(-65535, 65536, dtype=torch.float32) * scale
    assert torch.equal(apply(once), once)
