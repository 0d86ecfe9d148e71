"""Rounding as a cure: a layer's inputs as rows, whole networks, what it leaves out."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator
from planted import Plant, Planted, convnet, convnet_weights

from quantscope.cure import DoesNotApplyError, choose_rounding, correct_biases
from quantscope.cure.best_rounding import row_errors
from quantscope.cure.gram import Gram, as_rows, from_rows
from quantscope.edit import Editor, Off, SetBits, SetIntegers, unpack_integers
from quantscope.model import Layer, open_model
from quantscope.run import open_runnable

Array = np.ndarray[Any, Any]


def one_layer(op: str, x: Array, w: Array, folder: Path, **attributes: Any) -> tuple[Layer, Any]:
    """A network of one layer, and what it gives for other weights."""
    node = helper.make_node(op, ["x", "w"], ["y"], name="layer", **attributes)
    kind = onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        [node],
        "one",
        [helper.make_tensor_value_info("x", kind, x.shape)],
        [helper.make_tensor_value_info("y", kind, None)],
        [onnx.numpy_helper.from_array(w, "w")],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    path = folder / "one.onnx"
    path.write_bytes(proto.SerializeToString())
    (layer,) = open_model(path).network.layers

    def run(weights: Array) -> Array:
        del proto.graph.initializer[:]
        proto.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
        return np.asarray(ReferenceEvaluator(proto).run(None, {"x": x})[0], np.float64)

    return layer, run


@pytest.mark.parametrize(
    ("op", "shape", "weight", "attributes"),
    [
        ("Conv", (3, 4, 7, 6), (6, 4, 3, 2), {"pads": [1, 0, 2, 1], "strides": [2, 1]}),
        ("Conv", (2, 4, 9, 8), (6, 2, 3, 3), {"group": 2, "dilations": [2, 1]}),
        ("Conv", (2, 5, 6, 6), (5, 1, 3, 3), {"group": 5, "pads": [1] * 4}),
        ("Conv", (3, 2, 11), (4, 2, 3), {"strides": [3]}),
        ("Gemm", (5, 7), (3, 7), {"transB": 1}),
        ("Gemm", (5, 7), (7, 3), {}),
        ("MatMul", (2, 5, 7), (7, 3), {}),
    ],
)
def test_the_error_of_other_weights_follows_from_the_products_of_the_inputs(
    op: str,
    shape: tuple[int, ...],
    weight: tuple[int, ...],
    attributes: dict[str, Any],
    tmp_path: Path,
) -> None:
    rng = np.random.default_rng(1)
    x, w, v = (rng.normal(0, 1, s).astype(np.float32) for s in (shape, weight, weight))
    layer, run = one_layer(op, x, w, tmp_path, **attributes)
    gram = Gram(layer, weight)
    gram.add(x)
    difference = as_rows(layer, (v - w).astype(np.float64))
    axis = 1 if op == "Conv" else -1
    outputs = np.moveaxis(run(v) - run(w), axis, 0)
    wanted = np.square(outputs.reshape(len(outputs), -1)).sum(axis=1)
    found = [row_errors(rows, gram.products[g]) for g, rows in enumerate(difference)]
    np.testing.assert_allclose(np.concatenate(found), wanted, rtol=1e-4)
    assert np.array_equal(from_rows(layer, as_rows(layer, w), weight), w)


def narrow(path: Path) -> None:
    """Give the weights 3 bits, in the file itself."""
    path.write_bytes(Editor(path).apply([SetBits("weights", 3)]).to_bytes())


@pytest.fixture
def planted(tmp_path: Path) -> Planted:
    return Plant(tmp_path).make(convnet(convnet_weights()), change=narrow)


@pytest.fixture
def editor(planted: Planted) -> Editor:
    return Editor(planted.quantized, planted.floats)


def test_outputs_are_nearer_on_samples_that_were_not_looked_at(
    editor: Editor, planted: Planted, tmp_path: Path
) -> None:
    cure = choose_rounding(editor, planted.calibration)
    assert [t.where for t in cure.treated] == ["conv1.weight", "conv2.weight", "head.weight"]
    editor.apply(cure.edits).save(tmp_path / "rounded.onnx")
    feeds = {"x": planted.samples.arrays["x"]}
    before, after, wanted = (
        open_runnable(path, execution="reference").run(feeds)["y"]
        for path in (planted.quantized, tmp_path / "rounded.onnx", planted.floats)
    )
    assert np.square(after - wanted).mean() < np.square(before - wanted).mean() / 2


def test_the_integers_that_are_told_are_those_of_the_edit(editor: Editor, planted: Planted) -> None:
    cure = choose_rounding(editor, planted.calibration)
    for edit, told in zip(cure.edits, cure.treated, strict=True):
        assert isinstance(edit, SetIntegers)
        stored = editor.network.tensor(edit.tensor).integers().astype(int).ravel()
        new = unpack_integers(edit.packed, stored.size)
        assert np.count_nonzero(new != stored) == told.numbers["integers_changed"] > 0
        assert np.abs(new - stored).max() == 1


def test_a_model_that_is_rounded_so_is_left_as_it_is(editor: Editor, planted: Planted) -> None:
    cure = choose_rounding(editor, planted.calibration)
    with pytest.raises(DoesNotApplyError, match="no rounding that was found is better"):
        choose_rounding(editor, planted.calibration, edits=cure.edits)


def test_it_takes_the_bits_in_force_and_biases_are_corrected_on_top(
    editor: Editor, planted: Planted
) -> None:
    cure = choose_rounding(editor, planted.calibration, edits=[SetBits("weights", 2)])
    for edit in cure.edits:
        assert isinstance(edit, SetIntegers)
        size = editor.network.tensor(edit.tensor).integers().size
        assert np.abs(unpack_integers(edit.packed, size)).max() <= 2
    in_force = (*cure.in_force, *cure.edits)
    assert correct_biases(editor, planted.calibration, edits=in_force).before == cure.after


def test_what_cannot_be_rounded_is_left_out_with_the_reason(
    editor: Editor, planted: Planted
) -> None:
    cure = choose_rounding(editor, planted.calibration, edits=[Off("conv1.weight")])
    assert {e.where: e.why for e in cure.left_out} == {"conv1": "its weights are off"}
    off = [Off(name) for name in ("conv1.weight", "conv2.weight", "head.weight")]
    with pytest.raises(DoesNotApplyError, match=r"does not apply to .*: its weights are off"):
        choose_rounding(editor, planted.calibration, edits=off)
