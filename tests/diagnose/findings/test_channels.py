"""Channels that are lost, stand still, lie far out or are shifted are found, each as what it is."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from planted import Plant, Planted, convnet, convnet_weights, edited, examined, finished

from quantscope.data import Samples
from quantscope.diagnose import Finding
from quantscope.edit import SetBits


@pytest.fixture
def plant(tmp_path: Path) -> Plant:
    return Plant(tmp_path)


def depthwise(weights: dict[str, np.ndarray], times: float) -> onnx.ModelProto:
    """A convolution, and a depthwise one that makes channel 5 so many times larger again."""
    second = np.random.default_rng(8).uniform(-1, 1, (8, 1, 3, 3)).astype(np.float32)
    second[5] *= times
    named = {**dict(list(weights.items())[:2]), "depthwise.weight": second}
    nodes = [
        helper.make_node(
            "Conv", ["x", "conv1.weight", "conv1.bias"], ["c1"], name="conv1", pads=[1] * 4
        ),
        helper.make_node("Relu", ["c1"], ["r1"], name="relu1"),
        helper.make_node(
            "Conv", ["r1", "depthwise.weight"], ["y"], name="depthwise", pads=[1] * 4, group=8
        ),
    ]
    constants = [numpy_helper.from_array(array, name) for name, array in named.items()]
    return finished(nodes, constants, (3, 6, 7))


@pytest.mark.parametrize(("times", "lost"), [(200.0, [5]), (4.0, None)])
def test_a_channel_that_the_next_layer_counts_on_and_loses_is_found(
    times: float, lost: list[int] | None, plant: Plant
) -> None:
    weights = convnet_weights()
    for name in ("conv1.weight", "conv1.bias"):
        weights[name][5] /= times
    result = examined(plant.make(depthwise(weights, times)), tries=True)
    if lost is None:
        assert result.findings == ()
        return
    (finding,) = result.findings
    assert finding.kind == "lost-channels" and finding.tensors == ("conv1.out",)
    numbers = finding.places[0].numbers
    assert numbers["lost_channels"] == lost and numbers["steps"] < 4
    (attempt,) = finding.attempts
    assert attempt.remedy.edits == (SetBits("conv1.out", 16),)
    assert attempt.gain is not None and attempt.gain.sqnr_change_db is not None


def test_a_channel_that_nobody_hears_is_no_finding(plant: Plant) -> None:
    weights = convnet_weights()
    for name in ("conv1.weight", "conv1.bias"):
        weights[name][5] /= 400
    assert examined(plant.make(convnet(weights))).findings == ()


def test_a_channel_that_is_dead_in_the_float_model_is_a_note(plant: Plant) -> None:
    weights = convnet_weights()
    weights["conv1.weight"][5], weights["conv1.bias"][5] = 0, -1
    result = examined(plant.make(convnet(weights)))
    assert result.findings == ()
    assert any(
        note.startswith("1 channel of the float model, constant ") for note in result.notes
    ), result.notes


def test_a_constant_channel_that_sets_the_range_is_found(plant: Plant) -> None:
    weights = convnet_weights()
    weights["conv1.weight"][5], weights["conv1.bias"][5] = 0, 40
    weights["conv2.weight"][:, 5] = 0
    (finding,) = examined(constant_only(plant, weights)).findings
    assert finding.kind == "constant-channel" and finding.tensors == ("conv1.out",)
    assert finding.places[0].numbers["channel"] == 5
    assert finding.places[0].numbers["value"] == pytest.approx(40)


def constant_only(plant: Plant, weights: dict[str, np.ndarray]) -> Planted:
    """Two convolutions in a row: in the residual block the constant would reach the end."""
    constants = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    nodes = [
        helper.make_node(
            "Conv", ["x", "conv1.weight", "conv1.bias"], ["c1"], name="conv1", pads=[1] * 4
        ),
        helper.make_node("Relu", ["c1"], ["r1"], name="relu1"),
        helper.make_node(
            "Conv", ["r1", "conv2.weight", "conv2.bias"], ["y"], name="conv2", pads=[1] * 4
        ),
    ]
    return plant.make(finished(nodes, constants[:4], (3, 6, 7)))


def product(
    function: str | None = None, *, large: float = 1.0, times: float = 1.0
) -> onnx.ModelProto:
    """Rows of 16 features, one of them `large`, times a matrix; then a function of the products."""
    rng = np.random.default_rng(5)
    sizes = np.ones(16, np.float32)
    sizes[11] = large
    first = rng.uniform(-1, 1, (16, 16)).astype(np.float32) * sizes
    second = rng.uniform(-1, 1, (16, 8)).astype(np.float32) * times / sizes[:, None]
    constants = [
        numpy_helper.from_array(np.float32(array), name)
        for name, array in (("a", first), ("b", second))
    ]
    nodes = [
        helper.make_node("MatMul", ["x", "a"], ["t"], name="first"),
        helper.make_node("MatMul", ["t", "b"], ["s" if function else "y"], name="second"),
    ]
    if function == "LayerNormalization":
        constants.append(numpy_helper.from_array(np.ones(8, np.float32), "norm"))
        nodes.append(helper.make_node(function, ["s", "norm"], ["y"], name="function"))
    elif function:
        nodes.append(helper.make_node(function, ["s"], ["y"], name="function"))
    return finished(nodes, constants, (16,))


def rows(count: int, *, seed: int) -> Samples:
    array = np.random.default_rng(seed).uniform(-1, 1, (count, 16)).astype(np.float32)
    return Samples.from_arrays(f"rows {seed}", {"x": array})


def findings(plant: Plant, network: onnx.ModelProto) -> tuple[Finding, ...]:
    made = plant.make(network, samples=rows(128, seed=1), calibration=rows(64, seed=2))
    return examined(made, tries=True).findings


def test_outlier_channels_before_a_matrix_product_are_found(plant: Plant) -> None:
    (finding,) = findings(plant, product(large=60))
    assert finding.kind == "outlier-channels" and finding.tensors == ("first.out",)
    numbers = finding.places[0].numbers
    assert numbers["outlier_channels"] == [11] and numbers["times_larger"] > 16
    assert finding.attempts[0].gain is not None
    assert (finding.attempts[0].gain.sqnr_change_db or 0) > 6


def test_products_of_equal_channels_are_no_finding(plant: Plant) -> None:
    assert findings(plant, product()) == ()


@pytest.mark.parametrize("function", ["Softmax", "Sigmoid", "LogSoftmax"])
def test_a_step_that_is_too_coarse_for_what_reads_it_is_found(plant: Plant, function: str) -> None:
    found = findings(plant, product(function, times=15))
    (finding,) = found
    assert finding.kind == "needs-bits" and finding.tensors == ("second.out",)
    numbers = finding.places[0].numbers
    assert numbers["op_type"] == function and numbers["step"] > 0.25


@pytest.mark.parametrize("function", ["Softmax", "Sigmoid", "LayerNormalization"])
def test_a_step_that_is_fine_enough_is_no_finding(plant: Plant, function: str) -> None:
    assert findings(plant, product(function)) == ()


def test_weights_that_shift_a_mean_are_found_and_the_cure_is_tried(plant: Plant) -> None:
    change = edited(SetBits("conv2.weight", 4))
    planted = plant.make(convnet(convnet_weights()), change=change)
    (finding,) = examined(planted, tries=True).findings
    assert finding.kind == "mean-shift" and finding.tensors == ("conv2.weight",)
    assert [a.remedy.cure for a in finding.attempts] == ["bias correction", "rounding"]
    for attempt in finding.attempts:
        assert attempt.remedy.edits
        assert attempt.gain is not None and attempt.gain.sqnr_change_db is not None
        assert attempt.gain.sqnr_change_db > 1
