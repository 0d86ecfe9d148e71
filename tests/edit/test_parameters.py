"""Scales, zero-points and ranges: what an edit states is what the new file says."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from quantscope.arithmetic.affine import params_from_range
from quantscope.edit import (
    Applied,
    Change,
    Editor,
    Off,
    On,
    SetInteger,
    SetRange,
    SetScale,
    SetZeroPoint,
    apply,
)
from quantscope.model import read_onnx
from quantscope.run import kernel_map

Array = np.ndarray[Any, Any]


def constant(proto: onnx.ModelProto, name: str) -> Array:
    return numpy_helper.to_array(next(t for t in proto.graph.initializer if t.name == name))


def change(applied: Applied, tensor: str) -> Change:
    return next(change for change in applied.changes if change.tensor == tensor)


def test_apply_leaves_its_input_unchanged(int8: Editor) -> None:
    path = int8.model.path
    before, base = path.read_bytes(), int8.base.SerializeToString(deterministic=True)
    applied = int8.apply([SetScale("stem.weight", factor=2.0), Off("stem.out"), Off("head")])
    assert applied.proto is not int8.base
    assert path.read_bytes() == before
    assert int8.base.SerializeToString(deterministic=True) == base


def test_the_same_edits_give_the_same_bytes() -> None:
    edits = [SetScale("stack1.conv1.weight", factor=1.7), Off("stack2.add.out")]
    assert apply("resnet8-int8", edits).to_bytes() == apply("resnet8-int8", edits).to_bytes()


def test_no_edits_give_the_file_itself(int8: Editor) -> None:
    assert int8.base == onnx.load(int8.model.path)
    assert int8.apply([]).changes == ()


def test_what_an_edit_does_not_reach_keeps_its_bytes(int8: Editor) -> None:
    """Nodes all of them, constants all but the tensor's own and the following bias's."""
    edited = int8.apply([SetScale("stack2.add.out", factor=1.5)]).proto.graph
    before = int8.base.graph
    assert list(edited.node) == list(before.node)
    old = {tensor.name: tensor.SerializeToString() for tensor in before.initializer}
    new = {tensor.name: tensor.SerializeToString() for tensor in edited.initializer}
    assert list(old) == list(new)
    assert {name for name in new if new[name] != old[name]} == {
        "stack2.relu2.out_scale",
        "stack3.conv1.bias_quantized",
        "stack3.conv1.bias_quantized_scale",
        "stack3.shortcut.bias_quantized",
        "stack3.shortcut.bias_quantized_scale",
    }


def test_a_scale_is_written_where_the_tensor_has_it(int8: Editor) -> None:
    applied = int8.apply([SetScale("stem.out", 0.125)])
    assert constant(applied.proto, "stem.relu.out_scale") == np.float32(0.125)
    found = change(applied, "stem.out")
    assert found.kind == "edit" and found.role == "activation"
    assert found.after is not None and float(found.after.scale) == 0.125
    assert found.before == int8.network.tensor("stem.out").params


def test_the_names_of_the_file_are_understood(int8: Editor) -> None:
    edits = [SetScale("stem.relu.out_DequantizeLinear_Output", 0.125)]
    assert int8.apply(edits).changes == int8.apply([SetScale("stem.out", 0.125)]).changes


def test_a_factor_multiplies_what_is_there_by_then(int8: Editor) -> None:
    applied = int8.apply([SetScale("stem.out", 0.5), SetScale("stem.out", factor=3.0)])
    assert constant(applied.proto, "stem.relu.out_scale") == np.float32(1.5)


def test_the_later_edit_of_one_thing_counts(int8: Editor) -> None:
    edits = [SetRange("stem.out", 0, 7.0), SetScale("stem.out", 0.25), SetScale("stem.out", 0.5)]
    applied = int8.apply(edits)
    assert constant(applied.proto, "stem.relu.out_scale") == np.float32(0.5)


@pytest.mark.parametrize("model", ["int8", "uint8"])
def test_a_weights_new_scale_rounds_the_float_weights(
    model: str, request: pytest.FixtureRequest
) -> None:
    editor: Editor = request.getfixturevalue(model)
    real = constant(onnx.load(str(editor.float_path)), "stack1.conv1.weight")
    scales = (np.abs(real).max(axis=(1, 2, 3)) / 90).astype(np.float32)
    applied = editor.apply([SetScale("stack1.conv1.weight", tuple(scales.tolist()))])
    by_hand = np.clip(np.rint(real / scales[:, None, None, None]), -128, 127).astype(np.int8)
    assert np.array_equal(constant(applied.proto, "stack1.conv1.weight_quantized"), by_hand)
    base = constant(editor.base, "stack1.conv1.weight_quantized")
    found = change(applied, "stack1.conv1.weight")
    assert found.integers_changed == np.count_nonzero(by_hand != base)


def test_only_the_channels_that_move_are_rounded_anew(int8: Editor) -> None:
    tensor = int8.network.tensor("head.weight")
    scales = tensor.params.scale.astype(float)
    scales[3] *= 2
    applied = int8.apply([SetScale("head.weight", tuple(scales))])
    changed = constant(applied.proto, "head.weight_quantized") != tensor.integers()
    assert changed[3].any() and not np.delete(changed, 3, axis=0).any()
    biases = constant(applied.proto, "head.bias_quantized")
    assert list(np.flatnonzero(biases != int8.network.tensor("head.bias").integers())) == [3]


def test_what_the_quantizer_stored_is_what_rounding_gives(
    quantized: Callable[..., Path],
) -> None:
    """So an edit there and back changes nothing, not even a single integer."""
    for choices in ({"activations": "int8"}, {"activations": "uint8", "per_channel": True}):
        editor = Editor(quantized(**choices))
        for tensor in editor.network.tensors:
            if tensor.role == "weight":
                there_and_back = [
                    SetScale(tensor.name, factor=3.0),
                    SetScale(tensor.name, tuple(tensor.params.scale.ravel().astype(float))),
                ]
                assert editor.apply(there_and_back).changes == ()


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16"])
def test_a_range_gives_onnxruntimes_scale_and_zero_point(
    dtype: str, quantized: Callable[..., Path]
) -> None:
    from onnxruntime.quantization.quant_utils import (
        compute_scale_zp,
        get_qmin_qmax_for_qType,
    )

    editor = Editor(quantized(activations=dtype))
    applied = editor.apply([SetRange("stack1.conv2.out", -3.25, 7.5)])
    after = change(applied, "stack1.conv2.out").after
    kind = {"int8": 3, "uint8": 2, "int16": 5, "uint16": 4}[dtype]
    low, high = get_qmin_qmax_for_qType(kind)
    zero_point, scale = compute_scale_zp(np.float32(-3.25), np.float32(7.5), low, high)
    assert after is not None
    assert int(after.zero_point) == int(zero_point)
    assert float(after.scale) == pytest.approx(float(scale), rel=1e-6)


def test_a_weights_range_keeps_its_zero_point_at_zero(int8: Editor) -> None:
    applied = int8.apply([SetRange("stem.weight", -0.01, 0.05)])
    after = change(applied, "stem.weight").after
    assert after is not None
    assert not after.zero_point.any()
    assert (after.scale == params_from_range(-0.05, 0.05, "int8", symmetric=True).scale).all()
    assert any("keeps it" in note for note in applied.notes)


def test_unsigned_weights_take_any_range(quantized: Callable[..., Path]) -> None:
    editor = Editor(quantized(activations="uint8", weights="uint8", per_channel=False))
    after = change(editor.apply([SetRange("stem.weight", -0.01, 0.05)]), "stem.weight").after
    assert after == params_from_range(-0.01, 0.05, "uint8")


def test_weights_that_were_not_plainly_rounded_are_told(int8: Editor, tmp_path: Path) -> None:
    """Learned rounding, or an edit: what it gained is lost in the channels that move."""
    path = tmp_path / "learned.onnx"
    int8.apply([SetInteger("head.weight", (0, 0), 99), SetInteger("head.weight", (1, 0), 99)]).save(
        path
    )
    editor = Editor(path)
    scales = editor.network.tensor("head.weight").params.scale.astype(float)
    scales[0] *= 2
    applied = editor.apply([SetScale("head.weight", tuple(scales))])
    assert applied.notes == (
        "2 integers of head.weight are not the nearest to its float values in the file; "
        "where the parameters move, they are now",
    )
    now = constant(applied.proto, "head.weight_quantized")
    assert now[0, 0] != 99 and now[1, 0] == 99


def test_a_weights_new_zero_point_moves_its_integers(int8: Editor) -> None:
    applied = int8.apply([SetZeroPoint("head.weight", 5)])
    old = int8.network.tensor("head.weight").integers().astype(int)
    new = constant(applied.proto, "head.weight_quantized")
    assert np.array_equal(new, np.clip(old + 5, -128, 127))
    assert np.array_equal(constant(applied.proto, "head.weight_zero_point"), np.full(10, 5))


def test_weights_that_are_symmetric_no_more_are_warned_about(
    int8: Editor, quantized: Callable[..., Path]
) -> None:
    (warning,) = int8.apply([SetZeroPoint("stem.weight", 5)]).warnings
    assert warning.tensor == "stem.weight"
    assert "stem.weight has a zero-point other than 0" in warning.text
    assert int8.apply([SetZeroPoint("stem.weight", 0)]).warnings == ()
    never = Editor(quantized(activations="uint8", weights="uint8", per_channel=False))
    assert never.network.tensor("stem.weight").params.zero_point.any()
    assert never.apply([SetZeroPoint("stem.weight", 100)]).warnings == ()


def test_tensors_of_one_scale_move_together_and_are_named(int8: Editor) -> None:
    """onnxruntime gives a Flatten's output the parameters of its input."""
    applied = int8.apply([SetScale("flatten.out", factor=2.0)])
    kinds = {change.tensor: change.kind for change in applied.changes}
    assert kinds == {"flatten.out": "edit", "pool.out": "shared", "head.bias": "bias follows"}
    assert change(applied, "pool.out").after == change(applied, "flatten.out").after


def test_an_edit_that_changes_nothing_says_so(int8: Editor) -> None:
    scale = float(int8.network.tensor("stem.out").params.scale)
    applied = int8.apply([SetScale("stem.out", scale)])
    assert applied.notes == (
        f"Changes nothing, it is so already: scale of stem.out = {scale:g}",
        "The edits leave the model as it is",
    )
    assert applied.changes == ()
    assert int8.apply([On("stem")]).notes[0].endswith("stem quantized again")


def test_edits_of_a_tensor_that_is_off_say_so_and_return_with_it(int8: Editor) -> None:
    edits = [SetScale("stem.out", 0.5), Off("stem.out")]
    applied = int8.apply(edits)
    assert "stem.out is switched off, so its other edits have no effect" in applied.notes
    assert change(applied, "stem.out").after is None
    back = int8.apply([*edits, On("stem.out")])
    assert back.proto.graph == int8.apply(edits[:1]).proto.graph


def test_reading_the_new_file_finds_the_changes(int8: Editor, tmp_path: Path) -> None:
    edits = [SetScale("stem.out", 0.25), SetZeroPoint("stack1.conv2.out", 7), Off("head.weight")]
    applied = int8.apply(edits)
    path = tmp_path / "edited.onnx"
    applied.save(path)
    network = read_onnx(path)
    found = {tensor.name: tensor.params for tensor in network.tensors}
    for each in applied.changes:
        assert found.get(each.tensor) == each.after


@pytest.mark.parametrize("form", ["qdq", "qoperator"])
@pytest.mark.parametrize("per_channel", [True, False])
@pytest.mark.parametrize("activations", ["int8", "uint8"])
def test_layers_stay_in_integer_kernels_after_scale_edits(
    form: str, per_channel: bool, activations: str, quantized: Callable[..., Path], tmp_path: Path
) -> None:
    """A bias whose scale is not s_x * s_w would drop its layer to float, and nobody would know."""
    editor = Editor(quantized(activations=activations, per_channel=per_channel, format=form))
    editor.apply([]).save(tmp_path / "base.onnx")
    edits = [
        SetScale(tensor.name, factor=1.1)
        for tensor in editor.network.tensors
        if tensor.role != "bias" and tensor.name != "flatten.out"
    ]
    editor.apply(edits).save(tmp_path / "edited.onnx")
    before, after = (
        kernel_map(tmp_path / name, int8_kernels=True) for name in ("base.onnx", "edited.onnx")
    )
    assert [layer.kernel for layer in after.layers] == [layer.kernel for layer in before.layers]
    assert after.integer_layers >= 10


def test_a_range_as_wide_as_float32_allows_is_taken_without_a_warning_of_numpy(
    int8: Editor,
) -> None:
    after = change(int8.apply([SetRange("stem.out", -3e38, 3e38)]), "stem.out").after
    assert after is not None
    np.testing.assert_allclose(after.scale, 6e38 / 255, rtol=1e-6)
