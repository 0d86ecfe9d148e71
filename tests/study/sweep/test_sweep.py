"""A sweep gives every output of every variant, as a whole run of it does."""

from pathlib import Path

import numpy as np
import pytest

import small_networks
from quantscope.data import Samples
from quantscope.edit import Editor, Off
from quantscope.progress import silent
from quantscope.run import gather_outputs, open_runnable
from quantscope.run.onnx.suffix import value_graph
from quantscope.study.sweep import Sweep

BATCH = 2


@pytest.mark.parametrize(
    ("name", "form"),
    [("encoder", "qoperator"), ("recurrent", "qdq-int8-per-channel"), ("detector", "qdq-uint8")],
)
def test_outputs_are_those_of_whole_runs(name: str, form: str, tmp_path: Path) -> None:
    path = small_networks.quantized(name, form, tmp_path)
    editor = Editor(path, small_networks.float_path(name, tmp_path))
    arrays = small_networks.feeds(name, 3)
    if "state" in arrays:
        arrays["state"] = np.moveaxis(arrays["state"], 1, 0)
    samples = Samples.from_arrays("3 rows", arrays)
    weights = [t.name for t in editor.network.tensors if t.role == "weight"]
    variants = {"base": editor.base}
    variants |= {w: editor.apply([Off(w)]).proto for w in (weights[0], weights[-1])}
    sweep = Sweep(samples, BATCH, 1, "Sweeping", silent)
    found = sweep.outputs((each, value_graph(proto)) for each, proto in variants.items())
    assert list(found) == list(variants)
    for variant, proto in variants.items():
        alone = tmp_path / "variant.onnx"
        alone.write_bytes(proto.SerializeToString())
        runnable = open_runnable(alone, execution="reference", threads=1)
        batch = None if runnable.intake.fixed_batch else BATCH
        whole = gather_outputs(runnable, samples, batch=batch).outputs
        assert list(found[variant]) == list(whole)
        for output, values in whole.items():
            np.testing.assert_array_equal(found[variant][output], values)
