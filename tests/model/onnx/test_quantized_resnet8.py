"""ResNet8 as onnxruntime's quantizer writes it, in all its ways: one view of them all."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from onnx import numpy_helper
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_static,
)

from quantscope.model import Network, load_onnx, read_onnx, residuals

QDQ, QOPERATOR = QuantFormat.QDQ, QuantFormat.QOperator
MACS = 12_501_632
KEPT = [  # without the ReLUs, which the quantizer folds
    *("stem", "stack1.conv1", "stack1.conv2", "stack1.add"),
    *("stack2.conv1", "stack2.conv2", "stack2.shortcut", "stack2.add"),
    *("stack3.conv1", "stack3.conv2", "stack3.shortcut", "stack3.add"),
    *("pool", "flatten", "head"),
]


class Noise(CalibrationDataReader):
    def __init__(self) -> None:
        rng = np.random.default_rng(1)
        self._batches: Iterator[dict[str, Any]] = iter(
            [{"input": rng.uniform(0, 255, (2, 3, 32, 32)).astype(np.float32)}]
        )

    def get_next(self) -> dict[str, Any] | None:  # type: ignore[override]
        return next(self._batches, None)


@pytest.fixture
def quantized(random_resnet8: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Any:
    caplog.set_level("ERROR")

    def make(**options: Any) -> Path:
        path = tmp_path / "quantized.onnx"
        quantize_static(random_resnet8, path, Noise(), **options)
        return path

    return make


@pytest.mark.parametrize(
    ("options", "activation", "weight"),
    [
        ({"quant_format": QDQ}, "int8", "int8"),
        ({"quant_format": QDQ, "per_channel": True}, "int8", "int8"),
        ({"quant_format": QDQ, "activation_type": QuantType.QUInt8}, "uint8", "int8"),
        (
            {
                "quant_format": QDQ,
                "activation_type": QuantType.QUInt8,
                "weight_type": QuantType.QUInt8,
            },
            "uint8",
            "uint8",
        ),
        ({"quant_format": QDQ, "activation_type": QuantType.QUInt16}, "uint16", "int8"),
        ({"quant_format": QDQ, "weight_type": QuantType.QInt4}, "int8", "int4"),
        ({"quant_format": QDQ, "extra_options": {"DedicatedQDQPair": True}}, "int8", "int8"),
        ({"quant_format": QDQ, "extra_options": {"AddQDQPairToWeight": True}}, "int8", "int8"),
        ({"quant_format": QDQ, "extra_options": {"QuantizeBias": False}}, "int8", "int8"),
        ({"quant_format": QOPERATOR, "activation_type": QuantType.QUInt8}, "uint8", "int8"),
        (
            {
                "quant_format": QOPERATOR,
                "activation_type": QuantType.QUInt8,
                "per_channel": True,
            },
            "uint8",
            "int8",
        ),
    ],
    ids=lambda value: " ".join(map(str, value.values())) if isinstance(value, dict) else None,
)
def test_every_way_of_quantizing_shows_the_same_network(
    quantized: Any, options: dict[str, Any], activation: str, weight: str
) -> None:
    network = read_onnx(quantized(**options))
    is_qdq = options["quant_format"] == QDQ
    assert network.format == ("qdq" if is_qdq else "qoperator")
    assert sorted(layer.name for layer in network.layers) == sorted(KEPT)
    assert network.macs == MACS
    assert {t.params.dtype for t in network.tensors if t.role == "activation"} == {activation}
    assert {t.params.dtype for t in network.tensors if t.role == "weight"} == {weight}
    assert {t.name for t in network.tensors if t.folded_relu} == {
        *("stem.out", "stack1.conv1.out", "stack1.add.out", "stack2.conv1.out"),
        *("stack2.add.out", "stack3.conv1.out", "stack3.add.out"),
    }
    assert network.tensor("flatten.out").shares_params_with == ("pool.out",)
    assert all(o.quant for layer in network.layers for o in layer.activations)
    has_bias = options.get("extra_options") != {"QuantizeBias": False}
    assert all((layer.bias is not None) == has_bias for layer in network.layers if layer.weight)
    assert not [note for note in network.notes if not note.startswith("The batch is dynamic")]


@pytest.mark.parametrize("format_", [QDQ, QOPERATOR])
def test_weights_are_the_float_weights_rounded(
    quantized: Any, random_resnet8: Path, format_: QuantFormat
) -> None:
    network = read_onnx(
        quantized(quant_format=format_, per_channel=True, activation_type=QuantType.QUInt8)
    )
    stored = load_onnx(random_resnet8).load_proto().graph.initializer
    floats = {tensor.name: numpy_helper.to_array(tensor) for tensor in stored}
    for tensor in network.tensors:
        if not tensor.has_data:
            continue
        error = np.abs(tensor.values() - floats[tensor.name])
        channels = (-1, *[1] * (error.ndim - 1))
        step = np.broadcast_to(tensor.params.step, error.shape[:1]).reshape(channels)
        assert (error <= 0.5001 * step).all(), tensor.name


def test_a_residual_says_what_its_branches_lose(quantized: Any) -> None:
    network = read_onnx(quantized(quant_format=QDQ))
    found = residuals(network)
    assert [residual.layer for residual in found] == ["stack1.add", "stack2.add", "stack3.add"]
    for residual in found:
        layer = network.layer(residual.layer)
        steps = [float(o.quant.params.scale) for o in layer.inputs if o.quant]
        out = float(network.tensor(f"{layer.name}.out").params.scale)
        assert residual.ratio == pytest.approx(max(steps) / min(steps))
        assert residual.ratio_bits == pytest.approx(np.log2(residual.ratio))
        assert residual.output_step == out
        assert residual.smaller.step == min(steps)
        for branch, step in zip(residual.branches, steps, strict=True):
            assert branch.bits_lost == pytest.approx(max(0, np.log2(out / step)))
            assert branch.effective_bits == pytest.approx(8 - max(0, np.log2(out / step)))


def test_the_float_network_has_its_relus_and_the_same_names(random_resnet8: Path) -> None:
    network = read_onnx(random_resnet8)
    relus = [layer.name for layer in network.layers if layer.op_type == "Relu"]
    assert len(relus) == 7
    assert sorted(layer.name for layer in network.layers) == sorted([*KEPT, *relus])
    assert network.macs == MACS
    assert network.weight_bytes == 4 * 77_706
    assert residuals(network) == ()


def test_shapes_are_those_that_onnxruntime_computes(quantized: Any) -> None:
    path = quantized(quant_format=QOPERATOR, activation_type=QuantType.QUInt8)
    proto = load_onnx(path).load_proto()
    names = [name for node in proto.graph.node for name in node.output]
    known = {value.name for value in proto.graph.output}
    for name in names:
        if name not in known:
            proto.graph.output.add().name = name
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    outputs = [value.name for value in session.get_outputs()]
    arrays = session.run(None, {"input": np.zeros((1, 3, 32, 32), np.float32)})
    shapes = {name: array.shape for name, array in zip(outputs, arrays, strict=True)}
    network: Network = read_onnx(path)
    for layer in network.layers:
        for operand in layer.outputs:
            assert operand.shape == ("N", *shapes[operand.name][1:])
