"""What kernels cost is told of the CPU that was asked about; layers left float say why."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from planted import Plant, convnet, convnet_weights, examined, kinds, rewritten

from quantscope.data import Samples
from quantscope.diagnose import diagnose
from quantscope.run import saturates_8bit_products
from quantscope.run.integers import predict_answers_without_vnni, predict_saturation


@pytest.fixture
def plant(tmp_path: Path) -> Plant:
    return Plant(tmp_path)


def large_weights() -> dict[str, np.ndarray]:
    """Weights near their channel's largest, all of one sign: their products saturate."""
    weights = convnet_weights()
    rng = np.random.default_rng(4)
    for name in ("conv1.weight", "conv2.weight"):
        drawn = rng.uniform(0.8, 1, weights[name].shape) * np.sign(weights[name][:, :1, :1, :1])
        weights[name] = np.float32(drawn / weights[name][0].size)
    return weights


def test_saturating_kernels_are_found_and_seven_bits_mend_them(plant: Plant) -> None:
    rows = plant.samples.take(64)
    bright = np.abs(np.asarray(rows.arrays["x"])) * np.float32(0.2) + np.float32(0.8)
    bright *= np.linspace(0.2, 1, 64, dtype=np.float32).reshape(-1, 1, 1, 1)
    samples = Samples.from_arrays("bright rows", {"x": bright})
    calibration = Samples.from_arrays("bright too", {"x": bright[::-1] * np.float32(0.999)})
    planted = plant.make(convnet(large_weights()), samples=samples, calibration=calibration)
    result = diagnose(
        planted.quantized,
        planted.samples,
        float_model=planted.floats,
        calibration=planted.calibration,
        tries=True,
        cpu="no-vnni",
    )
    (finding,) = result.findings
    assert finding.kind == "saturating-kernels"
    assert {place.where for place in finding.places} >= {"conv1", "conv2"}
    (attempt,) = finding.attempts
    assert attempt.execution == "runtime"
    assert attempt.gain is not None and attempt.gain.sqnr_change_db is not None
    assert attempt.gain.sqnr_change_db > 10


def test_a_cpu_that_does_not_saturate_has_a_note_and_no_finding(plant: Plant) -> None:
    result = examined(plant.make(convnet(convnet_weights())))
    assert result.findings == ()
    (note,) = (note for note in result.notes if "uint8 by int8" in note)
    if saturates_8bit_products() is False:
        assert "16-bit saturation, this CPU (" in note and ") does not. " in note
        assert note.endswith("What that would cost: --cpu no-vnni.")


def test_weights_of_seven_bits_have_neither(plant: Plant) -> None:
    result = examined(plant.make(convnet(convnet_weights()), reduce_range=True))
    assert result.findings == ()
    assert not any("uint8 by int8" in note for note in result.notes)


def test_predicted_answers_are_those_of_the_prediction(plant: Plant) -> None:
    planted = plant.make(convnet(convnet_weights()))
    rows = planted.samples.take(20)
    some = Samples.from_arrays("labelled", rows.arrays, labels=np.zeros(20, np.int64))
    whole = predict_saturation(planted.quantized, some)
    answers = predict_answers_without_vnni(planted.quantized, some)
    assert np.array_equal(answers, whole.predicted_scores)


def test_a_layer_that_stays_float_is_named_with_the_reason(plant: Plant) -> None:
    def read_before_it_is_quantized(proto: onnx.ModelProto) -> None:
        (add,) = (node for node in proto.graph.node if node.op_type == "Add")
        add.input[1] = "c2"
        nodes = [node for node in proto.graph.node if node.name != "conv2"]
        gone = [node for node in nodes if any("c2" in name for name in node.output)]
        for node in gone:
            proto.graph.node.remove(node)

    planted = plant.make(convnet(convnet_weights()), change=rewritten(read_before_it_is_quantized))
    (finding,) = examined(planted).findings
    assert finding.kind == "float-layer" and finding.cost is None
    (place,) = finding.places
    assert place.where == "conv2" and place.seen == "its output 'c2' is not quantized"


def test_int8_layers_that_wait_for_an_option_are_a_note(plant: Plant) -> None:
    planted = plant.make(convnet(convnet_weights()), activations="int8")
    assert kinds(planted) == []
    assert any("session.qdqisint8allowed=1" in note for note in examined(planted).notes)
