"""Two programs that run in turns give the numbers of the files' own order."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from tiny_qdq import images_of
from torch import Tensor
from torch_bodies import PICTURES, Body, Net, assert_is_eager, eager, saved

from quantscope.errors import BadModelError
from quantscope.model import read_network
from quantscope.run.compare.compare import compare, compare_run
from quantscope.run.onnx.compare.graph import Detail
from quantscope.run.runnable import open_runnable
from quantscope.run.torch.joint_programs import JointPrograms
from quantscope.run.torch.joint_run import ProgramJointRun, pair_programs
from quantscope.run.torch.probes import difference
from quantscope.run.torch.quantizers import _in_floats
from quantscope.run.torch.runnable import program_of


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


def without_zero(net: Net, v: Tensor) -> Tensor:
    """A zero that is filled in becomes a step; a larger value hides that from the scores."""
    some = net.quantized(torch.relu(v), 0.05, 0, least=1)
    again = net.quantized(F.pad(some, (0, 1, 0, 1)), 0.05, 0, least=1)
    return net.quantized(F.max_pool2d(again, 2), 0.05, 0)


def moved(net: Net, v: Tensor) -> Tensor:
    one = net.quantized(v, 0.03, 128)
    two = net.quantized(torch.flatten(one, 1), 0.03, 128)
    three = net.quantized(two.view(-1, 4, 5, 7), 0.03, 128)
    four = net.quantized(three.permute(0, 2, 3, 1), 0.03, 128)
    five = net.quantized(F.max_pool2d(four.permute(0, 3, 1, 2), 1), 0.03, 128)
    return net.quantized(torch.relu(five) + torch.relu(one) + three, 0.08, 100)


def again_and_again(net: Net, v: Tensor) -> Tensor:
    one = net.quantized(torch.relu(v), 0.02, 0)
    two = net.quantized(one, 0.02, 0)
    three = net.quantized(torch.relu(one), 0.03, 0)
    return net.quantized(one + two + three, 0.1, 0)


def a_constant(net: Net, v: Tensor) -> Tensor:
    return net.quantized(v + net.quantized(torch.relu(net.offset), 0.02, 0), 0.04, 100)


def in_half_precision(net: Net, v: Tensor) -> Tensor:
    half = v.bfloat16()
    return net.quantized(torch.relu(half).float() + net.quantized(half, 0.003, 128), 0.05, 100)


def through_a_view(net: Net, v: Tensor) -> Tensor:
    """What is written is read under another name; a ReLU hides from the scores where not."""
    value = net.quantized(v, 0.03, 128)
    value.view(-1, 4, 35).relu_()
    return net.quantized(torch.relu(net.quantized(value, 0.03, 128)), 0.05, 100)


BODIES = [
    a_constant, again_and_again, expanded, in_half_precision, in_line, moved, of_a_constant,
    padded, padded_otherwise, read_twice, shared, through_a_view, viewed, without_zero,
]  # fmt: skip


@pytest.mark.parametrize("detail", ["sqnr", "full"])
@pytest.mark.parametrize("body", BODIES)
def test_numbers_are_those_of_the_files_own_order(
    body: Body, detail: Detail, tmp_path: Path
) -> None:
    model, original = saved(body, tmp_path)
    floats, quantized = (program_of(open_runnable(path)) for path in (original, model))
    run = ProgramJointRun(floats, quantized, pair_programs(floats, quantized), detail=detail)
    programs = run._programs
    found = compare_run(run, images_of(PICTURES))
    assert programs._as_stated == (body is through_a_view)
    programs._as_stated = True
    stated = compare_run(run, images_of(PICTURES))
    assert found.tensors == stated.tensors
    assert_is_eager(found, model, eager(body))
    assert len(found.activations) > 2
    if detail == "sqnr":
        assert any(action.drops for action in programs._actions)


def quantized_twice(net: Net, v: Tensor) -> Tensor:
    """Finely and coarsely, before the same ReLU of the float network."""
    fine, coarse = net.quantized(v, 0.02, 128), net.quantized(v, 0.2, 128)
    one = torch.relu(fine)
    two = torch.relu(coarse) if net.is_quantized else one
    both = net.quantized(one * net.offset, 0.05, 128), net.quantized(two * net.offset, 0.05, 128)
    return net.quantized(both[0] + both[1], 0.1, 128)


def test_a_value_that_is_quantized_twice_is_inherited_from_each(tmp_path: Path) -> None:
    """No weight is quantized here, so none can be to blame."""
    model, original = saved(quantized_twice, tmp_path)
    found = compare(model, images_of(PICTURES), float_model=original)
    scaled = [t.sources for t in found.activations if "mul" in t.name]
    assert len(scaled) == 2
    for sources in scaled:
        assert sources is not None and sources.weights == 0
        assert sources.inherited == pytest.approx(1 - sources.rounding - sources.clipping)


def narrowed(net: Net, v: Tensor) -> Tensor:
    """Twice by one scale and zero-point, once with fewer integers."""
    v = torch.relu(v)
    both = net.quantized(v, 0.05, 0) + net.quantized(v, 0.05, 0, most=20)
    return net.quantized(both, 0.1, 0)


def test_quantizers_of_one_value_with_other_limits_are_two(tmp_path: Path) -> None:
    """Of the first image nothing is clipped, so its scores don't tell the two apart."""
    pictures = PICTURES.copy()
    pictures[0] *= 0.05
    model, original = saved(narrowed, tmp_path)
    found = compare(model, images_of(pictures), float_model=original)
    assert_is_eager(found, model, eager(narrowed, pictures))
    assert len(found.activations) == 5 and found.unseen == found.unpaired == ()
    assert read_network(model).notes[1:] == ("Only 0..20 of uint8 are used for relu.out_2",)


def flattened(net: Net, v: Tensor) -> Tensor:
    """The float network does a ReLU, which the quantizer does here, and has another shape."""
    if net.is_quantized:
        return net.quantized(torch.flatten(v, 1), 0.02, 0).view(-1, 4, 5, 7)
    return net.quantized(torch.relu(v), 0.02, 0)


def one_channel_flattened(net: Net, v: Tensor) -> Tensor:
    v = v.mean(1, keepdim=True)
    if net.is_quantized:
        some = net.quantized(torch.flatten(v, 1), 0.02, 128).view(-1, 1, 5, 7)
    else:
        some = net.quantized(v, 0.02, 128)
    return net.quantized(some.expand(-1, 4, 5, 7) * net.offset, 0.02, 128)


@pytest.mark.parametrize("body", [flattened, one_channel_flattened])
def test_sources_of_what_has_another_shape_in_the_float_network(body: Body, tmp_path: Path) -> None:
    model, original = saved(body, tmp_path)
    found = compare(model, images_of(PICTURES), float_model=original, batch=3)
    expected = eager(body)
    if body is flattened:  # the ReLU is no part of the clipping
        expected[1] = replace(expected[1], b=np.maximum(expected[1].b, 0))
    assert_is_eager(found, model, expected)
    assert all(tensor.sources is not None for tensor in found.activations)
    assert len(found.activations) == len(expected)


def test_values_of_two_shapes_have_no_difference() -> None:
    with pytest.raises(ValueError, match=r"^\(3, 1, 5\) and \(3, 4, 5\) have no difference$"):
        difference(torch.zeros(3, 1, 5), torch.zeros(3, 4, 5))


def test_a_program_that_fails_is_named(tmp_path: Path) -> None:
    model, original = saved(in_line, tmp_path)
    floats, quantized = (program_of(open_runnable(path)) for path in (original, model))
    pairing = pair_programs(floats, quantized)
    for side in ("floats", "quantized"):
        programs = JointPrograms(floats, quantized, pairing, detail="sqnr")
        broken = getattr(programs, side)
        broken.constants["p_conv"] = torch.zeros(4, 2, 3, 3)
        with pytest.raises(BadModelError, match=rf"^{broken.program.name} failed while"):
            programs.run({"x": PICTURES})


@pytest.mark.parametrize("scale", [2.0**-126, 1e-30, 0.035445035, 0.1, 1 / 3, 0.9995117, 7e20])
def test_what_was_quantized_stays_as_it_is(scale: float) -> None:
    """All integers that 16 bits can be apart."""
    apply = _in_floats(scale, -65535, 65535)
    once = torch.arange(-65535, 65536, dtype=torch.float32) * scale
    assert torch.equal(apply(once), once)
