"""Bias correction, held against plain NumPy on a network of two layers."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from planted import (
    Plant,
    Planted,
    constant,
    convnet,
    convnet_weights,
    finished,
    rewritten,
    rows,
    set_constant,
)

from quantscope.arithmetic import QuantParams, dequantize, quantize
from quantscope.cure import Cure, DoesNotApplyError, Readings, correct_biases
from quantscope.edit import Editor, OffRole, SetBits, ShiftBias
from quantscope.model import open_model
from quantscope.run import open_runnable

Array = np.ndarray[Any, Any]


def two_layers(*, bias: bool = True) -> onnx.ModelProto:
    """x[4] -> Gemm -> ReLU -> Gemm."""
    rng = np.random.default_rng(5)
    shapes = {"w1": (7, 4), "b1": (7,), "w2": (3, 7), "b2": (3,)}
    constants = [
        numpy_helper.from_array(rng.normal(0, 0.6, shape).astype(np.float32), name)
        for name, shape in shapes.items()
    ]
    nodes = [
        helper.make_node("Gemm", ["x", "w1", *["b1"] * bias], ["a"], name="first", transB=1),
        helper.make_node("Relu", ["a"], ["h"], name="relu"),
        helper.make_node("Gemm", ["h", "w2", *["b2"] * bias], ["y"], name="second", transB=1),
    ]
    return finished(nodes, constants, (4,))


def narrow(path: Path) -> None:
    """Give the weights 3 bits, in the file itself."""
    path.write_bytes(Editor(path).apply([SetBits("weights", 3)]).to_bytes())


@pytest.fixture
def planted(tmp_path: Path) -> Planted:
    samples, calibration = (rows(50, seed=seed, shape=(4,)) for seed in (1, 2))
    return Plant(tmp_path).make(
        two_layers(), change=narrow, samples=samples, calibration=calibration
    )


def corrected(planted: Planted) -> Cure:
    return correct_biases(planted.quantized, planted.calibration, float_model=planted.floats)


def test_every_shift_is_what_plain_numpy_finds_layer_after_layer(planted: Planted) -> None:
    network = open_model(planted.quantized).network
    stored = {t.name: t for t in network.tensors}
    w1, w2 = (stored[f"{name}.weight"].values().astype(np.float64) for name in ("first", "second"))
    b1, b2 = (stored[f"{name}.bias"].values().astype(np.float64) for name in ("first", "second"))
    floats = {t.name: numpy_helper.to_array(t) for t in onnx.load(planted.floats).graph.initializer}

    def through(values: Array, params: QuantParams) -> Array:
        return dequantize(quantize(values.astype(np.float32), params), params).astype(np.float64)

    x = planted.calibration.arrays["x"].astype(np.float64)
    float_a = x @ floats["w1"].T + floats["b1"]
    float_y = np.maximum(float_a, 0) @ floats["w2"].T + floats["b2"]
    a = through(x, stored["x"].params) @ w1.T + b1
    first = (float_a - a).mean(axis=0)
    step = stored["first.bias"].params.scale.astype(np.float64)
    corrected_a = a + np.rint(first / step) * step
    y = through(corrected_a, stored["first.out"].params) @ w2.T + b2
    second = (float_y - y).mean(axis=0)
    found = corrected(planted).edits
    assert [edit.tensor for edit in found if isinstance(edit, ShiftBias)] == [
        "first.bias",
        "second.bias",
    ]
    for edit, wanted in zip(found, (first, second), strict=True):
        assert isinstance(edit, ShiftBias)
        assert np.abs(wanted).max() > 1e-3
        # A value between two integers may round either way in float32: one step of one sample.
        np.testing.assert_allclose(edit.by, wanted, atol=2e-4)


def test_no_shift_is_left_but_what_rounding_the_bias_leaves(planted: Planted) -> None:
    cure = corrected(planted)
    for before, after in zip(cure.before, cure.after, strict=True):
        assert after.shift < before.shift / 100
        assert before.error == pytest.approx(before.shift + before.scatter)


def test_the_exported_model_has_the_errors_that_were_shown(
    planted: Planted, tmp_path: Path
) -> None:
    editor = Editor(planted.quantized, planted.floats)
    cure = correct_biases(editor, planted.calibration)
    editor.apply(cure.edits).save(tmp_path / "cured.onnx")
    exported = Readings(Editor(tmp_path / "cured.onnx", planted.floats), planted.calibration)
    assert exported.errors([]) == cure.after


def test_the_mean_of_a_convolution_is_that_over_samples_and_places(tmp_path: Path) -> None:
    planted = Plant(tmp_path).make(convnet(convnet_weights()), change=narrow)
    cure = corrected(planted)
    floats, quantized = (
        open_runnable(path, execution="reference") for path in (planted.floats, planted.quantized)
    )
    feeds = {"x": planted.calibration.arrays["x"]}
    name = open_model(planted.quantized).network.layers[0].outputs[0].name
    wanted = floats.values(["c1"], feeds)["c1"] - quantized.values([name], feeds)[name]
    (edit,) = (e for e in cure.edits if isinstance(e, ShiftBias) and e.tensor == "conv1.bias")
    np.testing.assert_allclose(edit.by, wanted.mean(axis=(0, 2, 3)), atol=1e-5)


def test_edits_in_force_are_built_on_and_not_given_again(planted: Planted) -> None:
    editor = Editor(planted.quantized, planted.floats)
    in_force = (SetBits("weights", 2), *corrected(planted).edits)
    cure = correct_biases(editor, planted.calibration, edits=in_force)
    assert cure.in_force == in_force
    assert not set(cure.edits) & set(in_force)
    # Other bits move the means again, and that is what is taken out.
    assert cure.after[-1].shift < cure.before[-1].shift / 100


def test_a_model_without_biases_is_refused_with_the_reason(tmp_path: Path) -> None:
    samples = rows(20, seed=2, shape=(4,))
    planted = Plant(tmp_path).make(
        two_layers(bias=False), samples=samples, calibration=samples, per_channel=False
    )
    with pytest.raises(DoesNotApplyError, match="none of its 2 layers with weights has a quant"):
        corrected(planted)


def test_a_model_that_is_corrected_already_has_nothing_to_correct(planted: Planted) -> None:
    editor = Editor(planted.quantized, planted.floats)
    everything_off = [OffRole("weights"), OffRole("activations")]
    with pytest.raises(DoesNotApplyError, match="no channel is shifted by half a step"):
        correct_biases(editor, planted.calibration, edits=everything_off)


def test_a_shift_counts_in_the_steps_that_the_bias_has_not_in_those_of_the_sums(
    tmp_path: Path,
) -> None:
    def coarse(proto: onnx.ModelProto) -> None:
        """Let the first layer's bias count in steps 64 times those of its sums."""
        node = next(n for n in proto.graph.node if n.name == "first")
        dequantize = next(n for n in proto.graph.node if n.output[0] == node.input[2])
        integers, scale = dequantize.input[:2]
        set_constant(proto, integers, np.rint(constant(proto, integers) / 64) + 5)
        set_constant(proto, scale, constant(proto, scale) * 64)

    plant = Plant(tmp_path, samples=rows(16, seed=1, shape=(4,)))
    planted = plant.make(
        two_layers(),
        change=rewritten(coarse),
        calibration=rows(32, seed=2, shape=(4,)),
    )
    cure = corrected(planted)
    step = Editor(planted.quantized).network.tensor("first.bias").params.scale.max()
    assert cure.before[0].shift > step**2 and cure.after[0].shift < (step / 2) ** 2
