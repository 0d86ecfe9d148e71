"""Programs that write into a value under another name: right numbers, or none and the reason."""

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from tiny_qdq import images_of
from torch import Tensor, nn
from torch_bodies import PICTURES, Body, Net, assert_is_eager, eager, place_of, saved
from torch_nets import save

from quantscope.run.compare.compare import compare
from quantscope.run.histograms.histograms import histograms
from quantscope.run.runnable import open_runnable
from quantscope.run.torch.nodes import run_nodes
from quantscope.run.torch.runnable import program_of


def view(net: Net, v: Tensor) -> Tensor:
    v.view(-1, 4, 35).relu_()
    return net.quantized(net.quantized(v, 0.03, 10) * net.offset, 0.05, 100)


def item(net: Net, v: Tensor) -> Tensor:
    v[:, 1] = 0.5
    return net.quantized(net.quantized(v, 0.03, 100) * net.offset, 0.05, 100)


def quantized_value(net: Net, v: Tensor) -> Tensor:
    value = net.quantized(v, 0.03, 128)
    value.view(-1, 4, 35).relu_()
    return net.quantized(torch.relu(net.quantized(value, 0.03, 128)), 0.05, 100)


def dropout(net: Net, v: Tensor) -> Tensor:
    """Which returns what it is given, and does not declare it."""
    F.dropout(v, 0.5, False).relu_()
    return net.quantized(torch.relu(net.quantized(v, 0.05, 128)), 0.05, 100)


def parts(net: Net, v: Tensor) -> Tensor:
    one, two = v.split(2, 1)
    two.clamp_(-0.5, 0.5)
    return net.quantized(net.quantized(v, 0.03, 128) + one.mean((1, 2, 3), True), 0.05, 128)


def through_no_name_of_its_own(net: Net, v: Tensor) -> Tensor:
    """Nothing that a quantizer is given changes, but what its layer reads does."""
    v.view(-1, 4, 35).relu_()
    return net.quantized(net.quantized(v + 1, 0.03, 0) + net.offset, 0.05, 100)


@pytest.mark.parametrize(
    ("body", "unseen", "without_sources"),
    [
        (view, {1}, {2}),
        (item, {1}, {2}),
        (quantized_value, {1, 2}, {3}),
        (dropout, {1}, {2}),
        (parts, {1}, {2}),
        (through_no_name_of_its_own, set(), {1}),
    ],
)
def test_what_is_written_under_another_name_is_right_or_not_shown(
    body: Body, unseen: set[int], without_sources: set[int], tmp_path: Path
) -> None:
    model, original = saved(body, tmp_path)
    found = compare(model, images_of(PICTURES), float_model=original, batch=3)
    assert_is_eager(found, model, eager(body))
    assert {place_of(model, tensor.name) for tensor in found.unseen} == unseen
    for tensor in found.unseen:
        assert tensor.reason == (
            "float.pt2 writes into it under another name too (a view, a slice): "
            "it has several values"
        )
    silent = [t for t in found.activations if t.sources is None]
    assert {place_of(model, tensor.name) for tensor in silent} == without_sources
    assert len(found.activations) + len(found.unseen) == len(eager(body))


def test_histograms_have_no_float_values_that_no_name_stands_for(tmp_path: Path) -> None:
    model, original = saved(item, tmp_path)
    found = histograms(model, images_of(PICTURES), float_model=original)
    by_place = {place_of(model, each.name): each for each in found.tensors}
    assert by_place[1].float_name is None and by_place[2].float_name is not None
    assert "writes into it under another name" in (by_place[1].no_float or "")


def to_a_part(net: Net, v: Tensor) -> Tensor:
    """Each batch starts with the constant as it is in the file."""
    constant = net.offset.expand(7, 4, 5, 7).clone()
    constant[:, 0] += v[:, 0]
    return net.quantized(v * constant, 0.1, 128)


def to_all(net: Net, v: Tensor) -> Tensor:
    v.view(-1, 4, 35).relu_()
    constant = net.offset.expand(7, 4, 5, 7).clone()
    return net.quantized(v * constant.add_(v), 0.1, 128)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("body", [to_a_part, to_all])
def test_constants_are_the_same_for_each_batch(body: Body, threads: int, tmp_path: Path) -> None:
    pictures = np.random.default_rng(5).normal(0, 1, (70, 3, 5, 7)).astype(np.float32)
    model, original = saved(body, tmp_path, batch=7)
    found = compare(model, images_of(pictures), float_model=original, threads=threads)
    assert_is_eager(found, model, eager(body, pictures, batch=7))
    assert found.unseen == () and len(found.activations) == 3


class IntoItsInput(nn.Module):
    """What it is given is less the second time, and so is what it has stored."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(3 * 35, 4)
        self.register_buffer("kept", torch.full((3, 1, 1), 0.5))

    def forward(self, x: Tensor) -> Tensor:
        x.view(-1, 3, 35).mul_(0.5)
        self.kept.view(3).mul_(0.5)
        return self.head(torch.flatten(x * self.kept, 1))


def test_a_run_writes_into_nothing_but_its_own(tmp_path: Path) -> None:
    path, module = tmp_path / "program.pt2", IntoItsInput().eval()
    save(module, path)
    pictures = PICTURES.copy()
    with torch.no_grad():
        expected = module.head(torch.from_numpy(PICTURES).flatten(1) / 8).numpy()
    program = program_of(open_runnable(path))
    for _ in range(2):
        values = program.start({"x": pictures})
        run_nodes(program.nodes, values, model=program.name)
        np.testing.assert_allclose(values["linear"], expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(pictures, PICTURES)
