"""Trials are rows of a study, one at a time, whose models stay."""

from pathlib import Path

import onnx
import pytest

from quantscope.data import load
from quantscope.errors import BadModelError
from quantscope.quantize import PtqConfig
from quantscope.run import evaluate
from quantscope.study.config import StudyConfig
from quantscope.study.trials import Trials


def test_a_trial_is_what_evaluating_its_model_gives(tmp_path: Path) -> None:
    trials = Trials("resnet8", tmp_path)
    trial = trials.attempt(StudyConfig(PtqConfig(activations="uint8", calibration_images=16)))
    images = load("sample")
    for execution, measured in trial.row.executions().items():
        assert measured.correct == evaluate(trial.model, images, execution=execution).correct
    assert trials.result().baseline.reference.correct == evaluate("resnet8", images).correct


def test_the_same_configuration_is_tried_once(tmp_path: Path) -> None:
    trials = Trials("resnet8", tmp_path)
    config = StudyConfig(PtqConfig(calibration_images=8))
    assert trials.attempt(config) is trials.attempt(StudyConfig(PtqConfig(calibration_images=8)))
    assert len(trials.result().rows) == 1


def test_torch_needs_weights_that_it_can_take(random_resnet8: Path, tmp_path: Path) -> None:
    model = onnx.load(random_resnet8)
    (output,) = model.graph.output
    model.graph.node.append(onnx.helper.make_node("Relu", [output.name], ["scores"]))
    output.name = "scores"
    other = tmp_path / "other.onnx"
    onnx.save(model, other)
    trials = Trials(other, tmp_path)
    with pytest.raises(BadModelError, match="torch"):
        trials.attempt(StudyConfig(PtqConfig(framework="torch")))
