"""Calibration that does not fit the data is found by what is wrong with it."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from planted import Plant, convnet, convnet_weights, examined, kinds

from quantscope.data import Samples


@pytest.fixture
def plant(tmp_path: Path) -> Plant:
    return Plant(tmp_path)


def coloured(count: int, *, seed: int) -> np.ndarray:
    """Rows like pictures from 0 to 1, whose channels have means of their own."""
    rng = np.random.default_rng(seed)
    means = np.array([0.3, 0.45, 0.6], np.float32).reshape(3, 1, 1)
    rows = means + rng.uniform(-0.3, 0.3, (count, 3, 6, 7))
    return rows.astype(np.float32)


def samples(name: str, array: np.ndarray) -> Samples:
    return Samples.from_arrays(name, {"x": np.float32(array)})


@pytest.mark.parametrize(
    ("prepared", "words"),
    [
        (lambda x: x * 255, "as 0..1 and 0..255 do"),
        (lambda x: x[:, ::-1], "fits in the opposite order (RGB and BGR)"),
        (lambda x: x - 0.9, "a mean that only one side takes away"),
    ],
    ids=["255", "swapped", "mean"],
)
def test_another_preprocessing_is_told_and_undone(
    plant: Plant, prepared: Callable[[np.ndarray], np.ndarray], words: str
) -> None:
    planted = plant.make(
        convnet(convnet_weights()),
        samples=samples("data", coloured(128, seed=1)),
        calibration=samples("calibration", prepared(coloured(64, seed=2))),
    )
    (finding,) = examined(planted, tries=True).findings
    assert finding.kind == "preprocessing" and words in finding.places[0].seen
    (attempt,) = finding.attempts
    mended = attempt.remedy.calibration
    assert mended is not None
    np.testing.assert_allclose(
        np.mean(np.asarray(mended.arrays["x"]), axis=(0, 2, 3)), [0.3, 0.45, 0.6], atol=0.02
    )
    assert attempt.gain is not None and attempt.gain.sqnr_change_db is not None


def test_the_same_preprocessing_is_no_finding(plant: Plant) -> None:
    planted = plant.make(
        convnet(convnet_weights()),
        samples=samples("data", coloured(128, seed=1)),
        calibration=samples("calibration", coloured(64, seed=2)),
    )
    assert kinds(planted) == []


def test_data_beyond_all_that_calibration_saw_are_found(plant: Plant) -> None:
    array = np.asarray(plant.samples.arrays["x"])
    every_third = np.where(np.arange(len(array)) % 3 == 0, 3, 1).reshape(-1, 1, 1, 1)
    wide = samples("wide", every_third * array)
    planted = plant.make(convnet(convnet_weights()), samples=wide)
    (finding,) = examined(planted, tries=True).findings
    assert finding.kind == "uncovered-data" and "x" in finding.tensors
    numbers = next(p.numbers for p in finding.places if p.where == "x")
    assert numbers["data"] == pytest.approx([-3, 3], rel=0.01)
    assert numbers["calibration"] == pytest.approx([-1, 1], rel=0.01)
    (attempt,) = finding.attempts
    assert attempt.gain is not None and attempt.gain.sqnr_change_db is not None
    assert attempt.gain.sqnr_change_db > 3


def labelled(rows: Samples, labels: np.ndarray) -> Samples:
    return Samples.from_arrays(rows.name, rows.arrays, labels=labels)


def test_a_class_that_calibration_never_saw_is_found(plant: Plant) -> None:
    labels = np.arange(64) % 5
    planted = plant.make(
        convnet(convnet_weights()),
        samples=labelled(plant.samples, np.arange(128) % 5),
        calibration=labelled(plant.calibration, np.where(labels == 4, 3, labels)),
    )
    (finding,) = examined(planted).findings
    assert finding.kind == "missing-class" and finding.labels == (4,)
    assert finding.places[0].numbers == {"label": 4, "samples": 25}
    assert finding.cost is not None


def test_calibration_with_every_class_is_no_finding(plant: Plant) -> None:
    planted = plant.make(
        convnet(convnet_weights()),
        samples=labelled(plant.samples, np.arange(128) % 5),
        calibration=labelled(plant.calibration, np.arange(64) % 5),
    )
    assert kinds(planted) == []
