"""Every function that takes samples takes what they are made of, for any network."""

from pathlib import Path

import numpy as np
import pytest
from tests import small_networks

from quantscope.run import capture, evaluate
from quantscope.run.compare import compare
from quantscope.run.histograms import histograms
from quantscope.run.whatif import WhatIf

FORM = "qdq-int8-per-channel"


@pytest.mark.parametrize("name", small_networks.NAMES)
def test_every_small_network_is_measured_on_random_rows(name: str, tmp_path: Path) -> None:
    model = small_networks.quantized(name, FORM, tmp_path)
    floats = small_networks.float_path(name, tmp_path)
    found = evaluate(model, "random:6", float_model=floats)
    assert (found.images, found.data, found.is_random) == (6, "random rows (seed 0)", True)
    kept = capture(model, "random:2")
    assert kept.tensors
    assert all(len(tensor.values) for tensor in kept.tensors.values())
    compared = compare(model, "random:4", float_model=floats, detail="sqnr")
    sqnrs = [row.sqnr_db for row in compared.tensors if row.sqnr_db is not None]
    # They were calibrated on noise, which is not as bright as smooth pictures.
    assert np.median(sqnrs) > 5


@pytest.mark.parametrize("form", [form for form in small_networks.FORMS if form != FORM])
@pytest.mark.parametrize("name", small_networks.NAMES)
@pytest.mark.slow
def test_every_form_is_measured_on_random_rows(name: str, form: str, tmp_path: Path) -> None:
    model = small_networks.quantized(name, form, tmp_path)
    floats = small_networks.float_path(name, tmp_path)
    assert evaluate(model, "random:3", float_model=floats).is_random
    assert capture(model, "random:2") is not None
    compare(model, "random:3", float_model=floats, detail="sqnr")


def test_arrays_batches_and_names_all_mean_the_same(tmp_path: Path) -> None:
    model = small_networks.quantized("encoder", FORM, tmp_path)
    floats = small_networks.float_path("encoder", tmp_path)
    rows = small_networks.feeds("encoder", 4)
    np.savez(tmp_path / "rows.npz", **rows)
    halves = [{name: array[at : at + 2] for name, array in rows.items()} for at in (0, 2)]
    found = [
        evaluate(model, given, float_model=floats)
        for given in (rows, iter(halves), tmp_path / "rows.npz")
    ]
    assert len({each.data_digest for each in found}) == 1
    assert len({each.score.value for each in found if each.score}) == 1
    assert len(histograms(model, rows, float_model=floats).tensors)
    assert len(WhatIf(model, rows, float_model=floats).images) == 4
