"""A bias whose steps, size or value is wrong is found, each as what it is."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_static,
)
from planted import (
    Plant,
    Planted,
    constant,
    convnet,
    convnet_weights,
    examined,
    finished,
    rewritten,
    rows,
    set_constant,
)

from quantscope.edit import Off, SetScale


@pytest.fixture
def plant(tmp_path: Path) -> Plant:
    return Plant(tmp_path)


def bias_of(proto: onnx.ModelProto, layer: str) -> tuple[str, str]:
    """Give the names of a bias's integers and of its scale."""
    node = next(n for n in proto.graph.node if n.name == layer)
    dequantize = next(n for n in proto.graph.node if n.output[0] == node.input[2])
    return dequantize.input[0], dequantize.input[1]


def test_a_bias_in_other_steps_than_the_sums_is_found(plant: Plant) -> None:
    def double(proto: onnx.ModelProto) -> None:
        integers, scale = bias_of(proto, "conv2")
        set_constant(proto, integers, np.rint(constant(proto, integers) / 2))
        set_constant(proto, scale, constant(proto, scale) * 2)

    planted = plant.make(convnet(convnet_weights()), change=rewritten(double))
    (finding,) = examined(planted).findings
    assert finding.kind == "bias-scale" and finding.tensors == ("conv2.bias",)
    assert finding.remedies[0].edits == (Off("conv2.bias"),)
    numbers = finding.places[0].numbers
    assert numbers["ratio"] == pytest.approx(2) and numbers["channels_off"] == 8
    assert numbers["runs_as_float"]


def test_a_bias_that_is_not_the_float_one_is_found_with_its_channel(plant: Plant) -> None:
    def shift(proto: onnx.ModelProto) -> None:
        integers, scale = bias_of(proto, "conv2")
        off = np.zeros(8)
        off[5] = 3 / float(constant(proto, scale)[5])  # 3 of the layer's own units
        set_constant(proto, integers, constant(proto, integers) + np.rint(off))

    planted = plant.make(convnet(convnet_weights()), change=rewritten(shift))
    result = examined(planted, tries=True)
    (finding,) = result.findings
    assert finding.kind == "bias-error" and finding.tensors == ("conv2.bias",)
    numbers = finding.places[0].numbers
    assert (numbers["channel"], numbers["channels_off"]) == (5, 1)
    assert numbers["error"] == pytest.approx(3, rel=0.01)
    (attempt,) = finding.attempts
    assert attempt.gain is not None and attempt.gain.sqnr_change_db is not None
    assert attempt.gain.sqnr_change_db > 3


def test_a_bias_near_the_end_of_int32_is_found(plant: Plant) -> None:
    weights = convnet_weights()
    weights["conv1.weight"][2] *= 1e-4

    def fine(proto: onnx.ModelProto) -> None:
        """Make the steps of one channel so fine that its bias leaves no room in int32."""
        integers, scale = bias_of(proto, "conv1")
        node = next(n for n in proto.graph.node if n.name == "conv1")
        dequantize = next(n for n in proto.graph.node if n.output[0] == node.input[1])
        wanted = constant(proto, integers).astype(np.int64)
        factor = 0.99999 * (2**31 - 1) / abs(wanted[2])
        wanted[2] = int(wanted[2] * factor)
        set_constant(proto, integers, wanted)
        for name in (scale, dequantize.input[1]):
            finer = np.array(constant(proto, name))
            finer[2] /= factor
            set_constant(proto, name, finer)

    planted = plant.make(convnet(weights), change=rewritten(fine))
    (finding,) = examined(planted).findings
    assert finding.kind == "bias-end" and finding.tensors == ("conv1.bias",)
    numbers = finding.places[0].numbers
    assert numbers["channel"] == 2 and numbers["integer"] == pytest.approx(2**31, rel=1e-4)
    (edit,) = finding.remedies[0].edits
    assert isinstance(edit, SetScale) and edit.tensor == "conv1.weight"


class OneBatch(CalibrationDataReader):  # type: ignore[misc]
    """Gives onnxruntime's own quantizer all rows at once."""

    def __init__(self, array: np.ndarray) -> None:
        self._left = iter([{"x": array}])

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self._left, None)


def test_a_bias_of_two_layers_in_the_steps_of_one_is_found_though_no_edit_reaches_it(
    tmp_path: Path,
) -> None:
    rng = np.random.default_rng(0)
    shapes = {"w1": (7, 7), "w2": (7, 7), "b": (7,), "w3": (7, 3)}
    constants = [
        numpy_helper.from_array(rng.normal(0, 0.4, shape).astype(np.float32), name)
        for name, shape in shapes.items()
    ]
    nodes = [
        helper.make_node("Gemm", ["x", "w1", "b"], ["a"], name="one"),
        helper.make_node("Relu", ["a"], ["r"], name="relu"),
        helper.make_node("Gemm", ["r", "w2", "b"], ["c"], name="two"),
        helper.make_node("Relu", ["c"], ["s"], name="relu2"),
        helper.make_node("MatMul", ["s", "w3"], ["y"], name="head"),
    ]
    floats, quantized = tmp_path / "float.onnx", tmp_path / "quantized.onnx"
    floats.write_bytes(finished(nodes, constants, (7,)).SerializeToString())
    seen, others = (rows(64, seed=seed, shape=(7,)) for seed in (1, 2))
    quantize_static(
        floats,
        quantized,
        OneBatch(seen.images),
        quant_format=QuantFormat.QOperator,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QUInt8,
    )
    result = examined(Planted(floats, quantized, others, seen), tries=True)
    (finding,) = result.findings
    assert finding.kind == "bias-scale" and finding.cost is None
    (attempt,) = finding.attempts
    assert attempt.not_tried is not None and "read with another" in attempt.not_tried
