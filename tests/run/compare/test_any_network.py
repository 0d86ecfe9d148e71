"""Comparisons of networks with any inputs and outputs, without labels."""

import json
from pathlib import Path

import numpy as np
import pytest

from quantscope.data import Samples
from quantscope.model import Execution
from quantscope.run.compare import Comparison, compare
from small_networks import NAMES, feeds, float_path, quantized

MOVED = {"state": 1}  # the axis of its rows


def rows(name: str, count: int = 3) -> Samples:
    given = feeds(name, count, seed=5)
    arrays = {key: np.moveaxis(array, MOVED.get(key, 0), 0) for key, array in given.items()}
    return Samples.from_arrays("rows", arrays)


def compared(name: str, form: str, folder: Path, execution: Execution = "reference") -> Comparison:
    floats = float_path(name, folder)
    model = quantized(name, form, folder)
    return compare(model, rows(name), float_model=floats, execution=execution)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("form", ["qdq-int8-per-channel", "qoperator"])
def test_any_inputs_and_outputs_are_compared_without_labels(
    name: str, form: str, tmp_path: Path
) -> None:
    found = compared(name, form, tmp_path)
    assert not found.unpaired
    # A table's integers that are gathered have no quantizer of their own in QOperator.
    gathered = {"embedding.out"} if (name, form) == ("bytes", "qoperator") else set()
    assert {tensor.name for tensor in found.unseen} == gathered
    for tensor in found.activations:
        assert tensor.exact or (tensor.sqnr_db is not None and tensor.sqnr_db > 8), tensor.name
        if tensor.sources is not None:
            assert tensor.sources.total == pytest.approx(1, abs=1e-4), tensor.name
        else:
            assert tensor.no_sources
    assert len(json.dumps(found.to_dict())) < 3e6


@pytest.mark.parametrize("name", ["encoder", "recurrent"])
def test_outputs_in_runtime_execution_are_those_of_the_model_as_it_ships(
    name: str, tmp_path: Path
) -> None:
    found = compared(name, "qdq-uint8", tmp_path, "runtime")
    assert {t.name for t in found.activations} | {u.name for u in found.unseen} == {
        t.name for t in compared(name, "qdq-uint8", tmp_path).activations
    }
