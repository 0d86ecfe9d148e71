"""Other bits in PyTorch programs, against the same network with those quantizers in its source."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from comparison_nets import QUANTIZERS, Residual, residual
from tiny_qdq import images_of
from torch import Tensor
from torch_nets import NAMES, FloatNet, QuantizedNet, save

from quantscope.arithmetic import QuantParams, dequantize, quantize
from quantscope.edit import Edit, Editor, SetBits
from quantscope.errors import BadModelError
from quantscope.model import open_model
from quantscope.run import best_ranges, evaluate, settle_ranges

PICTURES = np.random.default_rng(2).normal(0, 1, (7, 3, 5, 7)).astype(np.float32)
WEIGHTS = {"conv": "conv2d.weight", "branch": "conv2d_2.weight", "head": "linear.weight"}


class NarrowNet(QuantizedNet):
    """The network with these parameters, whose ends clip by torch's own quantizers."""

    def __init__(self, net: Residual, params: dict[str, QuantParams]) -> None:
        weights = {}
        for key, name in WEIGHTS.items():
            integers = quantize(getattr(net, key).weight, params[name])
            assert params[name].qmin <= integers.min() and integers.max() <= params[name].qmax
            weights[key] = torch.from_numpy(dequantize(integers, params[name]))
        super().__init__(net, weights=weights)
        self.params = params

    def quantized(self, value: Tensor, key: str) -> Tensor:
        params = self.params[NAMES[key]]
        ends = params.qmin, params.qmax
        numbers = float(params.scale), int(params.zero_point), *ends, getattr(torch, params.dtype)
        ops = torch.ops.quantized_decomposed
        found: Tensor = ops.dequantize_per_tensor(
            ops.quantize_per_tensor(value, *numbers), *numbers
        )
        return found


@pytest.fixture(scope="module")
def net() -> Residual:
    return residual()


@pytest.fixture(scope="module")
def editor(net: Residual, tmp_path_factory: pytest.TempPathFactory) -> Editor:
    folder = tmp_path_factory.mktemp("programs")
    return Editor(save(QuantizedNet(net), folder / "q.pt2"), save(FloatNet(net), folder / "f.pt2"))


@pytest.mark.parametrize(
    "edits",
    [
        [SetBits("weights", 4)],
        [SetBits("activations", 5)],
        [SetBits("all", 3)],
        [SetBits("all", 3), SetBits("activations", 7)],
    ],
    ids=str,
)
def test_a_program_with_other_bits_gives_what_torch_does(
    edits: list[Edit], net: Residual, editor: Editor, tmp_path: Path
) -> None:
    applied = editor.apply(edits)
    applied.save(tmp_path / "narrow.pt2")
    found = open_model(tmp_path / "narrow.pt2").network
    # What was written is read again with its bits, and so is what any loader of programs sees.
    after = {change.tensor: change.after for change in applied.changes}
    params = {tensor.name: tensor.params for tensor in found.tensors}
    assert {name: params[name] for name in after} == after
    expected = NarrowNet(net, params)
    with torch.no_grad():
        wanted: Any = expected(torch.from_numpy(PICTURES))
        loaded = torch.export.load(tmp_path / "narrow.pt2").module()(torch.from_numpy(PICTURES))
    np.testing.assert_array_equal(loaded.numpy(), wanted.numpy())
    given = evaluate(tmp_path / "narrow.pt2", images_of(PICTURES)).scores
    np.testing.assert_allclose(given, wanted.numpy(), rtol=1e-5, atol=1e-5)


def test_the_bits_that_it_has_leave_the_program_as_it_is(editor: Editor) -> None:
    there_and_back = editor.apply([SetBits("all", 5), SetBits("all", 8)])
    assert there_and_back.changes == () == editor.apply([SetBits("all", 8)]).changes


def test_narrow_ones_are_widened_again(editor: Editor, tmp_path: Path) -> None:
    editor.apply([SetBits("conv2d", 4)]).save(tmp_path / "narrow.pt2")
    wide = Editor(tmp_path / "narrow.pt2", editor.original).apply([SetBits("conv2d", 8)])
    wide.save(tmp_path / "wide.pt2")
    tensors = {t.name: t for t in open_model(tmp_path / "wide.pt2").network.tensors}
    weight = tensors["conv2d.weight"]
    assert weight.params.bits == 8 and tensors[NAMES["conv"]].params.bits == 8
    assert np.abs(weight.integers().astype(int)).max() > 7  # not kept in what 4 bits had


def test_more_bits_than_the_type_holds_are_refused(editor: Editor) -> None:
    with pytest.raises(
        BadModelError,
        match=r"conv2d.weight cannot have 16 bits: q.pt2 is a program of PyTorch, whose int8 holds "
        r"2 to 8; edit its ONNX form for more",
    ):
        editor.apply([SetBits("conv2d.weight", 16)])


def test_each_key_is_a_tensor_of_the_program(editor: Editor) -> None:
    names = {tensor.name for tensor in editor.network.tensors}
    assert {NAMES[key] for key in QUANTIZERS} <= names and set(WEIGHTS.values()) <= names


def test_the_best_range_of_a_program_is_what_its_float_values_tell(editor: Editor) -> None:
    found = best_ranges(editor.model, images_of(PICTURES), float_model=editor.original)
    edits = settle_ranges(editor, [SetBits("all", 4, "best")], found)
    after = {c.tensor: c.after for c in editor.preview(edits).changes}
    assert found.ranges
    for each in found.ranges:
        params = after[each.tensor]
        assert params is not None and params.bits == 4
        best = each.at_bits(4).best.params
        assert float(params.scale) == pytest.approx(float(best.scale), rel=1e-5)
        assert params.zero_point == best.zero_point
    editor.apply(edits)
