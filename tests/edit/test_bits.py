"""Other bits for a tensor, a layer, a role or all, in ONNX models."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from comparison_nets import residual
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import helper
from tiny_qdq import TinyQdq

from quantscope.edit import Edit, Editor, Off, SetBits, SetInteger, SetRange, SetScale, parse_bits
from quantscope.edit.recipe import Recipe
from quantscope.errors import BadConfigError, BadModelError
from quantscope.model import QuantTensor, open_model
from quantscope.model.onnx import check_model
from quantscope.run.onnx.sessions import session_of

Array = np.ndarray[Any, Any]


def tensor_of(path: Path, name: str) -> QuantTensor:
    return next(t for t in open_model(path).network.tensors if t.name == name)


@pytest.mark.parametrize("editor_name", ["int8", "uint8"])
@pytest.mark.parametrize("target", ["all", "weights", "activations", "stem", "stem.out"])
def test_the_bits_that_it_has_leave_the_model_as_it_is(
    editor_name: str, target: str, request: pytest.FixtureRequest
) -> None:
    editor: Editor = request.getfixturevalue(editor_name)
    assert editor.apply([SetBits(target, 8)]).proto.graph == editor.base.graph
    there_and_back = [SetBits(target, 5), SetBits(target, 8)]
    assert editor.apply(there_and_back).proto.graph == editor.base.graph


@pytest.mark.parametrize("bits", [2, 4, 5, 7, 16])
@pytest.mark.parametrize("editor_name", ["int8", "uint8"])
def test_what_is_written_is_read_with_its_bits(
    bits: int, editor_name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    editor: Editor = request.getfixturevalue(editor_name)
    applied = editor.apply([SetBits("stack2.conv1", bits)])
    applied.save(tmp_path / "narrow.onnx")
    changes = {change.tensor: change for change in applied.changes}
    for name in ("stack2.conv1.weight", "stack2.conv1.out"):
        found = tensor_of(tmp_path / "narrow.onnx", name).params
        assert found == changes[name].after
        assert found.bits == bits
    assert changes["stack2.conv1.bias"].kind == "bias follows"
    integers = tensor_of(tmp_path / "narrow.onnx", "stack2.conv1.weight").integers()
    assert abs(integers.astype(int)).max() == 2 ** (bits - 1) - 1


def test_activations_are_clipped_as_integers(int8: Editor, pixels: Array) -> None:
    proto = int8.apply([SetScale("stem.out", factor=0.1), SetBits("stem.out", 4)]).proto
    (integers,) = (node.output[0] for node in proto.graph.node if node.op_type == "Clip")
    kind = helper.make_tensor_value_info(integers, onnx.TensorProto.INT8, None)
    proto.graph.output.append(kind)
    (found,) = session_of(proto, "reference").run([integers], {"input": pixels})
    assert (found.min(), found.max()) == (-8, 7)


def test_weights_of_four_bits_are_stored_in_four(int8: Editor) -> None:
    before, after = int8.base, int8.apply([SetBits("weights", 4)]).proto
    assert {
        t.data_type for t in after.graph.initializer if t.name.endswith("weight_quantized")
    } == {onnx.TensorProto.INT4}
    assert after.ByteSize() < 0.7 * before.ByteSize()
    onnx.checker.check_model(after, full_check=True)


def test_fewer_bits_are_the_plain_quantization_with_fewer_integers(tmp_path: Path) -> None:
    # The oracle is NumPy: round to steps of the new scale, clip to the new ends.
    net = TinyQdq((6,))
    net.quantize("x", 0.05, 10, np.int8)
    net.node("Identity", ["x_dq"], "y")
    applied = Editor(net.save(tmp_path, "y")).apply([SetBits("x", 3)])
    x = np.random.default_rng(3).normal(0, 3, (40, 6)).astype(np.float32)
    scale, zero = np.float32(np.float32(0.05).astype(float) * 255 / 7), -4 + round(138 * 7 / 255)
    want = (np.clip(np.rint(x / scale) + zero, -4, 3) - zero).astype(np.float32) * scale
    for execution in ("reference", "runtime"):
        (found,) = session_of(applied.proto, execution).run(None, {"x": x})  # type: ignore[arg-type]
        assert np.array_equal(found, want)


def test_a_range_is_spread_over_the_integers_in_use(int8: Editor) -> None:
    (change,) = [
        c
        for c in int8.apply(
            [SetBits("stack2.conv1.out", 4), SetRange("stack2.conv1.out", 0, 3)]
        ).changes
        if c.tensor == "stack2.conv1.out"
    ]
    assert change.after is not None and change.after.bits == 4
    assert float(change.after.scale) == pytest.approx(3 / 15)


def test_a_narrow_file_is_edited_on(int8: Editor, tmp_path: Path, pixels: Array) -> None:
    int8.apply([SetBits("activations", 5)]).save(tmp_path / "five.onnx")
    again = Editor(tmp_path / "five.onnx")
    ends = {t.params.ends for t in again.network.tensors if t.role == "activation"}
    assert ends == {(-16, 15)}
    for edits in ([SetBits("activations", 8)], [Off("stem.out")], [SetBits("stem.out", 3)]):
        proto = again.apply(edits).proto
        onnx.checker.check_model(proto, full_check=True)
        assert session_of(proto, "reference").run(None, {"input": pixels})[0].shape == (16, 10)
    ops = [node.op_type for node in again.apply([SetBits("activations", 8)]).proto.graph.node]
    assert "Clip" not in ops


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_any_bits_give_a_model_that_runs(small: Editor, data: Any) -> None:
    names = [t.name for t in small.network.tensors if t.role != "bias"]
    targets = st.sampled_from([*names, "weights", "activations", "all"])
    width = st.sampled_from([2, 3, 4, 5, 6, 7, 8])
    edits: list[Edit] = []
    for _ in range(data.draw(st.integers(1, 5))):
        if data.draw(st.booleans()):
            edits.append(SetBits(data.draw(targets), data.draw(width)))
        else:
            factor = data.draw(st.floats(0.5, 2.0))
            edits.append(SetScale(data.draw(st.sampled_from(names)), factor=factor))
    applied = small.apply(edits)
    check_model(Path("edited.onnx"), applied.proto)
    for execution in ("reference", "runtime"):
        (found,) = session_of(applied.proto, execution).run(None, {"x": X})  # type: ignore[arg-type]
        assert found.shape == (2, 3)
    recipe = Recipe("0" * 64, tuple(edits))
    assert Recipe.from_json(recipe.to_json()) == recipe


X = np.random.default_rng(9).normal(0, 1, (2, 3, 5, 7)).astype(np.float32)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Editor:
    folder = tmp_path_factory.mktemp("small")
    net = residual()
    return Editor(net.save_quantized(folder), net.save_float(folder))


@pytest.mark.parametrize(
    ("edits", "text"),
    [
        ([SetBits("stem.out", 1)], "stem.out: 1 bits are none of the widths 2 to 8 and 16"),
        ([SetBits("stem.bias", 4)], "stem.bias has no bits to set: a bias has the 32"),
        ([SetBits("nowhere", 4)], "No layer or quantized tensor 'nowhere'"),
        (
            [SetBits("stem.weight", 3), SetInteger("stem.weight", (0, 0, 0, 0), 100)],
            "100 does not fit int8, 3 of 8 bits of stem.weight; give an integer from -3 to 3",
        ),
        (
            [SetInteger("stem.weight", (0, 0, 0, 0), 100), SetBits("stem.weight", 3)],
            r"Cannot be, with 3 bits \(-3 to 3\): integer \[0, 0, 0, 0\] of stem.weight = 100",
        ),
    ],
)
def test_what_cannot_be_is_said(int8: Editor, edits: list[Edit], text: str) -> None:
    with pytest.raises((BadConfigError, BadModelError), match=text):
        int8.apply(edits)


def test_what_is_typed_after_bits() -> None:
    assert parse_bits("stem.out=4") == SetBits("stem.out", 4)
    assert parse_bits("all weights = 6") == SetBits("weights", 6)
    for text, why in (("stem.out", "give TARGET=BITS"), ("a=four", "'four' in 'a=four' is not")):
        with pytest.raises(BadConfigError, match=why):
            parse_bits(text)
