"""Quantization switched off, tensor by tensor, layer by layer, all of a role, and on again."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from comparison_nets import residual
from onnx import helper
from tiny_onnx import constant, model, saved, value, weights
from tiny_qdq import TinyQdq

from quantscope.edit import Editor, Off, OffRole, On, OnRole, SetScale, SetZeroPoint
from quantscope.errors import BadModelError

Array = np.ndarray[Any, Any]
Scores = Callable[..., Array]


def ops(proto: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in proto.graph.node]


ALL_OFF = [OffRole("activations"), OffRole("weights")]


@pytest.mark.parametrize(
    ("form", "activations"),
    [("qdq", "int8"), ("qdq", "uint8"), ("qdq", "int16"), ("qoperator", "uint8")],
)
def test_everything_off_is_the_float_model(
    form: str, activations: str, quantized: Callable[..., Path], pixels: Array, scores: Scores
) -> None:
    editor = Editor(quantized(activations=activations, format=form))
    applied = editor.apply(ALL_OFF)
    floats = onnx.load(str(editor.float_path))
    assert np.array_equal(scores(applied.proto, pixels), scores(floats, pixels))
    assert sorted(ops(applied.proto)) == sorted(ops(floats))
    assert all(change.after is None for change in applied.changes)
    assert len(applied.changes) == len(editor.network.tensors)
    onnx.checker.check_model(applied.proto, full_check=True)


def test_an_activations_quantizer_leaves_and_its_readers_take_the_float_value(
    int8: Editor,
) -> None:
    before, after = int8.base, int8.apply([Off("stack1.conv2.out")]).proto
    gone = {"stack1.conv2.out_QuantizeLinear", "stack1.conv2.out_DequantizeLinear"}
    names = {node.name for node in before.graph.node} - {node.name for node in after.graph.node}
    assert names == gone
    add = next(node for node in after.graph.node if node.name == "stack1.add")
    assert add.input[1] == "stack1.conv2.out"
    left = {tensor.name for tensor in after.graph.initializer}
    assert not left & {"stack1.conv2.out_scale", "stack1.conv2.out_zero_point"}


@pytest.mark.parametrize("target", ["stem.out", "stack1.add.out"])
def test_the_relu_that_a_quantizer_replaced_comes_back(
    target: str, int8: Editor, pixels: Array, scores: Scores
) -> None:
    """Without it every image would look like another."""
    applied = int8.apply([Off(target)])
    assert ops(applied.proto).count("Relu") == 1
    assert applied.notes[0] == f"The ReLU that the quantizer of {target} replaced is put back"
    base = scores(int8.base, pixels)
    agreement = scores(applied.proto, pixels).argmax(axis=1) == base.argmax(axis=1)
    assert agreement.mean() > 0.9
    added = [n for n in applied.proto.graph.node if n.op_type == "Relu"]
    assert added[0].name in {"stem.relu", "stack1.relu2"}


def test_a_weight_off_is_the_float_weight(int8: Editor) -> None:
    applied = int8.apply([Off("stem.weight")])
    floats = {t.name: t for t in onnx.load(str(int8.float_path)).graph.initializer}
    now = {t.name: t for t in applied.proto.graph.initializer}
    arrays = [
        onnx.numpy_helper.to_array(t)
        for t in (floats["stem.weight"], now["stem.weight_DequantizeLinear_Output"])
    ]
    assert np.array_equal(*arrays)
    assert not {"stem.weight_quantized", "stem.weight_scale", "stem.weight_zero_point"} & set(now)


@pytest.mark.parametrize("target", ["stem.weight", "input"])
def test_only_what_is_named_goes_off_so_the_bias_stays_as_it_is(target: str, int8: Editor) -> None:
    """Also where a scale that it counts in moved before: there is no rule to follow any more."""
    base = {t.name: t for t in int8.base.graph.initializer}
    for edits in ([Off(target)], [SetScale(target, factor=2.0), Off(target)]):
        applied = int8.apply(edits)
        assert [change.tensor for change in applied.changes] == [target]
        now = {t.name: t for t in applied.proto.graph.initializer}
        for name in ("stem.bias_quantized", "stem.bias_quantized_scale"):
            assert now[name] == base[name]


def test_a_bias_goes_off_when_it_is_named(int8: Editor) -> None:
    applied = int8.apply([Off("stem.bias")])
    now = {t.name: t for t in applied.proto.graph.initializer}
    floats = {t.name: t for t in onnx.load(str(int8.float_path)).graph.initializer}
    bias = onnx.numpy_helper.to_array(now["stem.bias"])
    assert np.array_equal(bias, onnx.numpy_helper.to_array(floats["stem.bias"]))


def test_a_layer_is_its_weight_its_bias_and_its_output(int8: Editor) -> None:
    applied = int8.apply([Off("stack2.conv2")])
    named = {change.tensor for change in applied.changes if change.kind == "edit"}
    assert named == {"stack2.conv2.weight", "stack2.conv2.bias", "stack2.conv2.out"}


def test_values_that_are_only_moved_go_off_together(int8: Editor) -> None:
    """Quantizing the flattened values alone would quantize the very same numbers."""
    applied = int8.apply([Off("pool.out")])
    kinds = {change.tensor: change.kind for change in applied.changes}
    assert kinds == {"pool.out": "edit", "flatten.out": "shared"}


def test_on_takes_off_back(int8: Editor) -> None:
    for edits in (
        [Off("stem"), On("stem")],
        [*ALL_OFF, OnRole("weights"), OnRole("activations")],
        [Off("pool.out"), On("flatten.out")],
        [OffRole("weights"), OnRole("weights"), OnRole("activations")],
    ):
        assert int8.apply(edits).proto.graph == int8.base.graph


def test_one_layer_can_be_left_on_alone(int8: Editor) -> None:
    applied = int8.apply([*ALL_OFF, On("stack2.conv1")])
    kept = [name for name in (n.name for n in applied.proto.graph.node) if "quant" in name.lower()]
    assert kept == [
        "stack2.conv1.bias_DequantizeLinear",
        "stack2.conv1.weight_DequantizeLinear",
        "stack2.relu1.out_QuantizeLinear",
        "stack2.relu1.out_DequantizeLinear",
    ]


def test_the_models_output_keeps_its_name(int8: Editor, pixels: Array, scores: Scores) -> None:
    applied = int8.apply([Off("head.out")])
    assert [o.name for o in applied.proto.graph.output] == ["logits"]
    head = next(node for node in applied.proto.graph.node if node.name == "head")
    assert list(head.output) == ["logits"]
    onnx.checker.check_model(applied.proto, full_check=True)
    step = float(int8.network.tensor("head.out").params.scale)
    gap = np.abs(scores(applied.proto, pixels) - scores(int8.base, pixels))
    assert gap.max() <= step / 2 * 1.001


def test_a_network_that_is_no_resnet_goes_off_to_its_float_original(
    tmp_path: Path, scores: Scores
) -> None:
    net = residual()
    editor = Editor(net.save_quantized(tmp_path), net.save_float(tmp_path))
    x = np.random.default_rng(3).normal(0, 1, (5, 3, 5, 7)).astype(np.float32)
    floats = scores(onnx.load(tmp_path / "float.onnx"), x)
    assert np.array_equal(scores(editor.apply(ALL_OFF).proto, x), floats)


def test_without_a_float_model_weights_are_what_the_integers_stand_for(
    tmp_path: Path, scores: Scores
) -> None:
    net = residual()
    editor = Editor(net.save_quantized(tmp_path))
    applied = editor.apply([OffRole("weights")])
    assert applied.notes == (
        "No float model is known for branch.weight, conv.weight, head.weight: "
        "what the integers stand for is taken as the float values",
    )
    x = np.random.default_rng(3).normal(0, 1, (5, 3, 5, 7)).astype(np.float32)
    assert np.array_equal(scores(applied.proto, x), scores(editor.base, x))


def test_without_a_float_model_a_folded_relu_is_a_guess_that_is_told(
    tmp_path: Path, scores: Scores
) -> None:
    net = residual()
    alone = Editor(net.save_quantized(tmp_path))
    applied = alone.apply([Off("conv.out")])
    assert applied.notes == (
        "No float model says whether the quantizer of conv.out, which clips negatives, replaced a "
        "ReLU; one is put in its place",
    )
    known = Editor(tmp_path / "quantized.onnx", net.save_float(tmp_path))
    x = np.random.default_rng(3).normal(0, 1, (5, 3, 5, 7)).astype(np.float32)
    assert np.array_equal(scores(applied.proto, x), scores(known.apply([Off("conv.out")]).proto, x))


def clip_models(folder: Path, *, opset: int = 13) -> tuple[Path, Path]:
    """Conv and a Clip to [0, 6]; quantized, the quantizer does the Clip."""
    rng = np.random.default_rng(7)
    w, b = weights(4, 3, 3, 3) * 4, rng.normal(0, 1, 4).astype(np.float32)
    conv = helper.make_node("Conv", ["x", "w", "b"], ["c"], name="conv")
    parts = [constant("w", w), constant("b", b)]
    if opset < 11:
        clip = helper.make_node("Clip", ["c"], ["y"], name="clip", min=0.0, max=6.0)
    else:
        parts += [constant("lo", np.float32(0)), constant("hi", np.float32(6))]
        clip = helper.make_node("Clip", ["c", "lo", "hi"], ["y"], name="clip")
    floats = saved(model([conv, clip], parts, opset=opset), folder, "float.onnx")
    tiny = TinyQdq((3, 5, 7))
    tiny.stored("w", np.clip(np.rint(w / 0.03), -128, 127).astype(np.int8), np.float32(0.03))
    tiny.constant("b", b)
    tiny.node("Conv", ["x", "w", "b"], "conv")
    quant = tiny.save(folder, tiny.quantize("conv", 6 / 255, 0, np.uint8), "q.onnx")
    proto = onnx.load(quant)
    proto.opset_import[0].version = opset
    return floats, saved(proto, folder, "q.onnx")


@pytest.mark.parametrize("opset", [10, 13])
def test_a_clip_comes_back_with_both_its_ends(opset: int, tmp_path: Path, scores: Scores) -> None:
    """An old opset keeps them as attributes."""
    floats, quant = clip_models(tmp_path, opset=opset)
    editor = Editor(quant, floats)
    applied = editor.apply(ALL_OFF)
    assert "The Clip to [0, 6] that the quantizer of conv.out replaced is put back" in applied.notes
    x = np.random.default_rng(1).normal(0, 2, (3, 3, 5, 7)).astype(np.float32)
    assert np.array_equal(scores(applied.proto, x), scores(onnx.load(floats), x))
    assert scores(applied.proto, x).max() == 6


def test_without_a_float_model_a_range_that_ends_at_six_is_taken_for_a_relu6(
    tmp_path: Path, scores: Scores
) -> None:
    floats, quant = clip_models(tmp_path)
    applied, known = (
        editor.apply([Off("conv.out")]) for editor in (Editor(quant), Editor(quant, floats))
    )
    assert "replaced a Clip to [0, 6]; one is put in its place" in applied.notes[0]
    x = np.random.default_rng(1).normal(0, 2, (3, 3, 5, 7)).astype(np.float32)
    assert np.array_equal(scores(applied.proto, x), scores(known.proto, x))


@pytest.mark.parametrize(
    ("edit", "text"),
    [
        (
            SetZeroPoint("stem.out", -88),
            "stem.out would let negative values through, down to",
        ),
        (SetScale("stem.out", factor=9.0), None),
        (SetZeroPoint("stack1.conv2.out", 0), None),
        (SetZeroPoint("input", 0), None),
    ],
)
def test_letting_negatives_through_a_folded_relu_is_a_warning(
    edit: SetZeroPoint | SetScale, text: str | None, int8: Editor
) -> None:
    warnings = int8.apply([edit]).warnings
    assert [w.tensor for w in warnings] == ([edit.tensor] if text else [])
    if text:
        assert warnings[0].text.startswith(text)
        assert warnings[0].text.endswith("its quantizer does the work of a ReLU")


def test_letting_more_through_a_clip_than_it_clips_to_is_a_warning(tmp_path: Path) -> None:
    floats, quant = clip_models(tmp_path)
    editor = Editor(quant, floats)
    (warning,) = editor.apply([SetScale("conv.out", factor=2.0)]).warnings
    assert warning.text == (
        "conv.out would let values above 6 through: its quantizer does the work of a Clip to [0, 6]"
    )
    assert editor.apply([SetScale("conv.out", factor=0.5)]).warnings == ()


def test_integers_that_leave_or_enter_the_model_cannot_go_off(tmp_path: Path) -> None:
    q = helper.make_node("QuantizeLinear", ["x", "s", "z"], ["y"], name="q")
    parts = [constant("s", np.float32(0.1)), constant("z", np.uint8(3))]
    out = [value("y", ["N", 3, 5, 7], onnx.TensorProto.UINT8)]
    editor = Editor(saved(model([q], parts, outputs=out), tmp_path))
    with pytest.raises(BadModelError, match="the model gives its integers as an output"):
        editor.apply([Off("x")])
    d = helper.make_node("DequantizeLinear", ["x", "s", "z"], ["y"], name="d")
    given = [value("x", ["N", 3, 5, 7], onnx.TensorProto.UINT8)]
    editor = Editor(saved(model([d], parts, inputs=given), tmp_path))
    with pytest.raises(BadModelError, match="it comes into the model as uint8"):
        editor.apply([Off("x")])
    notes = editor.apply([OffRole("activations")]).notes
    assert notes[0].startswith("x stays quantized: ")
