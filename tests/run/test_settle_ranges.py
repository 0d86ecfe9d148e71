"""Rules for the ranges of activations become numbers that a run of the float network tells."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from comparison_nets import residual
from tiny_qdq import TinyQdq, images_of

from quantscope.edit import Editor, SetBits, SetScale
from quantscope.run import best_ranges, capture, needs_samples, settle_ranges

PICTURES = images_of(np.random.default_rng(2).normal(0, 1, (40, 3, 5, 7)).astype(np.float32))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Editor:
    folder, net = tmp_path_factory.mktemp("small"), residual()
    return Editor(net.save_quantized(folder), net.save_float(folder))


def test_from_end_to_end_is_what_the_float_network_had(small: Editor) -> None:
    (edit,) = settle_ranges(small, [SetBits("branch.out", 4, "minmax")], PICTURES)
    assert small.original is not None
    (seen,) = capture(small.original, PICTURES, ["branch"]).tensors.values()
    values = seen.values
    assert isinstance(edit, SetBits) and isinstance(edit.range, tuple)
    low, high = edit.range
    step = (high - low) / 15
    assert low == pytest.approx(values.min(), abs=step / 2 + 1e-6)
    assert high == pytest.approx(values.max(), abs=step / 2 + 1e-6)


def test_the_best_range_is_the_one_that_was_computed_bit_for_bit(small: Editor) -> None:
    found = best_ranges(small.model, PICTURES, float_model=small.original)
    edits = settle_ranges(small, [SetBits("activations", 3, "best")], found)
    after = {c.tensor: c.after for c in small.preview(edits).changes}
    for each in found.ranges:
        assert after[each.tensor] == each.at_bits(3).best.params


def test_a_layer_and_all_are_spelled_out_and_what_has_no_rule_stays(small: Editor) -> None:
    edits = [SetScale("conv.out", factor=2), SetBits("weights", 4, "best"), SetBits("conv", 4)]
    assert not needs_samples(small, edits)
    assert settle_ranges(small, edits, PICTURES) == tuple(edits)
    made = settle_ranges(small, [SetBits("conv", 4, "best")], PICTURES)
    assert [each.target for each in made if isinstance(each, SetBits)] == [
        "conv.weight",
        "conv.out",
    ]
    whole = settle_ranges(small, [SetBits("all", 5, "best")], PICTURES)
    widths = {c.after.bits for c in small.preview(whole).changes if c.after and c.role != "bias"}
    assert widths == {5}
    assert len(small.preview(whole).changes) == len(small.preview([SetBits("all", 5)]).changes)


def test_activations_that_share_a_scale_get_one_range_over_the_values_of_both(
    tmp_path: Path,
) -> None:
    net = TinyQdq((3, 5, 7))
    x = net.quantize("x", 0.03, 120)
    half = net.node("Mul", [x, net.constant("three", np.float32(3))], "y")
    y = net.quantize(half, 0.09, 120)
    moved = net.node("Reshape", [y, net.constant("flat", np.array([0, -1]))], "z")
    shared = ["y_scale", "y_zero"]
    net.nodes.append(onnx.helper.make_node("QuantizeLinear", [moved, *shared], ["z_q"]))
    net.nodes.append(onnx.helper.make_node("DequantizeLinear", ["z_q", *shared], ["z_dq"]))
    editor = Editor(net.save(tmp_path, "z_dq"))
    groups = {tensor.name: mates for tensor, mates in editor.bit_groups("activations")}
    assert len(groups) == 2 and sum(map(len, groups.values())) == 1
    edits = settle_ranges(editor, [SetBits("activations", 4, "minmax")], PICTURES)
    assert len(edits) == 3  # one for all, and one for each scale
    after = {c.tensor: c.after for c in editor.preview(edits).changes}
    lead, (mate,) = next((name, mates) for name, mates in groups.items() if mates)
    assert after[lead] is not None and after[lead] == after[mate]
    assert float(after[lead].scale) == pytest.approx(3 * np.ptp(PICTURES.images) / 15, rel=0.02)
