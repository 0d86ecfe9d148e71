"""What comes back is more for the better, whatever the measure; and how many samples would do."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from planted import Plant, convnet, convnet_weights, edited

from quantscope.diagnose import Diagnosis, Gain, diagnose
from quantscope.edit import SetRange
from quantscope.report import Table, diagnosis_view
from quantscope.run import Score, ScoreDelta


@pytest.fixture(scope="module")
def by_noise(tmp_path_factory: pytest.TempPathFactory) -> Diagnosis:
    """A range ten times too wide, measured by the noise of the outputs: less is better."""
    plant: Plant = Plant(Path(tmp_path_factory.mktemp("plant")))
    made = plant.make(convnet(convnet_weights()), change=edited(SetRange("add.out", 0, 100)))
    return diagnose(
        made.quantized,
        made.samples,
        float_model=made.floats,
        calibration=made.calibration,
        measure="noise",
    )


def test_less_noise_comes_back_with_a_plus(by_noise: Diagnosis) -> None:
    (finding,) = by_noise.findings
    assert finding.cost is not None and finding.cost.helps and finding.cost.delta.delta < 0
    lines = [line for line in diagnosis_view(by_noise) if not isinstance(line, Table)]
    (cost,) = [str(line) for line in lines if "come back with these tensors" in str(line)]
    assert cost.strip().startswith("+")
    tables = [each for each in diagnosis_view(by_noise) if isinstance(each, Table)]
    (row,) = [row for row in tables[-1].rows if row[0] == "add"]
    assert row[2].startswith("+") and "[+" in row[2]


def loss_of(lost: int, gained: int, samples: int) -> Gain:
    floats, quantized = np.ones(samples), np.ones(samples)
    quantized[:lost] = 0
    floats[lost : lost + gained] = 0
    scores = (Score("accuracy", "share", True, each) for each in (floats, quantized))
    return Gain(ScoreDelta(*scores, np.arange(samples)), None)


@pytest.mark.parametrize(("lost", "gained"), [(4, 0), (3, 0), (12, 5), (1, 0)])
def test_more_samples_would_do_than_those_that_do_not(
    by_noise: Diagnosis, lost: int, gained: int
) -> None:
    account = replace(by_noise.account, loss=loss_of(lost, gained, 96))
    assert not account.loss.is_sure
    assert account.would_do is not None and account.would_do > 96


def test_no_number_of_samples_is_told_where_nothing_is_lost_or_the_loss_is_sure(
    by_noise: Diagnosis,
) -> None:
    for loss in (loss_of(2, 3, 96), loss_of(2, 2, 96), loss_of(30, 1, 96)):
        assert replace(by_noise.account, loss=loss).would_do is None
