"""Who is harmed, against counting by hand."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from study_rows import study_result

from quantscope.data import load_sample
from quantscope.edit import SetBits
from quantscope.errors import BadDataError
from quantscope.run import Classes, Evaluation, Score, score_of_classes
from quantscope.study.harm import find_harm, harm_of_study, write_harm
from quantscope.study.variants import VariantBench

NAMES = ("cat", "dog", "cow")
LABELS = np.array([0, 1, 2, 0, 1])
FLOATS = np.array(
    [[5.0, 1, 0], [0, 2, 1.5], [0, 1, 1.25], [1, 0, 0.5], [3, 0, 0]]  # the last one is wrong
)
BASE: dict[str, Any] = {
    "digest": "0" * 64,
    "execution": "reference",
    "data": "made up",
    "data_digest": "1" * 64,
    "indices": np.arange(70, 75),
    "provenance": {"onnxruntime": "1"},
}


def answers(scores: np.ndarray, name: str = "m", labels: np.ndarray | None = LABELS) -> Evaluation:
    classes = Classes(scores, scores.argmax(axis=1), labels, None, NAMES)
    scored = None if labels is None else score_of_classes(classes)
    return Evaluation(**BASE, model=name, outputs={"y": scores}, scored=scored, classes=classes)


def numbers(values: list[float], name: str = "m") -> Evaluation:
    scored = Score("SQNR of the outputs", "dB", True, np.array(values))
    return Evaluation(**BASE, model=name, outputs={}, scored=scored, classes=None)


def moved(**rows: int) -> np.ndarray:
    """The float model's scores with other classes for some rows, by r0, r1, ..."""
    scores = FLOATS.copy()
    for name, place in rows.items():
        scores[int(name[1:])] = np.eye(3)[place]
    return scores


VARIANTS = {
    "one": answers(moved(r1=2, r2=1)),
    "two": answers(moved(r1=2, r4=1)),
    "three": answers(moved(r1=0)),
}


def test_a_sample_is_counted_for_every_variant_that_puts_it_elsewhere() -> None:
    found = find_harm(answers(FLOATS), VARIANTS)
    assert found.variants == ("one", "two", "three")
    assert found.how_often == (2, 2, 0, 1) and (found.ever, found.always) == (3, 1)
    assert [(each.index, each.changed) for each in found.worst] == [(71, 3), (72, 1), (74, 1)]
    first, cow, wrong = found.worst
    assert first.classes == (("cow", 2), ("cat", 1)) and first.label == first.float_class == "dog"
    assert (first.lost, first.gained) == (3, 0) and first.margin == 0.5
    assert (cow.lost, cow.gained, cow.margin) == (1, 0, 0.25)
    assert (wrong.lost, wrong.gained, wrong.float_class) == (0, 1, "cat")


def test_margins_say_how_far_the_harmed_were_from_it() -> None:
    found = find_harm(answers(FLOATS), VARIANTS)
    assert found.safe_margin == 3.0  # row 4, which the float model is sure of, and wrong
    assert found.median_margin_changed == 0.5
    assert found.median_margin_kept == pytest.approx((4 + 0.5) / 2)


def test_classes_and_moves_are_counted_over_samples_and_variants() -> None:
    found = find_harm(answers(FLOATS), VARIANTS)
    rows = {each.name: each for each in found.classes}
    assert (rows["dog"].samples, rows["dog"].ever, rows["dog"].changed) == (2, 2, 4)
    assert (rows["dog"].lost, rows["dog"].gained) == (3, 1)
    assert (rows["cat"].changed, rows["cow"].changed) == (0, 1)
    assert found.moves[0] == ("dog", "cow", 2)


def test_without_labels_classes_are_the_float_models() -> None:
    unlabelled = {name: answers(v.outputs["y"], labels=None) for name, v in VARIANTS.items()}
    unlabelled = {
        name: replace(v, scored=Score("agreement", "share", True, np.ones(5)))
        for name, v in unlabelled.items()
    }
    found = find_harm(answers(FLOATS, labels=None), unlabelled)
    assert not found.has_labels and found.how_often == (2, 2, 0, 1)
    assert all(each.label is None and each.lost == each.gained == 0 for each in found.worst)


def test_without_classes_those_come_first_that_lose_most() -> None:
    float_scores = numbers([30.0, 30, 30, 30, np.nan])
    found = find_harm(
        float_scores,
        {"one": numbers([20, 29, 30, 25, 1]), "two": numbers([30, 10, 30, np.nan, 1])},
    )
    assert not found.tells_classes and found.how_often == () and found.ever == 0
    assert [each.index for each in found.worst] == [71, 70, 73, 72]
    worst = found.worst[0]
    assert worst.mean_loss == pytest.approx(10.5)
    assert (worst.worst_loss, worst.worst_variant) == (20, "two")


def test_without_a_float_score_those_come_first_that_are_worst() -> None:
    floats = replace(numbers([0, 0, 0, 0, 0]), scored=None)
    found = find_harm(floats, {"one": numbers([9.0, 3, 8, 7, 6])})
    assert not found.has_float_score
    assert [each.index for each in found.worst] == [71, 74, 73, 72, 70]


def test_variants_of_other_samples_are_refused() -> None:
    other = replace(VARIANTS["one"], data="others", data_digest="2" * 64)
    with pytest.raises(BadDataError, match=r"^one was measured on others, the float model on made"):
        find_harm(answers(FLOATS), {"one": other})
    with pytest.raises(BadDataError, match=r"^Nobody is harmed by nothing"):
        find_harm(answers(FLOATS), {})


def test_edits_that_were_tried_harm_as_evaluating_each_says() -> None:
    bench = VariantBench.open("resnet8-int8", load_sample().take(60))
    tried = {
        "4-bit weights": [SetBits("weights", 4)],
        "4-bit activations": [SetBits("activations", 4)],
    }
    measured = bench.measure(tried, what="Trying")
    found = find_harm(bench.floats, measured)
    changed = [v.predictions != bench.floats.predictions for v in measured.values()]
    assert found.ever == int(np.logical_or(*changed).sum()) > 0
    assert found.always == int(np.logical_and(*changed).sum())


def test_a_studys_rows_say_who_is_harmed() -> None:
    found = harm_of_study(study_result())
    assert found is not None and len(found.variants) == len(study_result().measured)
    base = study_result().baseline.reference
    assert base is not None
    counts = np.zeros(base.images, int)
    for row in study_result().measured:
        assert row.reference is not None
        counts += np.array(row.reference.predictions) != np.array(base.predictions)
    assert found.how_often == tuple(np.bincount(counts, minlength=len(found.variants) + 1))
    # These rows are as they were before margins were kept.
    assert found.safe_margin is None and all(each.margin is None for each in found.worst)


def test_harm_is_a_file_of_plain_values(tmp_path: Path) -> None:
    write_harm({"reference": find_harm(answers(FLOATS), VARIANTS)}, tmp_path)
    values = json.loads((tmp_path / "harm.json").read_text())["reference"]
    assert values["ever"] == 3 and values["worst"][0]["index"] == 71
    assert values["provenance"] == {"onnxruntime": "1"}
