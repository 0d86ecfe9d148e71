"""Equalization, held against plain NumPy, and against onnxruntime on a network rescaled by hand."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from planted import Plant, Planted, finished, rows

from quantscope.cure import (
    Cure,
    DoesNotApplyError,
    Readings,
    choose_ranges,
    choose_rounding,
    correct_biases,
    equalize,
    take_course,
)
from quantscope.edit import Editor, OffRole, ScaleChannels, SetBits, SetRange
from quantscope.errors import BadModelError
from quantscope.model import open_model
from quantscope.run import WhatIf, compare, evaluate, open_runnable

Array = np.ndarray[Any, Any]
SPREAD = np.geomspace(0.05, 20, 7).astype(np.float32)


def spread_layers(activation: str = "Relu") -> onnx.ModelProto:
    """x[4] -> Gemm -> activation -> Gemm: the channels between differ by a factor of 400."""
    rng = np.random.default_rng(5)
    constants = {
        "w1": rng.uniform(-1, 1, (7, 4)) * SPREAD[:, None],
        "b1": rng.uniform(-0.2, 0.2, 7) * SPREAD,
        "w2": rng.uniform(-1, 1, (3, 7)) / SPREAD,
        "b2": rng.uniform(-0.2, 0.2, 3),
        "slope": np.linspace(0.1, 0.4, 7),
    }
    extra = {"LeakyRelu": {"alpha": 0.2}}.get(activation, {})
    inputs = {"PRelu": ["a", "slope"], "Clip": ["a", "low", "high"]}.get(activation, ["a"])
    ends = {"low": 0.0, "high": 6.0}
    stored = [numpy_helper.from_array(v.astype(np.float32), k) for k, v in constants.items()]
    stored += [numpy_helper.from_array(np.float32(v), k) for k, v in ends.items()]
    nodes = [
        helper.make_node("Gemm", ["x", "w1", "b1"], ["a"], name="first", transB=1),
        helper.make_node(activation, inputs, ["h"], name="between", **extra),
        helper.make_node("Gemm", ["h", "w2", "b2"], ["y"], name="second", transB=1),
    ]
    used = {name for node in nodes for name in node.input}
    return finished(nodes, [each for each in stored if each.name in used], (4,))


def separable() -> onnx.ModelProto:
    """Conv, depthwise Conv, grouped Conv, pooled and flattened into a MatMul."""
    rng = np.random.default_rng(8)

    def drawn(*shape: int) -> Array:
        spread = np.exp(rng.normal(0, 1, (shape[0], *[1] * (len(shape) - 1))))
        return np.asarray(rng.uniform(-1, 1, shape) * spread, np.float32)

    constants = {
        "w1": drawn(6, 3, 3, 3),
        "b1": drawn(6),
        "w2": drawn(6, 1, 3, 3),
        "w3": drawn(8, 3, 1, 1),
        "b3": drawn(8),
        "w4": drawn(8, 5),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c1"], name="conv", pads=[1] * 4),
        helper.make_node("Relu", ["c1"], ["r1"], name="relu"),
        helper.make_node("MaxPool", ["r1"], ["m1"], name="pool", kernel_shape=[2, 2]),
        helper.make_node("Conv", ["m1", "w2"], ["c2"], name="depthwise", group=6),
        helper.make_node("Conv", ["c2", "w3", "b3"], ["c3"], name="grouped", group=2),
        helper.make_node("Relu", ["c3"], ["r3"], name="relu3"),
        helper.make_node("GlobalAveragePool", ["r3"], ["g"], name="mean"),
        helper.make_node("Flatten", ["g"], ["f"], name="flatten"),
        helper.make_node("MatMul", ["f", "w4"], ["y"], name="head"),
    ]
    stored = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    return finished(nodes, stored, (3, 6, 7))


def plant(
    folder: Path, proto: onnx.ModelProto, shape: tuple[int, ...] = (4,), **options: Any
) -> Planted:
    samples, calibration = (rows(60, seed=seed, shape=shape) for seed in (1, 2))
    return Plant(folder).make(
        proto, samples=samples, calibration=calibration, per_channel=False, **options
    )


@pytest.fixture
def planted(tmp_path: Path) -> Planted:
    return plant(tmp_path, spread_layers())


def equalized(planted: Planted) -> Cure:
    return equalize(planted.quantized, planted.calibration, float_model=planted.floats)


def constants_of(path: Path) -> dict[str, Array]:
    return {t.name: numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer}


def scaled(cure: Cure) -> dict[tuple[str, str], Array]:
    found = (edit for edit in cure.edits if isinstance(edit, ScaleChannels))
    return {(edit.first, edit.second): np.array(edit.factors) for edit in found}


def test_factors_and_range_are_what_plain_numpy_finds(planted: Planted) -> None:
    cure = equalized(planted)
    floats = constants_of(planted.floats)
    r1, r2 = np.abs(floats["w1"]).max(axis=1), np.abs(floats["w2"]).max(axis=0)
    wanted = np.sqrt(r1 * r2) / r2
    np.testing.assert_allclose(scaled(cure)["first", "second"], wanted, rtol=1e-6)
    x = planted.calibration.arrays["x"]
    h = np.maximum(x @ floats["w1"].T + floats["b1"], 0) / wanted
    (found,) = (edit for edit in cure.edits if isinstance(edit, SetRange))
    assert (found.tensor, found.lo) == ("first.out", 0.0)
    assert found.hi == pytest.approx(h.max(), rel=1e-5)


def test_the_file_stores_the_rescaled_float_weights_rounded(planted: Planted) -> None:
    editor = Editor(planted.quantized, planted.floats)
    cure = equalize(editor, planted.calibration)
    factors = scaled(cure)["first", "second"]
    floats = constants_of(planted.floats)
    made = planted.quantized.with_name("made.onnx")
    editor.apply(cure.edits).save(made)
    network = open_model(made).network
    wanted = {
        "first.weight": floats["w1"] / factors[:, None],
        "second.weight": floats["w2"] * factors,
        "first.bias": floats["b1"] / factors,
        "second.bias": floats["b2"],
    }
    for name, real in wanted.items():
        tensor = network.tensor(name)
        assert np.abs(tensor.values() - real).max() <= tensor.params.scale.max() * 0.501, name
    largest = np.abs(wanted["first.weight"]).max()
    assert float(network.tensor("first.weight").params.scale) == pytest.approx(largest / 127)


@pytest.mark.parametrize("activation", ["Relu", "LeakyRelu", "PRelu", "Identity"])
def test_the_float_function_stays(tmp_path: Path, activation: str) -> None:
    planted = plant(tmp_path, spread_layers(activation))
    cure = equalized(planted)
    factors = scaled(cure)["first", "second"]
    by_hand = onnx.load(planted.floats)
    divisors = {"w1": 1 / factors[:, None], "b1": 1 / factors, "w2": factors}
    for tensor in by_hand.graph.initializer:
        if tensor.name in divisors:
            values = (numpy_helper.to_array(tensor) * divisors[tensor.name]).astype(np.float32)
            tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    onnx.save(by_hand, tmp_path / "by_hand.onnx")
    off = [OffRole("weights"), OffRole("activations")]
    scales = [edit for edit in cure.edits if isinstance(edit, ScaleChannels)]
    Editor(planted.quantized, planted.floats).apply([*scales, *off]).save(tmp_path / "off.onnx")
    feeds = {"x": planted.calibration.arrays["x"]}
    plain, ours, theirs = (
        open_runnable(path, execution="reference").values(["y"], feeds)["y"]
        for path in (planted.floats, tmp_path / "off.onnx", tmp_path / "by_hand.onnx")
    )
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-6)
    difference = float(np.abs(ours - plain).max())
    assert difference < 1e-5
    assert f"change by at most {difference:.2g} for it" in cure.explanation


def test_it_helps_where_one_scale_has_to_do_for_channels_that_differ(planted: Planted) -> None:
    cure = equalized(planted)
    before, after = (each[-1].sqnr_db for each in (cure.before, cure.after))
    assert before is not None and after is not None
    assert after > before + 10
    course = take_course(
        Editor(planted.quantized, planted.floats),
        {"equalization": equalize},
        planted.calibration,
        planted.samples,
        measure="signal",
    )
    (step,) = course.steps
    assert step.added.delta is not None and step.added.delta > 10


def test_the_exported_model_gives_what_was_shown(planted: Planted, tmp_path: Path) -> None:
    editor = Editor(planted.quantized, planted.floats)
    cure = equalize(editor, planted.calibration)
    shown = WhatIf(editor, planted.samples).answer(cure.edits, full=True).evaluation
    editor.apply(cure.edits).save(tmp_path / "cured.onnx")
    exported = evaluate(tmp_path / "cured.onnx", planted.samples, execution="reference")
    for name, values in shown.outputs.items():
        np.testing.assert_array_equal(exported.outputs[name], values)


def test_errors_are_in_the_float_networks_units(planted: Planted) -> None:
    editor = Editor(planted.quantized, planted.floats)
    cure = equalize(editor, planted.calibration)
    factors = scaled(cure)["first", "second"]
    editor.apply(cure.edits).save(planted.quantized.with_name("cured.onnx"))
    feeds = {"x": planted.calibration.arrays["x"]}
    floats = open_runnable(planted.floats, execution="reference").values(["a"], feeds)["a"]
    cured = open_model(planted.quantized.with_name("cured.onnx"))
    name = cured.network.layer("first").outputs[0].name
    values = open_runnable(cured, execution="reference").values([name], feeds)[name]
    wanted = np.square(values * factors - floats, dtype=np.float64).mean()
    assert cure.after[0].error == pytest.approx(wanted, rel=1e-5)


def test_depthwise_and_grouped_convolutions_settle_together(tmp_path: Path) -> None:
    planted = plant(tmp_path, separable(), (3, 6, 7))
    cure = equalized(planted)
    chosen = scaled(cure)
    assert list(chosen) == [("conv", "depthwise"), ("depthwise", "grouped"), ("grouped", "head")]
    w = {k: v.astype(np.float64) for k, v in constants_of(planted.floats).items()}
    first, second, third = chosen.values()
    conv = np.abs(w["w1"]).max(axis=(1, 2, 3)) / first
    depthwise = np.abs(w["w2"]).max(axis=(1, 2, 3)) * first / second
    by_group = (2, 4, 3)  # groups, outputs of a group, inputs of a group
    grouped = np.abs(w["w3"]).reshape(by_group) / third.reshape(2, 4, 1) * second.reshape(2, 1, 3)
    head = np.abs(w["w4"]).max(axis=1) * third
    np.testing.assert_allclose(conv, depthwise, rtol=1e-3)
    np.testing.assert_allclose(depthwise, grouped.max(axis=1).ravel(), rtol=1e-3)
    np.testing.assert_allclose(grouped.max(axis=2).ravel(), head, rtol=1e-3)
    largest = float(cure.explanation.split("at most ")[1].split(" ")[0])
    assert 0 < largest < 1e-4


def test_cures_after_it_work_in_the_rescaled_network(planted: Planted) -> None:
    readings = Readings(Editor(planted.quantized, planted.floats), planted.calibration)
    first = equalize(readings, planted.calibration)
    ranged = choose_ranges(readings, planted.calibration, targets=["weights"], edits=first.edits)
    rounded = choose_rounding(readings, planted.calibration, edits=first.edits)
    corrected = correct_biases(readings, planted.calibration, edits=first.edits)
    for cure in (ranged, rounded, corrected):
        assert cure.before == first.after
    assert rounded.after[0].error < first.after[0].error
    for before, after in zip(corrected.before, corrected.after, strict=True):
        assert after.shift < max(before.shift / 5, 1e-9)
    with pytest.raises(DoesNotApplyError, match="its channels are rescaled, and its range with it"):
        choose_ranges(readings, planted.calibration, targets=["first.out"], edits=first.edits)


def test_what_lies_between_is_not_compared_in_other_units(planted: Planted) -> None:
    editor = Editor(planted.quantized, planted.floats)
    cure = equalize(editor, planted.calibration)
    sqnr = WhatIf(editor, planted.samples).downstream_sqnr(cure.edits, full=True)
    assert "first.out" not in {tensor.name for tensor in sqnr.tensors}
    (unseen,) = (each for each in sqnr.unseen if each.name == "first.out")
    assert "its channels are rescaled" in unseen.reason


def test_it_says_what_it_does_not_apply_to(tmp_path: Path) -> None:
    clipped = plant(tmp_path, spread_layers("Clip"))
    with pytest.raises(DoesNotApplyError, match=r"quantizer does the work of a Clip to \[0, 6\]"):
        equalized(clipped)
    shaped = plant(tmp_path, spread_layers("Sigmoid"))
    with pytest.raises(DoesNotApplyError, match="and Sigmoid is not rescaled"):
        equalized(shaped)


def test_what_several_layers_read_is_left_as_it_is(tmp_path: Path) -> None:
    proto = spread_layers()
    proto.graph.node.append(helper.make_node("ReduceSum", ["h"], ["s"], name="sum"))
    proto.graph.output.append(helper.make_tensor_value_info("s", onnx.TensorProto.FLOAT, None))
    with pytest.raises((DoesNotApplyError, BadModelError), match="2 layers read what"):
        equalized(plant(tmp_path, proto))


def test_channels_that_are_equal_already_are_left(planted: Planted) -> None:
    editor = Editor(planted.quantized, planted.floats)
    cure = equalize(editor, planted.calibration)
    with pytest.raises(DoesNotApplyError, match="its channels are as large on both sides"):
        equalize(editor, planted.calibration, edits=cure.edits)


@pytest.mark.parametrize("factor", [1.0, 1.273, 1.336])
def test_what_is_symmetric_stays_so(factor: float, tmp_path: Path) -> None:
    proto = spread_layers("LeakyRelu")
    for stored in proto.graph.initializer:
        if stored.name in ("w1", "b1"):
            array = numpy_helper.to_array(stored) * np.float32(factor)
            stored.CopyFrom(numpy_helper.from_array(array, stored.name))
    planted = plant(tmp_path, proto, activations="int8", symmetric_activations=True)
    cure = equalized(planted)
    content = Editor(planted.quantized, planted.floats).apply(cure.edits).to_bytes()
    path = tmp_path / "equalized.onnx"
    path.write_bytes(content)
    for tensor in open_model(path).network.tensors:
        assert not tensor.params.zero_point.any(), tensor.name


def test_a_written_file_goes_on_from_its_rescaled_float_values(
    planted: Planted, tmp_path: Path
) -> None:
    editor = Editor(planted.quantized, planted.floats)
    cure = equalize(editor, planted.calibration)
    editor.apply(cure.edits).save(tmp_path / "cured.onnx")
    written = Editor(tmp_path / "cured.onnx", planted.floats)
    for name in ("first.weight", "second.weight"):
        wanted = editor.float_values(name, cure.edits)
        assert np.array_equal(written.float_values(name), wanted)
    more = SetBits("weights", 5, "best")
    again = written.apply([more])
    again.save(tmp_path / "again.onnx")
    network = open_model(tmp_path / "again.onnx").network
    for name in ("first.weight", "second.weight"):
        assert np.array_equal(
            network.tensor(name).integers(), editor.integers_under([*cure.edits, more], name)
        )
    twice = Editor(tmp_path / "again.onnx", planted.floats)
    assert np.array_equal(twice.float_values("first.weight"), written.float_values("first.weight"))
    shown = Readings(editor, planted.calibration).errors(cure.edits)
    assert Readings(written, planted.calibration).errors([]) == shown


def test_comparing_a_written_file_leaves_other_units_out(planted: Planted, tmp_path: Path) -> None:
    editor = Editor(planted.quantized, planted.floats)
    cure = equalize(editor, planted.calibration)
    editor.apply(cure.edits).save(tmp_path / "cured.onnx")
    found = compare(tmp_path / "cured.onnx", planted.samples, float_model=planted.floats)
    rescaled = {"first.weight", "first.bias", "second.weight", "first.out"}
    assert rescaled.isdisjoint(tensor.name for tensor in found.tensors)
    said = {each.name: each.reason for each in (*found.unpaired, *found.unseen)}
    assert all("its channels are rescaled" in said[name] for name in rescaled)
    assert "second.bias" in {tensor.name for tensor in found.tensors}
    (last,) = (tensor for tensor in found.tensors if tensor.name == "second.out")
    assert (last.sources, last.no_sources) == (
        None,
        "channels of what it is made from are rescaled",
    )
    plain = compare(planted.quantized, planted.samples, float_model=planted.floats)
    assert rescaled <= {tensor.name for tensor in plain.tensors}
