"""The noise of the outputs: the signal-to-noise ratio, not in decibels."""

import numpy as np
import pytest

from quantscope.data import Samples
from quantscope.run import MEASURES


def test_noise_is_the_ratio_that_signal_has_in_decibels() -> None:
    rng = np.random.default_rng(3)
    floats = {"y": rng.normal(0, 1, (6, 3, 2)), "z": rng.normal(0, 5, (6, 4))}
    outputs = {name: array + rng.normal(0, 0.1, array.shape) for name, array in floats.items()}
    samples = Samples.from_arrays("made up", {"x": np.zeros((6, 1))})
    noise = MEASURES["noise"].count(outputs, samples, floats)
    decibels = MEASURES["signal"].count(outputs, samples, floats)
    assert -10 * np.log10(noise) == pytest.approx(decibels)


def test_an_exact_sample_has_no_noise_and_one_without_a_signal_no_number() -> None:
    floats = {"y": np.array([[1.0, 2.0], [0.0, 0.0], [np.inf, 1.0]])}
    samples = Samples.from_arrays("made up", {"x": np.zeros((3, 1))})
    found = MEASURES["noise"].count(floats, samples, floats)
    assert found[0] == 0 and np.isnan(found[1:]).all()
