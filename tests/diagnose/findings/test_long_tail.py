"""A range that few samples need is found where clipping them would save more than it costs."""

from pathlib import Path

import numpy as np
import pytest
from planted import SHAPE, Plant, convnet, convnet_weights, edited, examined

from quantscope.data import Samples
from quantscope.edit import SetBits, SetRange


def tailed(count: int, *, seed: int) -> Samples:
    """Rows of which a few have one value far out: too many to be one outlier."""
    rng = np.random.default_rng(seed)
    rows = rng.uniform(-1, 1, (count, *SHAPE)).astype(np.float32)
    rows[:: count // 3, 0, 0, 0] = 12
    return Samples.from_arrays(f"tailed {seed}", {"x": rows})


@pytest.mark.parametrize(("bits", "found"), [(4, True), (8, False)])
def test_a_range_is_too_wide_for_few_bits_and_not_for_many(
    bits: int, found: bool, tmp_path: Path
) -> None:
    planted = Plant(tmp_path).make(
        convnet(convnet_weights()),
        samples=tailed(512, seed=1),
        calibration=tailed(512, seed=2),
        change=edited(SetBits("x", bits)),
    )
    findings = examined(planted, tries=True).findings
    if not found:
        # With 256 steps, one value that is cut off costs more than a finer step saves.
        assert findings == ()
        return
    (finding,) = findings
    assert finding.kind == "long-tail" and finding.tensors == ("x",)
    numbers = finding.places[0].numbers
    assert numbers["times_less_energy"] > 4 and numbers["best_range"][1] < 4
    best = finding.attempts[0]
    assert isinstance(best.remedy.edits[0], SetRange)
    assert best.gain is not None and (best.gain.sqnr_change_db or 0) > 3
