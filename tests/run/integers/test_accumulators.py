"""Accumulator bits against brute force, and predicted saturation against onnxruntime."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
import typer
from tiny_qdq import TinyQdq, images_of
from typer.testing import CliRunner

import small_networks
from quantscope.cli import accumulators as accumulators_command
from quantscope.data import load_sample
from quantscope.errors import BadModelError, StoppedError
from quantscope.report import saturation_view
from quantscope.run import evaluate
from quantscope.run.cpu import saturates_8bit_products
from quantscope.run.integers.accumulators import accumulators
from quantscope.run.integers.saturation import predict_saturation

x86_only = pytest.mark.skipif(
    saturates_8bit_products() is not True, reason="needs an x86 CPU with AVX2 and without VNNI"
)
SAMPLE = load_sample().take(20)


def product(folder: Path, weights: np.ndarray, bias: np.ndarray, zero_point: int = 0) -> Path:
    """x [N, 1, 1, K] times integer weights [K, M]."""
    graph = TinyQdq((1, 1, len(weights)))
    x = graph.quantize("x", 1.0, zero_point)
    f = graph.quantize(graph.node("Flatten", [x], "f"), 1.0, zero_point)
    w = graph.stored("w", weights.astype(np.int8), 1.0)
    b = graph.stored("b", bias.astype(np.int32), 1.0)
    graph.node("Gemm", [f, w, b], "y")
    return graph.save(folder, graph.quantize("y", 1000.0, 100))


def test_the_worst_case_is_reached_and_not_passed(tmp_path: Path) -> None:
    weights = np.array([[127, -3], [-128, 50], [5, 0]])
    path = product(tmp_path, weights, np.array([1000, -7]), zero_point=10)
    # For each column the inputs that push it up, and those that push it down.
    high = np.where(weights.T > 0, 255, 0)
    images = np.concatenate([high, 255 - high]).astype(np.float32) - 10
    (row,) = accumulators(path, images_of(images.reshape(4, 1, 1, 3))).layers
    sums = (images @ weights + np.array([1000, -7])).astype(int)
    assert (row.worst_low, row.worst_high) == (sums.min(), sums.max())
    assert (row.measured_low, row.measured_high) == (sums.min(), sums.max())
    assert row.worst_bits == row.measured_bits == 17
    assert (row.layer, row.terms, row.worst_channel) == ("y", 3, 0)
    # 255 * 127 alone fits 16 bits, 255 * (127 + 5) would not; -128 stands beside 127.
    assert (row.pairs, row.saturable_pairs) == (2, 0)


def test_pairs_that_can_saturate_are_counted(tmp_path: Path) -> None:
    weights = np.array([[127, 60, -70], [2, 68, -59], [127, 127, 127]])
    (row,) = accumulators(
        product(tmp_path, weights, np.zeros(3)), images_of(np.zeros((1, 1, 1, 3), np.float32))
    ).layers
    # 255 * 129 and -255 * 129 leave 16 bits, 255 * 128 does not.
    assert (row.pairs, row.saturable_pairs) == (3, 2)


def test_a_bias_near_overflow_is_said(tmp_path: Path) -> None:
    bias = np.array([2**31 - 1, 5])
    path = product(tmp_path, np.ones((3, 2), np.int8), bias)
    (row,) = accumulators(path, images_of(np.ones((1, 1, 1, 3), np.float32))).layers
    assert (row.bias_bits, row.bias_at_limit) == (32, 1)
    assert row.bias_near_overflow and row.can_overflow_int32
    assert row.measured_high == 2**31 + 2 and row.measured_bits == 33
    path = product(tmp_path, np.ones((3, 2), np.int8), np.array([2**28, -5]))
    (row,) = accumulators(path, images_of(np.ones((1, 1, 1, 3), np.float32))).layers
    assert row.bias_bits == 30 and row.bias_near_overflow and not row.can_overflow_int32


@pytest.mark.parametrize("format", ["qdq", "qoperator"])
def test_real_images_stay_within_the_worst_case(
    format: str, quantized: Callable[..., Path]
) -> None:
    found = accumulators(quantized(activations="uint8", format=format), SAMPLE)
    assert [row.layer for row in found.layers][-2:] == ["pool", "head"]
    assert len(found.layers) == 11 and found.images == 20
    for row in found.layers:
        assert row.worst_low is not None and row.worst_high is not None
        assert row.worst_low <= row.measured_low < row.measured_high <= row.worst_high
        assert row.worst_bits is not None and row.measured_bits <= row.worst_bits <= 24
    assert {name for name, _ in found.skipped} == {"stack1.add", "stack2.add", "stack3.add"}


def test_both_formats_have_the_same_accumulators(quantized: Callable[..., Path]) -> None:
    one, two = (
        accumulators(quantized(activations="uint8", format=f), SAMPLE.take(3)).layers
        for f in ("qdq", "qoperator")
    )
    assert one == two


def test_measuring_can_be_stopped(quantized: Callable[..., Path]) -> None:
    def stop(what: str, done: int, total: int) -> None:
        raise StoppedError(f"{what} stopped at {done} of {total}")

    with pytest.raises(StoppedError, match="stopped at 20 of 20"):
        accumulators(quantized(activations="uint8"), SAMPLE, progress=stop)


def test_models_without_integers_get_one_line(tmp_path: Path) -> None:
    with pytest.raises(BadModelError, match=r"resnet8\.onnx is a float model"):
        accumulators("resnet8", SAMPLE)
    graph = TinyQdq((1, 2, 2))
    s = graph.node("Sigmoid", [graph.quantize("x", 0.1, 3)], "s")
    path = graph.save(tmp_path, graph.quantize(s, 0.1, 0))
    with pytest.raises(BadModelError, match=r"No convolution, .* of tiny.onnx is all integers"):
        accumulators(path, images_of(np.zeros((1, 1, 2, 2), np.float32)))


@x86_only
@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("format", ["qdq", "qoperator"])
def test_predicted_scores_are_onnxruntimes_bit_for_bit(
    per_channel: bool, format: str, quantized: Callable[..., Path]
) -> None:
    path = quantized(activations="uint8", per_channel=per_channel, format=format)
    found = predict_saturation(path, SAMPLE)
    shipped = evaluate(path, SAMPLE, execution="runtime")
    np.testing.assert_array_equal(found.predicted_scores, shipped.scores)
    assert found.equal_rows == 20
    assert found.predicted_accuracy == found.measured_accuracy == shipped.accuracy
    assert not np.array_equal(found.predicted_scores, found.exact_scores)


def test_the_prediction_tells_which_layers_saturate(quantized: Callable[..., Path]) -> None:
    found = predict_saturation(quantized(activations="uint8", per_channel=True), SAMPLE.take(5))
    stem = found.layers[0]
    assert stem.layer == "stem"
    assert stem.pairs == 5 * 16 * 32 * 32 * 13
    assert 0 < stem.saturated_pairs < stem.pairs
    assert 0 < stem.changed_outputs < stem.outputs == 5 * 16 * 32 * 32
    assert stem.largest_steps > 10
    json.dumps(found.to_dict(), allow_nan=False)


def test_seven_bit_weights_saturate_nothing(quantized: Callable[..., Path]) -> None:
    path = quantized(activations="uint8", reduce_range=True)
    found = predict_saturation(path, SAMPLE.take(5))
    assert found.layers and not any(row.saturated_pairs for row in found.layers)
    np.testing.assert_array_equal(found.exact_scores, found.predicted_scores)
    assert len(found.changed) == 0
    rows = accumulators(path, SAMPLE.take(1)).layers
    assert sum(row.saturable_pairs or 0 for row in rows) == 0


def test_int8_kernels_saturate_nothing(quantized: Callable[..., Path]) -> None:
    found = predict_saturation(quantized(activations="int8"), SAMPLE.take(5), int8_kernels=True)
    assert found.layers == () and found.float_layers == ()
    np.testing.assert_array_equal(found.exact_scores, found.predicted_scores)
    assert found.equal_rows in (None, 5)


@x86_only
def test_int8_layers_that_run_as_uint8_are_predicted_too(quantized: Callable[..., Path]) -> None:
    path = quantized(activations="int8", per_channel=True)
    found = predict_saturation(path, SAMPLE, int8_kernels=False)
    assert "head" in {row.layer for row in found.layers} and "stem" in found.float_layers
    # Layers left to float may round a tie the other way.
    assert found.equal_rows is not None and found.equal_rows >= 12


def test_saturation_is_predicted_without_labels_too(tmp_path: Path) -> None:
    path = small_networks.quantized("detector", "qdq-uint8", tmp_path)
    found = predict_saturation(path, "random:3")
    assert found.labels is None and found.predicted_accuracy is None
    differ = (found.exact_scores != found.predicted_scores).any(axis=1)
    assert list(found.changed) == list(np.flatnonzero(differ))
    assert found.equal_rows in (None, 3)
    text = "\n".join(line.text for line in saturation_view(found))
    if differ.any():
        noise = found.exact_scores - found.predicted_scores
        expected = 10 * np.log10((found.exact_scores**2).sum() / (noise**2).sum())
        assert found.sqnr_db == pytest.approx(expected, abs=1e-3)
        assert f"leave the output an SQNR of {found.sqnr_db:.2f} dB" in text
    else:
        assert "change no output" in text
    recurrent = small_networks.quantized("recurrent", "qdq-uint8", tmp_path)
    assert predict_saturation(recurrent, "random:4").images == 4


@x86_only
def test_nameless_nodes_are_predicted_as_well(
    tmp_path: Path, quantized: Callable[..., Path]
) -> None:
    model = onnx.load(quantized(activations="uint8"))
    for node in model.graph.node:
        node.name = ""
    path = tmp_path / "nameless.onnx"
    onnx.save(model, path)
    assert predict_saturation(path, SAMPLE.take(3)).equal_rows == 3


def test_the_command_shows_bits_and_the_prediction(quantized: Callable[..., Path]) -> None:
    app = typer.Typer()
    app.command()(accumulators_command.command)
    options = [str(quantized(activations="uint8")), "--images", "3", "--predict-saturation"]
    shown = CliRunner().invoke(app, options, env={"COLUMNS": "100"})
    assert shown.exit_code == 0, shown.output
    assert "stack3.conv2" in shown.output and "bits that the accumulator needs" in shown.output
    assert "on x86 without VNNI, 3 images: predicted accuracy" in shown.output
    result = json.loads(CliRunner().invoke(app, [*options, "--json"]).stdout)
    assert result["layers"][0]["layer"] == "stem"
    assert result["saturation"]["images"] == 3
