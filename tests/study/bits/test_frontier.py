"""A walk from all bits downwards, one tensor at a time."""

from pathlib import Path

import numpy as np
import pytest

from quantscope.data import Samples, load_sample, stratify
from quantscope.edit import Editor, Recipe, SetBits, replay
from quantscope.errors import BadConfigError
from quantscope.run import evaluate
from quantscope.run.whatif import WhatIf
from quantscope.study.bits import Frontier, walk_frontier

MODEL = "resnet8-int8"


@pytest.fixture(scope="module")
def images() -> Samples:
    return load_sample().take(30)


@pytest.fixture(scope="module")
def found(images: Samples) -> Frontier:
    return walk_frontier(MODEL, images, widths=[8, 4], saving="size", ranked_on=12)


def test_each_step_narrows_one_tensor_and_saves_something(found: Frontier) -> None:
    assert found.points[0].step == "" and set(found.points[0].bits.values()) == {8}
    for before, after in zip(found.points, found.points[1:], strict=False):
        differing = {n for n in after.bits if after.bits[n] != before.bits[n]}
        assert differing == {after.step}
        assert after.weight_bytes < before.weight_bytes
    # Only weights save bytes: all of them are narrowed at the end, and nothing else is.
    last = found.points[-1]
    assert {name for name, bits in last.bits.items() if bits == 4} == {
        name for name in last.bits if name.endswith(".weight")
    }
    assert last.weight_bytes == found.uniform[-1].weight_bytes == found.points[0].weight_bytes // 2


def test_the_same_bits_for_all_weights_leave_activations_as_they_are(
    found: Frontier, images: Samples
) -> None:
    # Where bytes are saved, narrow activations would cost score for nothing.
    what_if = WhatIf(MODEL, images, quick=len(images))
    narrow = found.uniform[-1]
    assert narrow.score == what_if.answer([SetBits("weights", 4)]).evaluation.score.value
    assert narrow.bits == found.points[-1].bits
    compute = walk_frontier(MODEL, images.take(4), widths=[8, 4], ranked_on=2)
    assert set(compute.uniform[-1].bits.values()) == {4}


def test_the_first_step_adds_least_noise_for_what_it_saves(found: Frontier) -> None:
    # The oracle tries every weight alone, each in a model of its own.
    images = stratify(load_sample().take(30), 12)
    what_if = WhatIf(MODEL, images, quick=len(images))
    floats = evaluate("resnet8", images, execution="reference").scores.astype(np.float64)
    sizes = {
        t.name: int(np.prod(t.integers().shape))
        for t in Editor(MODEL).network.tensors
        if t.role == "weight"
    }

    def noise(edits: list[SetBits]) -> float:
        scores = what_if.answer(edits, kernels=False).evaluation.scores
        return float(((scores.astype(np.float64) - floats) ** 2).sum())

    start = noise([])
    prices = {n: (noise([SetBits(n, 4)]) - start) / sizes[n] for n in sizes}
    assert found.points[1].step == min(prices, key=prices.__getitem__)


def test_a_point_is_a_model(found: Frontier, images: Samples, tmp_path: Path) -> None:
    point = found.points[5]
    Recipe(base_digest=found.digest, edits=point.edits).save(tmp_path / "five.json")
    editor = Editor(MODEL)
    applied, skipped = replay(Recipe.load(tmp_path / "five.json"), editor)
    applied.save(tmp_path / "five.onnx")
    assert not skipped
    whole = evaluate(tmp_path / "five.onnx", images, execution="reference")
    assert (point.score, point.interval_95) == (whole.score.value, whole.score.interval_95)


def test_one_width_is_no_walk(images: Samples) -> None:
    with pytest.raises(BadConfigError, match="give two or more, not 4 alone"):
        walk_frontier(MODEL, images, widths=[4])
