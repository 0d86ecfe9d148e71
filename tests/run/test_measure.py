"""What is counted of a model's answers: measures against NumPy, intervals against SciPy."""

import numpy as np
import pytest
from scipy import stats

from quantscope.data import Samples
from quantscope.errors import BadDataError
from quantscope.run.evaluate import evaluate
from quantscope.run.measure import SameClass, Score, Signal, Top1, score
from quantscope.run.statistics import mean_interval, student_t_95, wilson_interval

RNG = np.random.default_rng(4)
COUNT = 9
FLOATS = {"scores": RNG.normal(size=(COUNT, 5)), "boxes": RNG.normal(size=(COUNT, 3, 4))}
OUTPUTS = {name: array + RNG.normal(0, 0.3, array.shape) for name, array in FLOATS.items()}
ROWS = np.arange(COUNT)


def samples(labels: np.ndarray | None) -> Samples:
    arrays = {"x": np.zeros((COUNT, 2)), "mask": np.ones((COUNT, 1))}
    return Samples("made up", arrays, labels, ROWS, (), "as-is")


def test_top1_is_right_or_wrong_and_a_nan_is_wrong() -> None:
    labels = OUTPUTS["scores"].argmax(axis=1)
    broken = {"scores": OUTPUTS["scores"].copy()}
    broken["scores"][3, 0] = np.nan
    assert score(Top1(), OUTPUTS, samples(labels)).value == 1.0
    found = score(Top1(), broken, samples(labels))
    np.testing.assert_array_equal(found.per_sample, np.where(ROWS == 3, 0.0, 1.0))
    assert found.interval_95 == wilson_interval(COUNT - 1, COUNT)
    assert found.interval_of == "Wilson"


def test_without_labels_there_is_no_accuracy_but_an_agreement() -> None:
    with pytest.raises(BadDataError, match=r"^made up has no labels"):
        score(Top1(), OUTPUTS, samples(None))
    same = OUTPUTS["scores"].argmax(axis=1) == FLOATS["scores"].argmax(axis=1)
    assert score(SameClass(), OUTPUTS, samples(None), FLOATS).value == same.mean()


@pytest.mark.parametrize("measure", [SameClass(), Signal()])
def test_what_needs_the_float_model_says_so(measure: SameClass | Signal) -> None:
    with pytest.raises(BadDataError, match="needs the float model's outputs"):
        score(measure, OUTPUTS, samples(None))


def test_signal_is_the_ratio_of_energies_over_all_outputs_of_a_sample() -> None:
    found = score(Signal(), OUTPUTS, samples(None), FLOATS)
    for row in range(COUNT):
        f, q = (
            np.concatenate([array[row].ravel() for array in arrays.values()])
            for arrays in (FLOATS, OUTPUTS)
        )
        expected = 20 * np.log10(np.linalg.norm(f) / np.linalg.norm(f - q))
        assert found.per_sample[row] == pytest.approx(expected, rel=1e-12)
    low, high = stats.t.interval(
        0.95, COUNT - 1, loc=found.per_sample.mean(), scale=stats.sem(found.per_sample)
    )
    assert found.interval_95 == pytest.approx((low, high), rel=1e-9)
    assert (found.unit, found.interval_of) == ("dB", "Student's t")


def test_samples_without_a_number_are_left_out_of_the_mean() -> None:
    outputs = {name: array.copy() for name, array in OUTPUTS.items()}
    for name, array in outputs.items():
        array[:2] = FLOATS[name][:2]  # no error: no ratio
    found = score(Signal(), outputs, samples(None), FLOATS)
    assert np.isnan(found.per_sample[:2]).all()
    assert found.value == pytest.approx(found.per_sample[2:].mean())
    nothing = Score("m", "dB", True, np.full(3, np.nan))
    assert np.isnan(nothing.value) and nothing.interval_95 is None


@pytest.mark.parametrize("degrees", [1, 2, 3, 4, 9, 50, 199, 200, 201, 999, 100_000])
def test_students_t_is_scipys(degrees: int) -> None:
    assert student_t_95(degrees) == pytest.approx(stats.t.ppf(0.975, degrees), rel=1e-9)


def test_a_mean_of_one_value_has_no_interval() -> None:
    assert mean_interval(np.array([3.0])) is None


def test_the_score_of_an_evaluation_is_its_accuracy() -> None:
    from quantscope.data import load_sample

    found = evaluate("resnet8-int8", load_sample().take(40))
    assert found.score.value == found.accuracy
    assert found.score.interval_95 == found.interval_95
    assert found.score.per_sample.sum() == found.correct
