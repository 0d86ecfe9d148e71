"""A diagnosis: each planted defect is found and nothing else, and what it costs adds up."""

from pathlib import Path

import numpy as np
import pytest
from onnx import helper, numpy_helper
from planted import Plant, convnet, convnet_weights, edited, examined, finished, kinds
from tiny_qdq import TinyQdq

from quantscope.data import Samples, load_sample
from quantscope.diagnose import diagnose
from quantscope.edit import Editor, OffRole, SetRange
from quantscope.errors import BadDataError, BadModelError
from quantscope.run import evaluate, paired


@pytest.fixture
def plant(tmp_path: Path) -> Plant:
    return Plant(tmp_path)


@pytest.mark.parametrize("options", [{}, {"per_channel": False}, {"activations": "int8"}], ids=str)
def test_a_clean_network_has_no_finding(plant: Plant, options: dict[str, object]) -> None:
    assert kinds(plant.make(convnet(convnet_weights()), **options)) == []


def test_a_range_that_is_ten_times_too_wide_is_found_with_what_it_costs(plant: Plant) -> None:
    planted = plant.make(convnet(convnet_weights()), change=edited(SetRange("add.out", 0, 100)))
    result = examined(planted, tries=True)
    (finding,) = result.findings
    assert finding.kind == "wide-range" and finding.tensors == ("add.out",)
    (place,) = finding.places
    used, low_high = place.numbers["used_share_of_range"], place.numbers["range"]
    assert low_high == [0.0, pytest.approx(100, rel=0.01)] and used < 0.15
    (remedy,) = finding.remedies
    (edit,) = remedy.edits
    assert isinstance(edit, SetRange) and edit.lo == 0 and edit.hi < 15
    (attempt,) = finding.attempts
    assert attempt.gain is not None and attempt.gain.delta.by_sample.shape == (128,)
    assert attempt.gain.sqnr_change_db is not None and attempt.gain.sqnr_change_db > 6


def test_a_range_that_clips_too_much_is_found(plant: Plant) -> None:
    planted = plant.make(convnet(convnet_weights()), change=edited(SetRange("add.out", 0, 1.5)))
    (finding,) = examined(planted).findings
    assert finding.kind == "clipping" and finding.tensors == ("add.out",)
    numbers = finding.places[0].numbers
    assert numbers["clipped_fraction"] > 0.01
    assert numbers["rmse_steps"] > 1.4 * numbers["rmse_steps_with_whole_range"]


def test_one_sample_that_set_a_range_is_named_with_its_channel(plant: Plant) -> None:
    array = np.array(plant.calibration.images)
    array[17, 2] *= 12  # one channel of one row
    outlier = Samples.from_arrays("with an outlier", {"x": array})
    planted = plant.make(convnet(convnet_weights()), calibration=outlier)
    (finding,) = examined(planted).findings
    assert finding.kind == "outlier-range"
    assert "x" in finding.tensors
    numbers = {(p.where, p.numbers["end"]): p.numbers for p in finding.places}["x", "high"]
    assert (numbers["sample"], numbers["channel"]) == ("17", 2)
    assert numbers["value"] == array[17, 2].max()


def test_one_scale_for_channels_that_differ_widely_is_found(plant: Plant) -> None:
    weights = convnet_weights()
    weights["conv2.weight"][3] *= 60
    weights["conv2.weight"] /= 20
    weights["conv2.bias"] /= 20
    planted = plant.make(convnet(weights), per_channel=False)
    (finding,) = examined(planted).findings
    assert finding.kind == "channel-spread" and finding.tensors == ("conv2.weight",)
    sizes = np.abs(weights["conv2.weight"]).reshape(8, -1).max(axis=1)
    assert finding.places[0].numbers["times_smaller"] == pytest.approx(sizes.max() / sizes.min())


def test_the_account_is_that_of_the_edits_it_stands_for(plant: Plant) -> None:
    planted = plant.make(convnet(convnet_weights()), change=edited(SetRange("add.out", 0, 1.5)))
    account = examined(planted).account
    base = evaluate(
        planted.quantized, planted.samples, float_model=planted.floats, execution="reference"
    )
    assert account.quantized.value == base.score.value
    assert account.floats.value == 1.0  # it agrees with itself
    without = Editor(planted.quantized, planted.floats).apply([OffRole("activations")])
    path = planted.quantized.with_name("without.onnx")
    without.save(path)
    other = evaluate(path, planted.samples, float_model=planted.floats, execution="reference")
    delta = paired(other, base)
    assert account.activations_off.delta.delta == delta.delta
    assert account.activations_off.delta.interval_95 == delta.interval_95
    assert account.layers[0].layer == "add"


def test_a_float_model_is_refused(plant: Plant) -> None:
    planted = plant.make(convnet(convnet_weights()))
    with pytest.raises(BadModelError) as error:
        diagnose(planted.floats, planted.samples)
    assert str(error.value).startswith(
        "float.onnx is a float model: nothing in it is quantized, so there is nothing to diagnose; "
        "quantize it first: quantscope quantize "
    )


def test_an_exact_model_is_refused(plant: Plant) -> None:
    steps = {name: np.rint(array * 4) / 4 for name, array in convnet_weights().items()}
    net = finished(
        [helper.make_node("MatMul", ["x", "w"], ["y"], name="product")],
        [numpy_helper.from_array(np.float32(steps["head.weight"].T[:7] * 4), "w")],
        (7,),
    )
    floats = plant.folder / "float.onnx"
    floats.write_bytes(net.SerializeToString())
    quantized = TinyQdq((7,))
    weight = quantized.stored("w", np.int8(steps["head.weight"].T[:7] * 4), 1.0)
    x = quantized.quantize("x", 1.0, 128)
    path = quantized.save(plant.folder, quantized.node("MatMul", [x, weight], "y"))
    whole = np.rint(np.random.default_rng(0).uniform(-9, 9, (40, 7))).astype(np.float32)
    samples = Samples.from_arrays("whole numbers", {"x": whole})
    with pytest.raises(BadModelError) as error:
        diagnose(path, samples, float_model=floats)
    assert str(error.value) == (
        "tiny.onnx gives bit for bit what float.onnx gives on 40 samples of whole numbers: there "
        "is nothing to diagnose"
    )


def test_too_few_samples_are_refused_with_how_many_would_do() -> None:
    with pytest.raises(BadDataError) as error:
        diagnose("resnet8-int8", load_sample().take(12))
    assert str(error.value) == (
        "12 images of cifar10-test-sample say too little to find a cause: 32 would do for a large "
        "loss, 1,000 for one of 2 points"
    )


def test_the_calibration_samples_are_refused_unless_they_are_allowed(plant: Plant) -> None:
    planted = plant.make(convnet(convnet_weights()))
    with pytest.raises(BadDataError) as error:
        diagnose(planted.quantized, planted.calibration, float_model=planted.floats)
    assert str(error.value) == (
        "rows 2 is what quantized.onnx was calibrated with: its ranges fit these samples better "
        "than any others; give other samples with --data, or allow it with "
        "--allow-calibration-data"
    )
    result = diagnose(
        planted.quantized,
        planted.calibration,
        float_model=planted.floats,
        allow_calibration_data=True,
    )
    assert result.findings == ()


def test_samples_of_which_some_were_calibrated_with_are_refused(plant: Plant) -> None:
    both = np.concatenate([plant.samples.images[:90], plant.calibration.images[:10]])
    planted = plant.make(
        convnet(convnet_weights()), samples=Samples.from_arrays("mix", {"x": both})
    )
    with pytest.raises(BadDataError) as error:
        examined(planted)
    assert str(error.value) == (
        "10 rows of mix are among the 64 that quantized.onnx was calibrated with: its ranges fit "
        "these better than others; give others with --data, or allow it with "
        "--allow-calibration-data"
    )
