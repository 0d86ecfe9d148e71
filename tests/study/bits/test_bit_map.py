"""The map of scores by the bits of weights and activations."""

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from in_process import run

from quantscope.data import Samples, load_sample
from quantscope.edit import Editor
from quantscope.errors import BadConfigError, BadModelError, QuantscopeError
from quantscope.model import Execution, find_model
from quantscope.quantize import PtqConfig, quantize_onnx
from quantscope.run import evaluate
from quantscope.run.whatif import WhatIf
from quantscope.study.bits import BitMap, bit_map, edits_for, quantize_with_bits

MODEL = "resnet8-int8"


@pytest.fixture(scope="module")
def images() -> Samples:
    return load_sample().take(60)


@pytest.fixture(scope="module")
def found(images: Samples) -> BitMap:
    return bit_map(MODEL, images, weights=[8, 4], activations=[8])


def test_each_cell_is_what_its_exported_model_gives(
    found: BitMap, images: Samples, tmp_path: Path
) -> None:
    for cell in found.cells:
        path = tmp_path / f"{cell.label}.onnx"
        Editor(MODEL).apply(edits_for(cell.weights, cell.activations)).save(path)
        whole = evaluate(path, images, execution="reference")
        assert (cell.score, cell.interval_95) == (whole.score.value, whole.score.interval_95)


def test_the_corners_are_the_model_and_the_float_network(found: BitMap, images: Samples) -> None:
    assert found.weights == (4, 8, None) and found.activations == (8, None)
    plain = evaluate(MODEL, images, execution="reference")
    floats = evaluate("resnet8", images, execution="reference")
    assert found.cell(8, 8).score == plain.accuracy
    assert found.cell(None, None).score == floats.accuracy
    assert found.cell(None, None).delta == 0
    what_if = WhatIf(MODEL, images, quick=len(images))
    effect = what_if.answer(edits_for(4, 8))
    assert effect.against_float is not None
    assert found.cell(4, 8).delta_interval_95 == effect.against_float.interval_95


def test_weights_are_counted_in_their_own_bits(found: BitMap) -> None:
    weights = [t for t in Editor(MODEL).network.tensors if t.role == "weight"]
    count = sum(int(np.prod(t.integers().shape)) for t in weights)
    sizes = {cell.weights: cell.weight_bytes for cell in found.cells}
    assert sizes == {4: count // 2, 8: count, None: 4 * count}


def test_what_is_there_is_not_measured_again(images: Samples, tmp_path: Path) -> None:
    out = tmp_path / "map"
    first = bit_map(MODEL, images.take(8), weights=[8], activations=[8], out=out)
    before = {file.name: file.stat().st_mtime_ns for file in (out / "rows").iterdir()}
    more = bit_map(MODEL, images.take(8), weights=[8, 2], activations=[8], out=out)
    after = {file.name: file.stat().st_mtime_ns for file in (out / "rows").iterdir()}
    assert len(before) == 4 and len(after) == 6 and before.items() <= after.items()
    assert more.cell(8, 8) == first.cell(8, 8)
    (damaged,) = [file for file in (out / "rows").iterdir() if '"W2A8"' in file.read_text()]
    row = json.loads(damaged.read_text())
    del row["score"]["value"]
    damaged.write_text(json.dumps(row))
    again = bit_map(MODEL, images.take(8), weights=[8, 2], activations=[8], out=out)
    assert len(again.damaged) == 1 and again.cell(2, 8) == more.cell(2, 8)
    with pytest.raises(QuantscopeError, match="holds a study of another set of samples"):
        bit_map(MODEL, images.take(9), weights=[8], activations=[8], out=out)


def test_a_model_written_with_those_bits_scores_what_its_cell_says(tmp_path: Path) -> None:
    images = load_sample().take(40)
    config = PtqConfig(calibration_images=8)
    base = quantize_onnx(find_model("resnet8"), tmp_path / "eight.onnx", config).path
    _, applied = quantize_with_bits(
        "resnet8", tmp_path / "W4A6.onnx", config, weight_bits=4, activation_bits=6
    )
    cell = bit_map(base, images, float_model="resnet8", weights=[4], activations=[6]).cell(4, 6)
    assert evaluate(tmp_path / "W4A6.onnx", images, execution="reference").accuracy == cell.score
    assert {change.after.bits for change in applied.changes if change.role == "weight"} == {4}  # type: ignore[union-attr]


def test_a_cell_is_what_the_commands_give_image_by_image(tmp_path: Path) -> None:
    images = load_sample().take(40)
    told = run("quantize", "resnet8", "-o", tmp_path / "eight.onnx", "--calibration-images", 8)
    assert told.returncode == 0, told.stderr
    eight = WhatIf(tmp_path / "eight.onnx", images, float_model="resnet8", quick=len(images))
    for weights, activations in ((4, 6), (None, 5), (2, 8)):
        words = ["--weight-bits", weights or "float", "--activation-bits", activations]
        path = tmp_path / f"{weights}{activations}.onnx"
        told = run("quantize", "resnet8", "-o", path, "--calibration-images", 8, *words)
        assert f"· W{weights or 'float'}A{activations}, " in told.stdout, told.stderr
        found = evaluate(path, images, execution="reference")
        cell = eight.answer(edits_for(weights, activations)).evaluation
        np.testing.assert_array_equal(found.scores, cell.scores)


def test_what_cannot_be_measured_is_said(images: Samples) -> None:
    with pytest.raises(BadModelError, match=r"resnet8\.onnx is a float model; give one of 8 bits"):
        bit_map("resnet8", images)
    with pytest.raises(BadConfigError, match="9 bits for weights are none of the widths"):
        bit_map(MODEL, images, weights=[9])


@pytest.mark.parametrize("execution", ["reference", "runtime"])
def test_four_bit_weights_are_stored_in_four_and_onnxruntime_gives_the_score_shown(
    execution: Execution, images: Samples, tmp_path: Path
) -> None:
    cell = bit_map(MODEL, images, weights=[4], activations=[8], execution=execution).cell(4, 8)
    path = tmp_path / "four.onnx"
    Editor(MODEL).apply(edits_for(4, 8)).save(path)
    options = ort.SessionOptions()
    options.graph_optimization_level = (
        ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        if execution == "reference"
        else ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    )
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    scores = session.run(None, {"input": images.images.astype(np.float32)})[0]
    assert cell.score == (scores.argmax(axis=1) == images.labels).mean()
    stored = {t.name: t.data_type for t in onnx.load(path).graph.initializer}
    assert {kind for name, kind in stored.items() if name.endswith("weight_quantized")} == {
        onnx.TensorProto.INT4
    }


def test_eight_bits_are_the_model_itself_bit_for_bit(tmp_path: Path) -> None:
    applied = Editor(MODEL).apply(edits_for(8, 8))
    assert applied.proto.graph.SerializeToString(deterministic=True) == (
        onnx.load(find_model(MODEL)).graph.SerializeToString(deterministic=True)
    )
    config = PtqConfig(calibration_images=8)
    plain = quantize_onnx(find_model("resnet8"), tmp_path / "plain.onnx", config).path
    quantize_with_bits("resnet8", tmp_path / "eight.onnx", config)
    one, two = (onnx.load(path).graph for path in (plain, tmp_path / "eight.onnx"))
    assert one.SerializeToString(deterministic=True) == two.SerializeToString(deterministic=True)
