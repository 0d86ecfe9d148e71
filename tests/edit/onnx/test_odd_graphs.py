"""Graphs that other tools write: what is one quantizer there, and how it is changed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from tiny_onnx import constant, model, saved, value
from tiny_qdq import TinyQdq

from quantscope.edit import (
    Edit,
    Editor,
    FlipBit,
    Off,
    OffRole,
    SetChannel,
    SetInteger,
    SetScale,
    SetZeroPoint,
)
from quantscope.errors import BadModelError
from quantscope.model import read_onnx
from quantscope.model.onnx import check_model
from quantscope.run.onnx.sessions import session_of

Array = np.ndarray[Any, Any]
Scores = Callable[..., Array]
X = np.random.default_rng(2).normal(0, 1, (1, 2, 4, 4)).astype(np.float32)


def initializer(proto: onnx.ModelProto, name: str) -> Array:
    return numpy_helper.to_array(next(t for t in proto.graph.initializer if t.name == name))


def kinds(editor: Editor, *edits: Edit) -> dict[str, str]:
    return {change.tensor: change.kind for change in editor.apply(edits).changes}


def node(op: str, inputs: str, output: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op, inputs.split(), [output], name=output, **attributes)


def opened(folder: Path, nodes: list[onnx.NodeProto], **constants: Any) -> Editor:
    parts = [constant(name, array) for name, array in constants.items()]
    given = [value("x", [1, 2, 4, 4])]
    return Editor(saved(model(nodes, parts, inputs=given), folder))


def test_two_quantizers_of_one_value_with_equal_parameters_move_together(
    tmp_path: Path, scores: Scores
) -> None:
    net = TinyQdq((2, 4, 4), batch=1)
    one, two = (net.quantize("x", 0.1, 7, np.uint8, tag=tag) for tag in ("a", "b"))
    net.node("Add", [one, two], "y")
    editor = Editor(net.save(tmp_path, "y"))
    assert kinds(editor, SetScale("x", 0.2)) == {"x": "edit", "x_2": "shared"}
    assert kinds(editor, SetZeroPoint("x_2", 9)) == {"x_2": "edit", "x": "shared"}
    assert np.array_equal(scores(editor.apply([Off("x")]).proto, X), X + X)


def test_two_quantizers_of_one_value_with_other_parameters_stay_apart(tmp_path: Path) -> None:
    net = TinyQdq((2, 4, 4), batch=1)
    one = net.quantize("x", 0.1, 7, np.uint8)
    two = net.quantize("x", 0.001, 0, np.int16, tag="b")
    net.node("Add", [one, two], "y")
    editor = Editor(net.save(tmp_path, "y"))
    assert kinds(editor, SetScale("x", 0.2)) == {"x": "edit"}
    assert kinds(editor, Off("x_2")) == {"x_2": "edit"}


def test_one_quantizer_with_a_pair_for_each_reader_is_one_tensor(
    tmp_path: Path, scores: Scores
) -> None:
    nodes = [node("QuantizeLinear", "x s z", "q")]
    nodes += [node("DequantizeLinear", "q s z", f"d{i}") for i in (1, 2)]
    nodes += [node("Relu", "d1", "r"), node("Add", "r d2", "y")]
    editor = opened(tmp_path, nodes, s=np.float32(0.1), z=np.uint8(100))
    proto = editor.apply([Off("x")]).proto
    assert [n.op_type for n in proto.graph.node] == ["Relu", "Add"]
    assert np.array_equal(scores(proto, X), np.maximum(X, 0) + X)
    assert not proto.graph.initializer


def test_a_zero_point_shared_with_a_stranger_is_stored_a_second_time(tmp_path: Path) -> None:
    nodes = [
        node("QuantizeLinear", "x s1 z", "q1"),
        node("DequantizeLinear", "q1 s1 z", "d1"),
        node("Relu", "d1", "r"),
        node("QuantizeLinear", "r s2 z", "q2"),
        node("DequantizeLinear", "q2 s2 z", "y"),
    ]
    editor = opened(tmp_path, nodes, s1=np.float32(0.1), s2=np.float32(0.2), z=np.int8(0))
    applied = editor.apply([SetZeroPoint("x", 5)])
    assert [change.tensor for change in applied.changes] == ["x"]
    network = read_onnx(saved(applied.proto, tmp_path, "edited.onnx"))
    assert [int(t.params.zero_point) for t in network.tensors] == [5, 0]
    assert initializer(applied.proto, "z") == 0


def test_a_scale_that_two_tensors_have_moves_both_but_not_their_own_zero_points(
    tmp_path: Path,
) -> None:
    nodes = [
        node("QuantizeLinear", "x s z1", "q1"),
        node("DequantizeLinear", "q1 s z1", "d1"),
        node("Relu", "d1", "r"),
        node("QuantizeLinear", "r s z2", "q2"),
        node("DequantizeLinear", "q2 s z2", "y"),
    ]
    editor = opened(tmp_path, nodes, s=np.float32(0.1), z1=np.uint8(9), z2=np.uint8(0))
    names = [tensor.name for tensor in editor.network.tensors]
    assert kinds(editor, SetScale("x", 0.2)) == {"x": "edit", names[1]: "shared"}
    assert kinds(editor, SetZeroPoint("x", 1)) == {"x": "edit"}
    assert kinds(editor, Off("x")) == {"x": "edit"}


@pytest.mark.parametrize("own_scale", [True, False])
def test_integers_that_are_moved_about_keep_their_quantizers_parameters(
    own_scale: bool, tmp_path: Path, scores: Scores
) -> None:
    """Q, MaxPool of integers, DQ; the DQ may have a copy of the scale."""
    second = "s2 z2" if own_scale else "s z"
    nodes = [
        node("QuantizeLinear", "x s z", "q"),
        node("MaxPool", "q", "p", kernel_shape=[2, 2], strides=[2, 2]),
        node("DequantizeLinear", f"p {second}", "y"),
    ]
    constants = {"s": np.float32(0.1), "z": np.uint8(100)}
    if own_scale:
        constants |= {"s2": np.float32(0.1), "z2": np.uint8(100)}
    editor = opened(tmp_path, nodes, **constants)
    assert kinds(editor, SetScale("x", 0.25)) == {"x": "edit", "p.out": "shared"}
    assert kinds(editor, SetScale("p.out", 0.25)) == {"p.out": "edit", "x": "shared"}
    proto = editor.apply([SetScale("p.out", 0.25), SetZeroPoint("p.out", 90)]).proto
    windows = X.reshape(1, 2, 2, 2, 2, 2).max(axis=(3, 5))
    expected = (np.clip(np.rint(windows / np.float32(0.25)) + 90, 0, 255) - 90) * np.float32(0.25)
    assert np.array_equal(scores(proto, X), expected.astype(np.float32))
    off = editor.apply([Off("p.out")]).proto
    assert [n.op_type for n in off.graph.node] == ["MaxPool"]
    check_model(tmp_path, off)
    assert np.array_equal(scores(off, X), windows)


def test_a_zero_point_that_the_file_leaves_out_can_be_set(tmp_path: Path, scores: Scores) -> None:
    nodes = [node("QuantizeLinear", "x s", "q"), node("DequantizeLinear", "q s", "y")]
    editor = opened(tmp_path, nodes, s=np.float32(0.1))
    proto = editor.apply([SetZeroPoint("x", 128)]).proto
    check_model(tmp_path, proto)
    expected = (np.clip(np.rint(X / np.float32(0.1)) + 128, 0, 255) - 128) * np.float32(0.1)
    assert np.array_equal(scores(proto, X), expected.astype(np.float32))


def test_parameters_in_constant_nodes_are_changed_there(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Constant", [], ["s"], name="s", value=constant("", np.float32(0.1))),
        helper.make_node("Constant", [], ["z"], name="z", value=constant("", np.uint8(3))),
        node("QuantizeLinear", "x s z", "q"),
        node("DequantizeLinear", "q s z", "y"),
    ]
    editor = opened(tmp_path, nodes)
    proto = editor.apply([SetScale("x", 0.5), SetZeroPoint("x", 4)]).proto
    check_model(tmp_path, proto)
    values = [numpy_helper.to_array(n.attribute[0].t).item() for n in proto.graph.node[:2]]
    assert values == [0.5, 4]
    assert len(editor.apply([Off("x")]).proto.graph.node) == 1


def test_a_model_of_nothing_but_a_quantizer_becomes_a_copy(tmp_path: Path, scores: Scores) -> None:
    nodes = [node("QuantizeLinear", "x s z", "q"), node("DequantizeLinear", "q s z", "y")]
    editor = opened(tmp_path, nodes, s=np.float32(0.1), z=np.uint8(3))
    proto = editor.apply([Off("x")]).proto
    assert [n.op_type for n in proto.graph.node] == ["Identity"]
    assert np.array_equal(scores(proto, X), X)


def test_two_outputs_of_one_quantizer_both_keep_their_names(tmp_path: Path, scores: Scores) -> None:
    nodes = [
        node("Relu", "x", "r"),
        node("QuantizeLinear", "r s z", "q"),
        node("DequantizeLinear", "q s z", "y"),
        node("DequantizeLinear", "q s z", "y2"),
        node("Neg", "r", "y3"),
    ]
    parts = [constant("s", np.float32(0.1)), constant("z", np.uint8(0))]
    outputs = [value(name, [1, 2, 4, 4]) for name in ("y", "y2", "y3", "r")]
    proto = model(nodes, parts, inputs=[value("x", [1, 2, 4, 4])], outputs=outputs)
    edited = Editor(saved(proto, tmp_path)).apply([Off("r")]).proto
    onnx.checker.check_model(edited, full_check=True)
    assert [o.name for o in edited.graph.output] == ["y", "y2", "y3", "r"]
    found = session_of(edited, "reference").run(None, {"x": X})
    for got, expected in zip(found, (1, 1, -1, 1), strict=True):
        assert np.array_equal(got, expected * np.maximum(X, 0))


def test_branches_that_look_at_a_quantized_value_see_the_float_one(
    tmp_path: Path, scores: Scores
) -> None:
    """The subgraphs of an If read values of the graph around them."""

    def branch(op: str) -> onnx.GraphProto:
        output = value("inner", [1, 2, 4, 4])
        return helper.make_graph([helper.make_node(op, ["d"], ["inner"])], op, [], [output])

    nodes = [
        node("QuantizeLinear", "x s z", "q"),
        node("DequantizeLinear", "q s z", "d"),
        helper.make_node(
            "If", ["yes"], ["y"], name="if", then_branch=branch("Neg"), else_branch=branch("Abs")
        ),
    ]
    editor = opened(tmp_path, nodes, s=np.float32(0.1), z=np.uint8(3), yes=np.bool_(True))
    assert np.array_equal(scores(editor.apply([Off("x")]).proto, X), -X)


def float_weight_quantized(folder: Path) -> Editor:
    """As quantization-aware tools write it: the weight is float and rounded in the graph."""
    weight = np.random.default_rng(4).normal(0, 1, (3, 2, 1, 1)).astype(np.float32)
    nodes = [
        node("QuantizeLinear", "w s z", "wq", axis=0),
        node("DequantizeLinear", "wq s z", "wd", axis=0),
        node("Conv", "x wd", "y"),
    ]
    scales = np.float32([0.02, 0.03, 0.01])
    return opened(folder, nodes, w=weight, s=scales, z=np.zeros(3, np.int8))


def test_a_weight_that_is_rounded_in_the_graph_has_its_float_values(
    tmp_path: Path, scores: Scores
) -> None:
    editor = float_weight_quantized(tmp_path)
    weight = initializer(editor.base, "w")
    applied = editor.apply([SetScale("y.weight", factor=4.0)])
    assert applied.notes == ()
    assert applied.changes[0].integers_changed > 0
    assert np.array_equal(initializer(applied.proto, "w"), weight)
    off = editor.apply([Off("y.weight")])
    assert [n.op_type for n in off.proto.graph.node] == ["Conv"]
    assert np.array_equal(initializer(off.proto, "wd"), weight)


def test_integers_of_a_weight_that_is_rounded_in_the_graph_become_stored_ones(
    tmp_path: Path,
) -> None:
    editor = float_weight_quantized(tmp_path)
    before = editor.network.tensor("y.weight").integers()
    proto = editor.apply([SetInteger("y.weight", (1, 1, 0, 0), 99)]).proto
    check_model(tmp_path, proto)
    assert [n.op_type for n in proto.graph.node] == ["DequantizeLinear", "Conv"]
    now = initializer(proto, "wq")
    assert now[1, 1, 0, 0] == 99 and np.count_nonzero(now != before) == 1


@pytest.mark.parametrize(
    ("kind", "low", "high"),
    [(ml_dtypes.int4, -8, 7), (ml_dtypes.uint4, 0, 15), (np.int16, -32768, 32767)],
)
def test_weights_of_any_width_stay_in_their_type(
    kind: Any, low: int, high: int, tmp_path: Path
) -> None:
    integers = np.arange(6).reshape(3, 2, 1, 1).astype(kind)
    nodes = [node("DequantizeLinear", "wq s", "w"), node("Conv", "x w", "y")]
    editor = opened(tmp_path, nodes, wq=integers, s=np.float32(0.5))
    edits = [
        SetScale("y.weight", 0.25),
        SetChannel("y.weight", 0, (low, high)),
        FlipBit("y.weight", (1, 0, 0, 0), 0),
    ]
    proto = editor.apply(edits).proto
    check_model(tmp_path, proto)
    found = initializer(proto, "wq")
    assert found.dtype == integers.dtype
    rounded = np.clip(np.arange(6) * 2, low, high)
    assert found.astype(int).ravel().tolist() == [low, high, rounded[2] ^ 1, *rounded[3:]]
    path = saved(proto, tmp_path, "edited.onnx")
    assert np.array_equal(read_onnx(path).tensor("y.weight").integers(), found)


def test_the_top_bit_is_the_sign(int8: Editor) -> None:
    place = (0, 0, 0, 0)
    old = int(int8.network.tensor("stem.weight").integers()[place])
    proto = int8.apply([FlipBit("stem.weight", place, 7)]).proto
    assert int(initializer(proto, "stem.weight_quantized")[place]) == old + (
        128 if old < 0 else -128
    )


def test_a_channel_is_an_output_channel_of_the_layer(int8: Editor, tmp_path: Path) -> None:
    proto = int8.apply([SetChannel("stem.weight", 5, 0)]).proto
    weight = initializer(proto, "stem.weight_quantized")
    assert not weight[5].any() and weight[4].any()
    net = TinyQdq((4,), batch=1)
    net.stored("w", np.ones((4, 3), np.int8), np.float32(0.5))
    net.node("MatMul", ["x", "w"], "y")
    editor = Editor(net.save(tmp_path, "y"))
    found = initializer(editor.apply([SetChannel("y.weight", 2, (7, 8, 9, 10))]).proto, "w_q")
    assert found[:, 2].tolist() == [7, 8, 9, 10] and (found[:, :2] == 1).all()


def test_integer_edits_come_last_whatever_their_place(int8: Editor) -> None:
    integer, scale = SetInteger("head.weight", (0, 0), 11), SetScale("head.weight", factor=2.0)
    one, two = int8.apply([integer, scale]).proto, int8.apply([scale, integer]).proto
    assert one.graph == two.graph
    assert initializer(one, "head.weight_quantized")[0, 0] == 11


def test_blocks_scale_by_a_factor(tmp_path: Path) -> None:
    integers = np.arange(8, dtype=np.int8).reshape(4, 2)
    nodes = [
        node("DequantizeLinear", "wq s", "w", axis=0, block_size=2),
        node("Flatten", "x", "f", axis=-1),
        node("Gemm", "f w", "y"),
    ]
    scales = np.float32([[1, 2], [3, 4]])
    editor = opened(tmp_path, nodes, wq=integers, s=scales)
    proto = editor.apply([SetScale("y.weight", factor=2.0)]).proto
    assert np.array_equal(initializer(proto, "s"), scales * 2)
    assert initializer(proto, "wq").ravel().tolist() == [0, 0, 1, 2, 2, 2, 3, 4]  # halves to even


def test_initializers_that_old_files_list_as_inputs_may_go(tmp_path: Path) -> None:
    nodes = [node("QuantizeLinear", "x s z", "q"), node("DequantizeLinear", "q s z", "y")]
    parts = [constant("s", np.float32(0.1)), constant("z", np.uint8(3))]
    given = [value("x", [1, 2, 4, 4]), value("s", []), value("z", [], onnx.TensorProto.UINT8)]
    editor = Editor(saved(model(nodes, parts, inputs=given), tmp_path))
    proto = editor.apply([OffRole("activations")]).proto
    assert [v.name for v in proto.graph.input] == ["x"]
    check_model(tmp_path, proto)


def test_a_quantizer_and_its_reader_may_each_have_a_copy_of_the_parameters(
    tmp_path: Path, scores: Scores
) -> None:
    nodes = [node("QuantizeLinear", "x s1 z1", "q"), node("DequantizeLinear", "q s2 z2", "y")]
    copies = {"s": np.float32(0.1), "z": np.uint8(100)}
    constants = {f"{name}{i}": array for name, array in copies.items() for i in (1, 2)}
    editor = opened(tmp_path, nodes, **constants)
    proto = editor.apply([SetScale("x", 0.25), SetZeroPoint("x", 90)]).proto
    expected = (np.clip(np.rint(X / np.float32(0.25)) + 90, 0, 255) - 90) * np.float32(0.25)
    assert np.array_equal(scores(proto, X), expected.astype(np.float32))


def test_a_tensor_read_with_another_scale_than_it_is_written_with_is_left_alone(
    tmp_path: Path,
) -> None:
    nodes = [node("QuantizeLinear", "x s1 z", "q"), node("DequantizeLinear", "q s2 z", "y")]
    editor = opened(tmp_path, nodes, s1=np.float32(0.1), s2=np.float32(0.2), z=np.uint8(100))
    with pytest.raises(BadModelError) as refused:
        editor.apply([SetScale("x", 0.25)])
    assert str(refused.value) == (
        "x cannot be edited: it is written with one scale or zero-point and read with another"
    )


def test_a_table_is_rounded_again_and_its_rows_move_along(tmp_path: Path) -> None:
    nodes = [node("Gather", "table i", "g"), node("DequantizeLinear", "g s z", "y")]
    table = np.arange(12, dtype=np.int8).reshape(4, 3)
    parts = {"table": table, "s": np.float32(0.1), "z": np.int8(0)}
    given = [value("i", [2], onnx.TensorProto.INT64)]
    proto = model(nodes, [constant(n, a) for n, a in parts.items()], inputs=given)
    editor = Editor(saved(proto, tmp_path))
    weight, rows = editor.network.tensors
    assert (weight.role, rows.role) == ("weight", "activation")
    rows_asked = {"i": np.array([1, 3])}
    real = table[[1, 3]] * np.float32(0.1)
    for name in (weight.name, rows.name):
        applied = editor.apply([SetScale(name, 0.25)])
        assert {change.tensor for change in applied.changes} == {weight.name, rows.name}
        (rounded,) = session_of(applied.proto, "reference").run(None, rows_asked)
        np.testing.assert_array_equal(rounded, np.rint(real * 4) / 4)
    off = editor.apply([OffRole("weights")])
    np.testing.assert_allclose(session_of(off.proto, "reference").run(None, rows_asked)[0], real)
