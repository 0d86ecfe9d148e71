"""Ranges of networks of all kinds: several inputs, states, ids, outputs without classes."""

from pathlib import Path

import numpy as np
import pytest

from quantscope.data import Samples
from quantscope.study.calibration import inspect_calibration
from small_networks import NAMES, feeds, float_path


def rows(name: str, first: int, count: int) -> Samples:
    parts = [feeds(name, 1, seed=seed) for seed in range(first, first + count)]
    arrays = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
    return Samples.from_arrays(f"{name} rows", arrays)


@pytest.mark.parametrize("name", NAMES)
def test_every_network_has_ranges_and_says_what_goes_beyond(name: str, tmp_path: Path) -> None:
    path = float_path(name, tmp_path)
    found = inspect_calibration(path, rows(name, 10, 6), rows(name, 0, 3))
    assert found.tensors
    for each in found.tensors:
        assert each.low.value <= each.high.value and each.growth[-1][0] == 6
        over = each.overflow
        assert over is not None and over.samples == 3
        assert (over.low < each.low.value) == (over.below > 0)
        assert (over.high > each.high.value) == (over.above > 0)
    listed = {each.name for each in found.tensors}
    assert not listed & found.left_out.keys()
