"""Sensitivity of networks that are no classifiers: ranked by the score that was measured."""

from pathlib import Path

import numpy as np
import pytest

from quantscope.data import Samples
from quantscope.edit import Editor, Off
from quantscope.report import sensitivity_lines
from quantscope.run import evaluate
from quantscope.study.sensitivity import Sensitivity, sensitivity
from small_networks import NAMES, feeds, quantized

ROWS = 4


def samples(name: str, labels: np.ndarray | None = None) -> Samples:
    parts = [feeds(name, 1, seed=seed) for seed in range(ROWS)]
    arrays = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
    return Samples.from_arrays(f"{name} rows", arrays, labels)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("nets")


@pytest.fixture(scope="module")
def unet(folder: Path) -> Sensitivity:
    return sensitivity(quantized("unet", "qdq-uint8", folder), samples("unet"))


@pytest.mark.parametrize("name", NAMES)
def test_every_network_is_ranked_by_its_own_score(name: str, folder: Path) -> None:
    found = sensitivity(quantized(name, "qdq-uint8", folder), samples(name), mode="both")
    is_classifier = name in ("mobile", "shuffle", "bytes")
    assert found.unit == ("share" if is_classifier else "dB")
    assert found.by_score != is_classifier
    assert found.all_off is not None and found.all_off.exact
    ranked = found.ranked("disable")
    assert [row.rank for row in ranked] == list(range(1, len(ranked) + 1))
    if not is_classifier:
        scores = [np.inf if row.exact else row.score for row in ranked]
        assert scores == sorted(scores, reverse=True)
    text = "\n".join(sensitivity_lines(found))
    assert ("top-1 agreement" if is_classifier else "SQNR of the outputs: quantized ") in text


def test_a_rows_score_is_that_of_evaluating_the_edited_model(
    unet: Sensitivity, folder: Path
) -> None:
    path, rows = quantized("unet", "qdq-uint8", folder), samples("unet")
    editor = Editor(path)
    for row in unet.rows[:3]:
        edited = folder / f"edited-{row.rank}.onnx"
        editor.apply([Off(row.layer)]).save(edited)
        found = evaluate(edited, rows, execution="reference", float_model=editor.against[0])
        assert row.score == pytest.approx(found.score.value, rel=1e-6)
        assert row.accuracy is None
        assert row.delta is not None and unet.quantized is not None
        assert row.delta == pytest.approx(found.score.value - unet.quantized.score, rel=1e-6)


def test_a_measure_of_ones_own_ranks_the_way_it_says(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "own.py"
    file.write_text(
        "def size(outputs, targets):\n    return abs(outputs['mask']).mean((1, 2, 3))\n"
    )
    path, rows = quantized("unet", "qdq-uint8", folder), samples("unet")
    up = sensitivity(path, rows, measure=f"{file}:size")
    assert (up.measure, up.by_score) == ("own.py:size", True)
    scores = [row.score for row in up.ranked("disable")]
    assert scores == sorted(scores, reverse=True)  # type: ignore[type-var]
    assert up.float_score is not None and up.to_dict()["ranked_by"] == "own.py:size"


def test_weights_without_a_float_model_are_told_in_one_line(folder: Path) -> None:
    found = sensitivity(quantized("unet", "qdq-uint8", folder), samples("unet"))
    told = [note for note in found.notes if "taken as the float values" in note]
    assert len(told) == 1 and " more: what the integers" in told[0]


def test_labels_name_the_measure_of_a_classifier(folder: Path) -> None:
    rows = samples("bytes", np.arange(ROWS) % 4)
    found = sensitivity(quantized("bytes", "qdq-uint8", folder), rows)
    assert found.measure == "top-1 accuracy" and not found.by_score
    assert found.float_accuracy == found.float_score
