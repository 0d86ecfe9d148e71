"""Ranges that are chosen anew for each width of a study, and what a study says before it runs."""

from pathlib import Path

import numpy as np
import pytest
from comparison_nets import residual
from in_process import run
from tiny_qdq import images_of

from quantscope.data import load_sample
from quantscope.edit import Editor, SetBits
from quantscope.errors import BadConfigError, BadDataError, QuantscopeError
from quantscope.run import best_ranges, evaluate
from quantscope.study.bits import Estimate, bit_curves, bit_map, choose_ranges, walk_frontier

PICTURES = images_of(np.random.default_rng(2).normal(0, 1, (40, 3, 5, 7)).astype(np.float32))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Editor:
    folder, net = tmp_path_factory.mktemp("small"), residual()
    return Editor(net.save_quantized(folder), net.save_float(folder))


def test_every_width_has_the_range_that_costs_least_with_it(small: Editor) -> None:
    chosen = choose_ranges(small, "best", [4, 3, None], PICTURES)
    found = best_ranges(small.model, PICTURES, float_model=small.original)
    assert (chosen.data, chosen.data_digest) == (found.data, found.data_digest)
    for weights, bits in ((None, 4), (5, 3)):
        after = {c.tensor: c.after for c in small.preview(chosen.edits_for(weights, bits)).changes}
        for each in found.ranges:
            assert after[each.tensor] == each.at_bits(bits).best.params


def test_a_cell_with_the_best_ranges_is_what_the_commands_give(tmp_path: Path) -> None:
    images, words = load_sample().take(40), ("--calibration-images", 8)
    told = run("quantize", "resnet8", "-o", tmp_path / "eight.onnx", *words)
    assert told.returncode == 0, told.stderr
    from quantscope.data import calibration_set

    options = {"float_model": "resnet8", "ranges": "best", "calibration": calibration_set(8)}
    found = bit_map(
        tmp_path / "eight.onnx",
        images,
        weights=[4],
        activations=[5],
        **options,  # type: ignore[arg-type]
    )
    bits = ("--weight-bits", 4, "--activation-bits", 5, "--range", "best")
    told = run("quantize", "resnet8", "-o", tmp_path / "narrow.onnx", *words, *bits)
    assert told.returncode == 0, told.stderr
    whole = evaluate(tmp_path / "narrow.onnx", images, execution="reference")
    assert found.cell(4, 5).score == whole.score.value
    assert (found.ranges, found.to_dict()["ranges"]) == ("best", "best")
    assert found.range_data == calibration_set(8).name


def test_curves_and_walks_take_the_ranges_of_their_widths(small: Editor) -> None:
    def told(**options: object) -> dict[str, float]:
        found = bit_curves(small, PICTURES, widths=[3], **options)  # type: ignore[arg-type]
        return {curve.tensor: curve.points[0].score for curve in found.curves}

    best = told(ranges="best", calibration=PICTURES)
    assert best != told()
    chosen = choose_ranges(small, "best", [3], PICTURES)
    small_best = {t: chosen.edit(t, 3, stored=t.endswith("weight")) for t in best}
    assert small_best["branch.weight"] == SetBits("branch.weight", 3, "best")
    assert isinstance(small_best["branch.out"].range, tuple)
    walk = walk_frontier(
        small, PICTURES, widths=[8, 3], saving="size", ranges="best", calibration=PICTURES
    )
    assert all(
        edit.range == "best"
        for edit in walk.points[-1].edits
        if isinstance(edit, SetBits) and edit.target.endswith("weight")
    )
    assert walk.ranges == "best"


def test_ranges_without_samples_are_refused_where_nothing_suits(small: Editor) -> None:
    with pytest.raises(BadDataError, match="so CIFAR-10's images cannot calibrate it"):
        choose_ranges(small, "best", [4])
    with pytest.raises(BadConfigError, match="Ranges that stay need no samples"):
        choose_ranges(small, "keep", [4], PICTURES)


class _TooMuchError(QuantscopeError):
    pass


def test_what_is_left_is_said_before_it_runs(small: Editor, tmp_path: Path) -> None:
    seen: list[Estimate] = []

    def refuse(found: Estimate) -> None:
        seen.append(found)
        raise _TooMuchError

    model, floats = small.model.path, small.original
    options = {"float_model": floats, "weights": [4], "activations": [4], "out": tmp_path / "map"}
    with pytest.raises(_TooMuchError):
        bit_map(model, PICTURES, agree=refuse, **options)  # type: ignore[arg-type]
    assert not list((tmp_path / "map" / "rows").iterdir())
    bit_map(model, PICTURES, agree=seen.append, **options)  # type: ignore[arg-type]
    bit_map(model, PICTURES, agree=seen.append, **options)  # type: ignore[arg-type]
    assert [(each.networks, each.samples) for each in seen] == [(4, 40), (4, 40), (0, 40)]
    assert seen[0].seconds > 0 == seen[2].seconds
    for study in (bit_curves, walk_frontier):
        with pytest.raises(_TooMuchError):
            study(small, PICTURES, widths=[8, 4], agree=refuse)  # type: ignore[operator]
    assert seen[-1].networks > seen[-2].networks > 4
