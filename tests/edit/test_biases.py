"""A bias counts in steps of input scale times weight scale, after any edit."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from tiny_onnx import constant, model, saved, value, weights
from tiny_qdq import TinyQdq

from quantscope.edit import Editor, Off, SetInteger, SetScale
from quantscope.errors import BadConfigError
from quantscope.model.onnx import check_model

Array = np.ndarray[Any, Any]


def initializer(proto: onnx.ModelProto, name: str) -> Array:
    return numpy_helper.to_array(next(t for t in proto.graph.initializer if t.name == name))


def scale_names(proto: onnx.ModelProto) -> dict[str, str]:
    """For each bias's dequantized name the name of its scale."""
    return {n.output[0]: n.input[1] for n in proto.graph.node if n.op_type == "DequantizeLinear"}


@pytest.mark.parametrize("form", ["qdq", "qoperator"])
@pytest.mark.parametrize("per_channel", [True, False])
def test_a_moved_input_scale_moves_the_bias_as_the_quantizer_would(
    form: str, per_channel: bool, quantized: Callable[..., Path]
) -> None:
    editor = Editor(quantized(format=form, per_channel=per_channel))
    applied = editor.apply([SetScale("stack1.add.out", 0.0625)])
    floats = onnx.load(str(editor.float_path))
    for layer in ("stack2.conv1", "stack2.shortcut"):
        w_scale = editor.network.tensor(f"{layer}.weight").params.scale
        node = next(n for n in convolutions(applied.proto) if n.name.startswith(layer))
        made = next(n for n in applied.proto.graph.node if n.output[0] == node.input[2])
        scale = initializer(applied.proto, made.input[1])
        integers = initializer(applied.proto, made.input[0])
        product = np.float32(0.0625) * w_scale
        assert scale.dtype == np.float32
        assert np.array_equal(scale.reshape(w_scale.shape), product)
        real = initializer(floats, f"{layer}.bias").astype(np.float64)
        assert np.array_equal(integers, np.rint(real / product.astype(np.float64)).astype(np.int32))


def test_the_rule_holds_for_every_tensor_that_can_move(int8: Editor) -> None:
    network = int8.network
    for tensor in network.tensors:
        if tensor.role == "bias":
            continue
        after = {c.tensor: c.after for c in int8.apply([SetScale(tensor.name, factor=1.3)]).changes}
        for layer in network.layers:
            if layer.weight is None or layer.bias is None:
                continue
            x = layer.activations[0].quant
            assert x is not None
            x_now, w_now, b_now = (
                after.get(part.name) or part.params for part in (x, layer.weight, layer.bias)
            )
            assert np.array_equal(b_now.scale, x_now.scale * w_now.scale), (tensor.name, layer.name)


@pytest.mark.parametrize("between", ["MaxPool", "Flatten"])
def test_the_bias_follows_through_layers_that_only_move_numbers(
    between: str, tmp_path: Path
) -> None:
    """Here the convolution reads no quantizer's output itself, but what a layer took from one."""
    net = TinyQdq((4, 6, 6), batch=1)
    x = net.quantize("x", 0.02, 0, np.uint8)
    if between == "MaxPool":
        net.node("MaxPool", [x], "moved", kernel_shape=[2, 2])
        net.stored("w", np.ones((2, 4, 1, 1), np.int8), np.float32([0.5, 0.25]))
    else:
        net.node("Flatten", [x], "moved")
        net.stored("w", np.ones((2, 144), np.int8), np.float32([0.5, 0.25]))
    net.stored("b", np.int32([3, -4]), np.float32([0.01, 0.005]))
    if between == "MaxPool":
        net.node("Conv", ["moved", "w", "b"], "y")
    else:
        net.node("Gemm", ["moved", "w", "b"], "y", transB=1)
    editor = Editor(net.save(tmp_path, "y"))
    proto = editor.apply([SetScale("x", factor=2.0)]).proto
    assert np.array_equal(initializer(proto, "b_scale"), np.float32([0.02, 0.01]))
    assert np.array_equal(initializer(proto, "b_q"), [2, -2])  # 1.5 rounds to even


def test_a_gemms_alpha_is_part_of_its_biass_scale(tmp_path: Path) -> None:
    net = TinyQdq((4,), batch=1)
    x = net.quantize("x", 0.25, 0, np.uint8)
    net.stored("w", np.ones((4, 2), np.int8), np.float32(0.5))
    net.stored("b", np.int32([8, -8]), np.float32(0.25 * 0.5 * 3))
    net.node("Gemm", [x, "w", "b"], "y", alpha=3.0)
    editor = Editor(net.save(tmp_path, "y"))
    applied = editor.apply([SetScale("x", 0.5)])
    assert initializer(applied.proto, "b_scale") == np.float32(0.5 * 0.5 * 3)
    assert np.array_equal(initializer(applied.proto, "b_q"), [4, -4])
    assert not any("integer kernels" in note for note in applied.notes)


def two_readers(folder: Path) -> Path:
    """Two convolutions with inputs of their own that read one bias."""
    net = TinyQdq((2, 3, 3), batch=1)
    one = net.quantize("x", 0.5, 0, np.uint8)
    net.stored("w", np.full((2, 2, 1, 1), 3, np.int8), np.float32(0.5))
    net.stored("b", np.int32([8, -6]), np.float32(0.25))
    net.node("Conv", [one, "w", "b"], "first")
    two = net.quantize("first", 0.5, 10, np.uint8)
    net.node("Conv", [two, "w", "b"], "second")
    return net.save(folder, "second")


def test_a_bias_of_two_layers_is_split_when_their_scales_part(tmp_path: Path) -> None:
    editor = Editor(two_readers(tmp_path))
    proto = editor.apply([SetScale("first.out", 1.0)]).proto
    check_model(tmp_path, proto)
    names = scale_names(proto)
    by_layer = {n.name: initializer(proto, names[n.input[2]]) for n in convolutions(proto)}
    assert by_layer == {"first": np.float32(0.25), "second": np.float32(0.5)}
    moved = editor.apply([SetScale("w", factor=2.0)]).proto
    assert list(moved.graph.node) == list(editor.base.graph.node)


def test_a_bias_of_two_layers_stays_where_an_input_goes_off(tmp_path: Path) -> None:
    editor = Editor(two_readers(tmp_path))
    proto = editor.apply([Off("first.out")]).proto
    check_model(tmp_path, proto)
    assert all(conv.input[2] in scale_names(proto) for conv in convolutions(proto))
    x = np.random.default_rng(0).random((1, 2, 3, 3), np.float32)
    assert np.isfinite(ReferenceEvaluator(proto).run(None, {"x": x})[0]).all()


def convolutions(proto: onnx.ModelProto) -> list[onnx.NodeProto]:
    return [node for node in proto.graph.node if node.op_type == "Conv"]


def test_a_file_that_breaks_the_rule_is_put_right_by_the_edit_and_told(tmp_path: Path) -> None:
    net = TinyQdq((2, 3, 3), batch=1)
    x = net.quantize("x", 0.5, 0, np.uint8)
    net.stored("w", np.ones((2, 2, 1, 1), np.int8), np.float32(0.5))
    net.stored("b", np.int32([8, -6]), np.float32(0.1))
    net.node("Conv", [x, "w", "b"], "y")
    editor = Editor(net.save(tmp_path, "y"))
    applied = editor.apply([SetScale("x", 1.0)])
    assert initializer(applied.proto, "b_scale") == np.float32(0.5)
    assert np.array_equal(initializer(applied.proto, "b_q"), [2, -1])  # 0.8 and -0.6
    assert applied.notes[-1] == (
        "The file's scale of y.bias is not that of x times that of y.weight, "
        "as integer kernels take it to be; it is now"
    )
    kept = editor.apply([SetInteger("y.bias", (0,), 9)])
    assert initializer(kept.proto, "b_scale") == np.float32(0.1)
    assert not any("it is now" in note for note in kept.notes)


def smallest_legal(editor: Editor, edit: SetScale) -> tuple[str, float]:
    with pytest.raises(BadConfigError) as refused:
        editor.apply([edit])
    text = str(refused.value)
    assert "\n" not in text
    found = re.search(r"smallest legal scale of (\S+?)(?: in channel \d+)? is (\S+)$", text)
    assert found, text
    return text, float(found[2])


def test_a_bias_that_would_leave_int32_is_refused_with_the_smallest_legal_scale(
    int8: Editor,
) -> None:
    text, legal = smallest_legal(int8, SetScale("stem.out", 1e-12))
    assert re.match(
        r"The bias of stack1\.conv1 would leave int32 in channel \d+: \S+ in steps of \S+; "
        r"the smallest legal scale of stem\.out is ",
        text,
    )
    integers = int8.apply([SetScale("stem.out", legal)]).proto
    found = np.abs(initializer(integers, "stack1.conv1.bias_quantized").astype(np.int64)).max()
    assert 0.999 * 2**31 < found <= 2**31
    with pytest.raises(BadConfigError, match="would leave int32"):
        int8.apply([SetScale("stem.out", legal * 0.999)])


@pytest.mark.parametrize("name", ["stem.out", "stack2.conv1.out", "stack2.add.out"])
def test_the_next_number_below_the_smallest_legal_scale_is_refused(name: str, int8: Editor) -> None:
    _, legal = smallest_legal(int8, SetScale(name, 1e-12))
    int8.apply([SetScale(name, legal)])
    below = float(np.nextafter(np.float32(legal), np.float32(0)))
    with pytest.raises(BadConfigError, match="would leave int32"):
        int8.apply([SetScale(name, below)])


def test_a_weights_smallest_legal_scale_is_its_channels(int8: Editor) -> None:
    scales = int8.network.tensor("head.weight").params.scale.astype(float)
    scales[4] = 1e-13
    text, legal = smallest_legal(int8, SetScale("head.weight", tuple(scales)))
    assert "in channel 4: " in text and "head.weight in channel 4 is" in text
    scales[4] = legal
    int8.apply([SetScale("head.weight", tuple(scales))])


def test_a_bias_scale_without_a_float32_is_refused(int8: Editor) -> None:
    with pytest.raises(BadConfigError, match=r"The bias of stem would have no finite scale"):
        int8.apply([SetScale("input", 3e38), SetScale("stem.weight", 1e5)])
    with pytest.raises(BadConfigError, match="smallest legal scale of input is"):
        int8.apply([SetScale("stem.weight", 1e-30), SetScale("input", 1e-30)])


def dead_channel(folder: Path) -> Path:
    """What onnxruntime writes for a channel whose weights are all but zero."""
    net = TinyQdq((2, 3, 3), batch=1)
    x = net.quantize("x", 0.01, 0, np.uint8)
    w_scales = np.float32([0.5, 1.5e-38])
    net.stored("w", np.ones((2, 2, 1, 1), np.int8), w_scales)
    net.stored("b", np.int32([8, 0]), np.float32(0.01) * w_scales)
    net.node("Conv", [x, "w", "b"], "y")
    return net.save(folder, "y")


def test_the_bias_of_a_dead_channel_follows_too(tmp_path: Path) -> None:
    """Its denormal scale is not shown, but integer kernels need it right all the same."""
    editor = Editor(dead_channel(tmp_path))
    assert "y.bias" not in {tensor.name for tensor in editor.network.tensors}
    applied = editor.apply([SetScale("x", 0.02)])
    expected = np.float32(0.02) * np.float32([0.5, 1.5e-38])
    assert np.array_equal(initializer(applied.proto, "b_scale"), expected)
    assert np.array_equal(initializer(applied.proto, "b_q"), [4, 0])
    assert [c.tensor for c in applied.changes] == ["x", "y.bias"]


def test_integers_of_a_bias_are_set_after_it_followed(int8: Editor) -> None:
    edits = [SetInteger("stem.bias", (2,), 77), SetScale("input", 2.0)]
    proto = int8.apply(edits).proto
    alone = int8.apply(edits[1:]).proto
    found, others = (initializer(p, "stem.bias_quantized") for p in (proto, alone))
    assert found[2] == 77
    assert np.array_equal(np.delete(found, 2), np.delete(others, 2))


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_a_bias_keeps_its_files_float_type(dtype: type, tmp_path: Path) -> None:
    parts = [
        constant("xs", dtype(0.5)),
        constant("xz", np.uint8(0)),
        constant("wq", np.ones((2, 4), np.int8)),
        constant("ws", dtype(0.25)),
        constant("bq", np.int32([5, -3])),
        constant("bs", dtype(0.125)),
    ]
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "xs", "xz"], ["xq"], name="q"),
        helper.make_node("DequantizeLinear", ["xq", "xs", "xz"], ["xd"], name="d"),
        helper.make_node("DequantizeLinear", ["wq", "ws"], ["w"], name="wd"),
        helper.make_node("DequantizeLinear", ["bq", "bs"], ["b"], name="bd"),
        helper.make_node("Gemm", ["xd", "w", "b"], ["y"], name="gemm", transB=1),
    ]
    proto = model(
        nodes, parts, inputs=[value("x", ["N", 4], kind)], outputs=[value("y", ["N", 2], kind)]
    )
    editor = Editor(saved(proto, tmp_path))
    for edits in ([SetScale("x", 1.0)], [Off("gemm.weight")], [Off("x")]):
        edited = editor.apply(edits).proto
        onnx.checker.check_model(edited, full_check=True)
        x = np.random.default_rng(0).random((3, 4)).astype(dtype)
        assert ReferenceEvaluator(edited).run(None, {"x": x})[0].dtype == dtype
    assert initializer(editor.apply([SetScale("x", 1.0)]).proto, "bs") == dtype(0.25)


def test_weights_without_a_quantized_input_leave_the_bias_its_own_scale(tmp_path: Path) -> None:
    net = TinyQdq((2, 3, 3), batch=1)
    net.stored("w", (weights(2, 2, 1, 1) * 100).astype(np.int8), np.float32(0.5))
    net.stored("b", np.int32([8, -6]), np.float32(0.1))
    net.node("Conv", ["x", "w", "b"], "y")
    editor = Editor(net.save(tmp_path, "y"))
    assert [c.tensor for c in editor.apply([SetScale("y.weight", 1.0)]).changes] == ["y.weight"]
    applied = editor.apply([SetScale("y.bias", 0.2)])
    assert np.array_equal(initializer(applied.proto, "b_q"), [4, -3])
