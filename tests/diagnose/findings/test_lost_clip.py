"""A quantizer that stands for a ReLU or Clip and lets values through is found."""

from pathlib import Path

import pytest
from planted import Plant, convnet, convnet_weights, edited, examined, kinds

from quantscope.diagnose.findings.lost_clip import clip_ends
from quantscope.edit import SetRange
from quantscope.model import open_model
from quantscope.model.pairing import constants_of


@pytest.fixture
def plant(tmp_path: Path) -> Plant:
    return Plant(tmp_path)


def test_a_relu_that_lets_negatives_through_is_found_and_mended(plant: Plant) -> None:
    change = edited(SetRange("conv1.out", -1.5, 6))
    result = examined(plant.make(convnet(convnet_weights()), change=change), tries=True)
    (finding,) = result.findings
    assert finding.kind == "lost-clip" and finding.tensors == ("conv1.out",)
    numbers = finding.places[0].numbers
    assert numbers["values"][0] < -1 and numbers["clip"] == [0.0, None]
    (attempt,) = finding.attempts
    assert attempt.gain is not None and attempt.gain.sqnr_change_db is not None
    assert attempt.gain.sqnr_change_db > 6


def test_a_clip_whose_upper_end_is_gone_is_found(plant: Plant) -> None:
    network = convnet(convnet_weights(), clip=1.0)
    change = edited(SetRange("conv1.out", 0, 2))
    (finding,) = examined(plant.make(network, change=change)).findings
    assert finding.kind == "lost-clip"
    assert finding.places[0].numbers["clip"] == [0.0, 1.0]
    assert finding.places[0].numbers["values"][1] > 1.5


def test_a_clip_that_clips_is_no_finding(plant: Plant) -> None:
    assert kinds(plant.make(convnet(convnet_weights(), clip=1.0))) == []


def test_the_ends_of_a_clip_are_those_in_the_file(plant: Plant) -> None:
    path = plant.folder / "clipped.onnx"
    path.write_bytes(convnet(convnet_weights(), clip=0.75).SerializeToString())
    model = open_model(path)
    layers = {layer.name: layer for layer in model.network.layers}
    assert clip_ends(layers["relu1"], constants_of(model)) == (0.0, 0.75)
    assert clip_ends(layers["relu2"], constants_of(model)) == (0.0, float("inf"))
