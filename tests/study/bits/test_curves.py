"""The score of a network with other bits for one tensor at a time."""

import numpy as np
import pytest

from quantscope.data import Samples, load_sample
from quantscope.edit import Editor, SetBits
from quantscope.run import compare_evaluations
from quantscope.run.whatif import WhatIf
from quantscope.study.bits import BitCurves, bit_curves

MODEL = "resnet8-int8"


@pytest.fixture(scope="module")
def images() -> Samples:
    return load_sample().take(30)


@pytest.fixture(scope="module")
def found(images: Samples) -> BitCurves:
    return bit_curves(MODEL, images, widths=[3, 8])


def test_each_point_is_that_edit_alone(found: BitCurves, images: Samples) -> None:
    # The oracle runs one edit at a time, whole.
    what_if = WhatIf(MODEL, images, quick=len(images))
    for curve in found.curves[::4]:
        effect = what_if.answer([SetBits(curve.tensor, 3)], kernels=False)
        narrow, own = curve.points
        assert (narrow.bits, own.bits) == (3, 8)
        assert narrow.score == effect.evaluation.accuracy
        assert narrow.delta == pytest.approx(effect.against_base.delta)
        assert (
            narrow.delta_interval_95
            == compare_evaluations(effect.evaluation, effect.against_base.second).scores.interval_95
        )
        assert (own.score, own.delta) == (found.base, 0.0)


def test_tensors_that_share_a_scale_have_one_curve(found: BitCurves) -> None:
    names = [curve.tensor for curve in found.curves]
    assert len(set(names)) == len(names)
    tensors = {t.name: t for t in Editor(MODEL).network.tensors}
    # Flattened values have the pool's integers and scale.
    assert "pool.out" in names and "flatten.out" not in names
    assert {t.name for t in tensors.values() if t.role == "weight"} <= set(names)
    assert not any(name.endswith(".bias") for name in names)


def test_it_is_plain_values(found: BitCurves) -> None:
    values = found.to_dict()
    assert values["measure"] == "top-1 accuracy" and values["samples"] == 30
    scores = [point["score"] for curve in values["curves"] for point in curve["points"]]
    assert np.isfinite(scores).all()
