"""A bias whose steps, size or value is wrong is found, each as what it is."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from planted import Plant, constant, convnet, convnet_weights, examined, rewritten, set_constant

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
