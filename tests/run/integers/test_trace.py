"""A traced value against the executed one, place by place, and what a person is told of it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from tiny_qdq import TinyQdq, images_of
from typer.testing import CliRunner

from quantscope.arithmetic import fixed_point_multiplier
from quantscope.cli import trace as trace_command
from quantscope.data import load_sample
from quantscope.errors import BadConfigError, BadDataError, BadModelError
from quantscope.model import load_onnx, read_onnx
from quantscope.model.onnx import open_graph
from quantscope.quantize import LayerOverride
from quantscope.report.trace_text import trace_text
from quantscope.run.capture.capture import capture
from quantscope.run.cpu import saturates_8bit_products
from quantscope.run.integers.accumulators import accumulators
from quantscope.run.integers.compute import compute, operands_of
from quantscope.run.integers.layer import IntegerLayer, integer_layer
from quantscope.run.integers.saturation import predict_saturation
from quantscope.run.integers.trace import Trace, trace_value
from quantscope.run.integers.trace_terms import take_apart

x86_only = pytest.mark.skipif(
    saturates_8bit_products() is not True, reason="needs an x86 CPU with AVX2 and without VNNI"
)
RNG = np.random.default_rng(11)
ONE = load_sample().select([7])


def spec_of(path: Path, layer: str) -> IntegerLayer:
    network = read_onnx(path)
    return integer_layer(network, open_graph(load_onnx(path)), network.layer(layer))


def integers_at(spec: IntegerLayer, path: Path, images: Any) -> tuple[list[Any], np.ndarray]:
    """The layer's operands and its output in reference execution."""
    assert spec.output is not None
    found = capture(path, images, [*spec.activations, spec.output.name])
    values = {name: found[name].integers for name in spec.activations}
    output = found[spec.output.name].integers
    assert output is not None
    return operands_of(spec, values), output


def rounded(spec: IntegerLayer, steps: Any) -> int:
    assert spec.output is not None
    params = spec.output.params
    kept = max(round(steps), 0) if spec.relu else round(steps)
    return int(np.clip(kept + int(params.zero_point), params.qmin, params.qmax))


LAYERS = {
    "stem": (5, 0, 31),
    "stack2.conv1": (30, 15, 15),
    "stack2.shortcut": (1, 3, 4),
    "stack3.add": (60, 7, 0),
    "pool": (9, 0, 0),
    "head": (3,),
}


@pytest.mark.parametrize("activations", ["uint8", "int8"])
@pytest.mark.parametrize("layer", LAYERS)
def test_a_traced_integer_is_the_executed_one(
    activations: str, layer: str, quantized: Callable[..., Path]
) -> None:
    path = quantized(activations=activations, per_channel=True)
    spec = spec_of(path, layer)
    operands, output = integers_at(spec, path, ONE)
    exact = compute(spec, operands, spec.output)
    difference = np.abs(exact.astype(int) - output)
    assert difference.max() <= 1 and (difference > 0).mean() < 0.01
    parts = take_apart(spec, operands, LAYERS[layer], spec.output)
    assert rounded(spec, parts.exact_steps) == exact[(0, *LAYERS[layer])]
    if parts.sum is not None:
        assert parts.sum == sum(term.product for term in parts.terms)
        assert all(
            t.product == t.x_centred * (1 if t.w_centred is None else t.w_centred)
            for t in parts.terms
        )


def conv(folder: Path, **attributes: Any) -> Path:
    """Odd channels, two groups, zero-points off the middle, one scale per output channel."""
    graph = TinyQdq((6, 7, 5))
    x = graph.quantize("x", 0.03, 77)
    scales = np.array([0.01, 0.02, 0.004, 0.03], np.float32)
    w = graph.stored("w", RNG.integers(-127, 128, (4, 3, 3, 2)).astype(np.int8), scales)
    b = graph.stored("b", RNG.integers(-900, 900, 4).astype(np.int32), np.float32(0.03) * scales)
    graph.node("Conv", [x, w, b], "y", group=2, **attributes)
    return graph.save(folder, graph.quantize("y", 0.11, 101))


GEOMETRIES: list[dict[str, Any]] = [
    {"pads": [2, 1, 0, 3], "strides": [2, 1], "dilations": [1, 2]},
    {"auto_pad": "SAME_UPPER", "strides": [3, 2]},
    {"dilations": [2, 1]},
]


@pytest.mark.parametrize("attributes", GEOMETRIES)
def test_every_place_of_a_convolution_comes_apart_rightly(
    attributes: dict[str, Any], tmp_path: Path
) -> None:
    path = conv(tmp_path, **attributes)
    images = images_of(RNG.normal(0, 2, (1, 6, 7, 5)).astype(np.float32))
    spec = spec_of(path, "y")
    operands, output = integers_at(spec, path, images)
    seen_padding = False
    for place in np.ndindex(*output.shape[1:]):
        parts = take_apart(spec, operands, place, spec.output)
        tie = abs(parts.exact_steps % 1 - 0.5)
        if tie > 1e-4:
            assert rounded(spec, parts.exact_steps) == output[(0, *place)], place
        for term in parts.terms:
            if term.is_padding:
                seen_padding = True
                assert (term.x, term.product) == (77, 0)
            else:
                assert term.x == operands[0][(0, *term.at)]
        assert {term.at[0] // 3 for term in parts.terms} == {place[0] // 2}
    assert seen_padding == ("dilations" not in attributes or "pads" in attributes)


@pytest.mark.parametrize("include_pad", [0, 1])
def test_every_place_of_an_average_pool_comes_apart_rightly(
    include_pad: int, tmp_path: Path
) -> None:
    graph = TinyQdq((2, 6, 5))
    x = graph.quantize("x", 0.03, 100)
    facts = {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 1, 1, 0]}
    graph.node("AveragePool", [x], "y", count_include_pad=include_pad, **facts)
    path = graph.save(tmp_path, graph.quantize("y", 0.013, 9))
    spec = spec_of(path, "y")
    images = images_of(RNG.normal(0, 2, (1, 2, 6, 5)).astype(np.float32))
    operands, output = integers_at(spec, path, images)
    for place in np.ndindex(*output.shape[1:]):
        parts = take_apart(spec, operands, place, spec.output)
        assert len(parts.terms) == 6
        if abs(parts.exact_steps % 1 - 0.5) > 1e-4:
            assert rounded(spec, parts.exact_steps) == output[(0, *place)], place


def test_matrix_products_and_real_biases_come_apart_rightly(tmp_path: Path) -> None:
    graph = TinyQdq((3, 4, 5))
    x = graph.quantize("x", 0.03, 100)
    w = graph.stored("w", RNG.integers(-127, 128, (5, 7)).astype(np.int8), 0.02)
    m = graph.quantize(graph.node("MatMul", [x, w], "m"), 0.07, 131)
    f = graph.quantize(graph.node("Flatten", [m], "f"), 0.07, 131)
    v = graph.stored("v", RNG.integers(-127, 128, (3, 84)).astype(np.int8), [0.1, 0.2, 0.3])
    b = graph.constant("b", np.array([1.5, -40.25, 0.003], np.float32))
    graph.node("Relu", [graph.node("Gemm", [f, v, b], "g", transB=1)], "y")
    path = graph.save(tmp_path, graph.quantize("y", 3.1, 0))
    images = images_of(RNG.normal(0, 2, (1, 3, 4, 5)).astype(np.float32))
    for layer in ("m", "g"):
        spec = spec_of(path, layer)
        operands, output = integers_at(spec, path, images)
        for place in np.ndindex(*output.shape[1:]):
            parts = take_apart(spec, operands, place, spec.output)
            if abs(parts.exact_steps % 1 - 0.5) > 1e-4:
                assert rounded(spec, parts.exact_steps) == output[(0, *place)], place
    trace = trace_value(path, "g", 0, (1,), data=images)
    assert trace.bias == pytest.approx(-40.25 / (0.07 * 0.2), rel=1e-6)
    assert trace.relu == "y"
    assert "bias, a real number in the file" in trace_text(trace)


def test_a_difference_at_a_rounding_tie_is_said_to_be_one(tmp_path: Path) -> None:
    # 0.1 * 0.1 / 0.02 is 0.5 in float32 but not quite in the exact product of the stored scales.
    graph = TinyQdq((1, 4, 4))
    x = graph.quantize("x", 0.1, 0)
    w = graph.stored("w", np.ones((1, 1, 1, 1), np.int8), 0.1)
    graph.node("Conv", [x, w], "y")
    path = graph.save(tmp_path, graph.quantize("y", 0.02, 0))
    images = images_of((np.arange(16) * 0.1).astype(np.float32).reshape(1, 1, 4, 4))
    spec = spec_of(path, "y")
    operands, output = integers_at(spec, path, images)
    exact = compute(spec, operands, spec.output)
    off = np.argwhere(exact != output)
    assert len(off)
    trace = trace_value(path, "y", 0, off[0][1:].tolist(), data=images)
    assert trace.reference_steps in (1, -1)
    assert trace.is_tie and trace.tie_distance < 1e-6
    assert trace.agreement is not None
    assert trace.agreement.one_step == len(off) and trace.agreement.more == 0
    assert "a rounding tie" in trace_text(trace)


@pytest.fixture(scope="module")
def conv_trace(quantized: Callable[..., Path]) -> Trace:
    return trace_value(quantized(activations="uint8"), "stack1.conv1", 7, (3, 0, 4))


def test_a_trace_states_the_whole_formula(conv_trace: Trace) -> None:
    t = conv_trace
    x, w, y = t.tensors
    assert (x.name, w.name, y.name) == ("stem.out", "stack1.conv1.weight", "stack1.conv1.out")
    assert len(t.terms) == 144 and sum(term.is_padding for term in t.terms) == 48
    assert isinstance(t.bias, int) and t.accumulator == t.sum + t.bias
    (m,) = t.multipliers
    assert m.float64 == pytest.approx(x.scale * w.scale / y.scale, rel=1e-12)
    assert m.float32 == np.float32(x.scale) * np.float32(w.scale) / np.float32(y.scale)
    assert (m.mantissa, m.shift) == fixed_point_multiplier(m.float64)
    assert m.mantissa * 2.0 ** (m.shift - 31) == pytest.approx(m.float64, rel=1e-9)
    assert t.steps == pytest.approx(t.accumulator * m.float64)
    assert t.rounded == round(t.steps) and t.unclamped == t.rounded + y.zero_point
    assert t.integer == min(max(t.unclamped, 0), 255)
    assert t.real == pytest.approx((t.integer - y.zero_point) * y.scale)
    assert t.relu == "folded"
    assert t.reference_integer == t.integer and t.reference_steps == 0
    assert t.agreement is not None and t.agreement.values == 16 * 32 * 32
    assert t.agreement.equal + t.agreement.one_step == t.agreement.values


def test_a_model_made_from_a_bundled_one_knows_its_float_value(conv_trace: Trace) -> None:
    # The quantizer stands in for the ReLU, so the float value is the one after it.
    found = capture("resnet8", ONE, ["stack1.relu1.out"])["stack1.relu1.out"].values
    assert conv_trace.float_model == "resnet8.onnx"
    assert conv_trace.float_value == found[0, 3, 0, 4]


def test_a_trace_is_json_and_text(conv_trace: Trace) -> None:
    result = json.loads(json.dumps(conv_trace.to_dict(), allow_nan=False))
    assert result["integer"] == conv_trace.integer
    assert len(result["terms"]) == 144 and result["multipliers"][0]["mantissa"] > 2**30
    text = trace_text(conv_trace, terms=5)
    assert "the 5 largest of 144 terms" in text
    assert f"accumulator{' ' * 41} = {conv_trace.accumulator}" in text
    assert trace_text(conv_trace, terms=None).count(" padding ") == 48
    assert "reference execution" in text and "runtime execution" in text


@x86_only
def test_saturated_pairs_explain_what_the_kernel_gave(quantized: Callable[..., Path]) -> None:
    path = quantized(activations="uint8", per_channel=True)
    stated = capture(path, ONE, ["stem"])["stem.out"].integers
    shipped = capture(path, ONE, ["stem"], execution="runtime")["stem.out"].integers
    assert stated is not None and shipped is not None
    steps = shipped.astype(int) - stated
    place = np.unravel_index(np.abs(steps).argmax(), steps.shape)
    trace = trace_value(path, "stem", 7, [int(i) for i in place[1:]])
    runtime = trace.runtime
    assert runtime is not None and runtime.saturates and runtime.kernel == "QLinearConv"
    assert runtime.steps == runtime.kernel_steps == steps[place] != 0
    assert runtime.inherited_steps == 0
    assert runtime.is_explained and runtime.predicted_equal == runtime.values == 16384
    assert runtime.saturated_pairs
    for pair in runtime.saturated_pairs:
        assert pair.sum == pair.x[0] * pair.w[0] + pair.x[1] * pair.w[1]
        assert pair.kept in (-32768, 32767)
    lost = sum(pair.lost for pair in runtime.saturated_pairs)
    assert isinstance(trace.accumulator, int)
    reached = np.rint((trace.accumulator + lost) * trace.multipliers[0].float64)
    assert runtime.integer == np.clip(reached, 0, 255)
    assert "which explains it" in trace_text(trace)


@x86_only
def test_what_a_layer_inherits_is_told_from_what_its_kernel_adds(
    quantized: Callable[..., Path],
) -> None:
    trace = trace_value(quantized(activations="uint8", per_channel=True), "head", 7, (3,))
    runtime = trace.runtime
    assert runtime is not None
    assert runtime.steps == runtime.inherited_steps + runtime.kernel_steps
    assert runtime.predicted_equal == runtime.values == 10


@x86_only
def test_runtime_values_that_cannot_be_seen_are_not_shown(quantized: Callable[..., Path]) -> None:
    trace = trace_value(
        quantized(activations="int8"), "stack1.conv2", 7, (1, 2, 3), int8_kernels=False
    )
    assert trace.runtime is None
    assert "cannot be seen in runtime execution: looking at it changes" in trace_text(trace)


@pytest.mark.parametrize(
    ("layer", "image", "at", "line"),
    [
        ("stak1.conv1", 0, (0, 0, 0), r"No layer 'stak1.conv1' .*closest: stack1.conv1"),
        ("flatten", 0, (0,), r"flatten .* is a Flatten; .* trace the layer before it, pool"),
        ("stem", 0, (16, 0, 0), r"shape \[16,32,32\].*number 1 of the place must be 0 to 15"),
        ("stem", 0, (0, -1, 0), r"number 2 of the place must be 0 to 31, not -1"),
        ("stem", 0, (0, 0), r"has 3 axes \[16,32,32\] .* give as many numbers, not 2"),
        ("head", 0, (10,), r"must be 0 to 9, not 10"),
        ("stem", 1000, (0, 0, 0), r"has no image 1000; its rows are 0 to 999"),
    ],
)
def test_bad_requests_get_one_line(
    layer: str, image: int, at: tuple[int, ...], line: str, quantized: Callable[..., Path]
) -> None:
    with pytest.raises((BadModelError, BadConfigError, BadDataError), match=line) as error:
        trace_value(quantized(activations="uint8"), layer, image, at)
    assert "\n" not in str(error.value)


def test_models_that_cannot_be_traced_get_one_line(quantized: Callable[..., Path]) -> None:
    with pytest.raises(BadModelError, match=r"resnet8\.onnx is a float model"):
        trace_value("resnet8", "stem", 0, (0, 0, 0))
    path = quantized(activations="uint8", overrides=(LayerOverride("stem", left_float=True),))
    with pytest.raises(BadModelError, match=r"stem of .* reads input, which is not quantized"):
        trace_value(path, "stem", 0, (0, 0, 0))
    path = quantized(activations="uint8")
    with pytest.raises(BadModelError, match="is quantized; give the float model"):
        trace_value(path, "stem", 0, (0, 0, 0), float_model=path)
    with pytest.raises(BadModelError) as error:
        trace_value(path, "stem", 0, (0, 0, 0), float_model="resnet8-torch")
    assert str(error.value) == (
        f"resnet8.safetensors is a PyTorch model, but {path.name} is ONNX; "
        "give its float model as .onnx (bundled: resnet8)"
    )


@pytest.mark.parametrize("suffix", [".pt2", ".pt", ".pth", ".safetensors"])
@pytest.mark.parametrize(
    ("reader", "read"),
    [
        ("trace", lambda path, _: trace_value(path, "stem", 0, (0, 0, 0))),
        ("accumulators", accumulators),
        ("predicting saturation", predict_saturation),
    ],
)
def test_pytorch_files_are_told_how_to_become_onnx(
    reader: str, read: Callable[..., object], suffix: str, resnet8_program: Path, tmp_path: Path
) -> None:
    path = tmp_path / f"m{suffix}"
    path.write_bytes(resnet8_program.read_bytes())
    with pytest.raises(BadModelError) as error:
        read(path, load_sample().take(1))
    source = path if suffix == ".safetensors" else "FLOAT.safetensors"
    assert str(error.value) == (
        f"m{suffix} is a PyTorch model; {reader} reads ONNX files: write a quantized one with "
        f"quantscope quantize {source} -o OUT.pt2 --framework torch --onnx OUT.onnx"
    )


def test_the_command_prints_a_trace(quantized: Callable[..., Path]) -> None:
    app = typer.Typer()
    app.command()(trace_command.command)
    options = [str(quantized(activations="uint8")), "--layer", "head", "--image", "7", "--at", "3"]
    shown = CliRunner().invoke(app, options)
    assert shown.exit_code == 0, shown.output
    assert "head (Gemm) of" in shown.output and "the 16 largest of 64 terms" in shown.output
    result = json.loads(CliRunner().invoke(app, [*options, "--json"]).stdout)
    assert result["at"] == [3] and len(result["terms"]) == 64
    wrong = CliRunner().invoke(app, [*options, "--at", "3;4"])
    assert isinstance(wrong.exception, BadConfigError)
    assert "such as 3,5,7" in str(wrong.exception)
