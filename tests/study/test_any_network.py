"""Studies of networks that are no labelled classifiers: the measure, its unit, its intervals."""

import csv
import io
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import small_networks
from quantscope.errors import BadConfigError, BadDataError, QuantscopeError
from quantscope.quantize import PtqConfig
from quantscope.report.study import study_view, write_report
from quantscope.report.study.report import summary_lines
from quantscope.report.table import Line, Table
from quantscope.run import ScoreDelta, evaluate
from quantscope.study import StudyConfig, StudyPlan, StudyResult, run_ptq_study, write_results

PLAN = StudyPlan(
    "two",
    (
        StudyConfig(PtqConfig(calibration_images=8)),
        StudyConfig(PtqConfig(calibration_images=8, activations="uint8", weights="uint8")),
    ),
)
OWN = """
def error(outputs, targets):
    first = next(iter(outputs.values()))
    return abs(first.reshape(len(first), -1)).mean(axis=1)

error.higher_is_better = False
error.unit = "mm"
"""


def study(folder: Path, model: Path, plan: StudyPlan = PLAN, **options: Any) -> StudyResult:
    with ThreadPoolExecutor(1) as serial:
        return run_ptq_study(
            plan, folder, **{"model": model, "data": "random:6", "executor": serial, **options}
        )


def shown(result: StudyResult) -> str:
    return "\n".join(
        part.text if isinstance(part, Line) else "\n".join(part.lines(200))
        for part in study_view(result)
        if isinstance(part, Line | Table)
    )


@pytest.fixture(scope="module")
def detector(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_networks.float_path("detector", tmp_path_factory.mktemp("nets"))


@pytest.fixture(scope="module")
def by_signal(detector: Path, tmp_path_factory: pytest.TempPathFactory) -> StudyResult:
    return study(tmp_path_factory.mktemp("studies") / "study", detector)


def test_a_network_without_classes_is_ranked_by_the_sqnr_that_evaluate_finds(
    by_signal: StudyResult, detector: Path, tmp_path: Path
) -> None:
    from quantscope.data import load
    from quantscope.model import open_model
    from quantscope.quantize import quantize_onnx

    model = open_model(detector)
    rows = load("random:6", model=model)
    calibration = load("random:8", model=model, wishes=_seed(1))
    found = []
    for row, config in zip(by_signal.rows, PLAN.configs, strict=True):
        made = quantize_onnx(
            detector, tmp_path / f"{row.key}.onnx", config.ptq, calibration=calibration
        )
        for execution, measured in row.executions().items():
            alone = evaluate(made.path, rows, float_model=detector, execution=execution)  # type: ignore[arg-type]
            assert measured.score.measure == alone.score.measure == "SQNR of the outputs"
            assert measured.score.value == pytest.approx(alone.score.value, abs=1e-4)
            if execution == "reference":
                found.append(alone.score)
        assert row.facts["model_digest"] == made.digest
    best = by_signal.rows.index(by_signal.best)  # type: ignore[arg-type]
    assert best == int(np.argmax([score.value for score in found]))
    other = by_signal.rows[1 - best]
    pair = ScoreDelta(found[1 - best], found[best], np.arange(6))
    change = by_signal.change_of(other)
    assert change is not None and pair.interval_95 is not None
    assert change.interval_of == "paired t"
    assert change.delta == pytest.approx(pair.delta, abs=1e-4)
    assert change.interval_95 == pytest.approx(pair.interval_95, abs=1e-3)
    assert by_signal.change_of(by_signal.rows[best]) is None


def _seed(seed: int) -> Any:
    from quantscope.data import RowWishes

    return RowWishes(seed=seed)


def test_its_table_report_and_json_name_the_measure_and_its_unit(
    by_signal: StudyResult, tmp_path: Path
) -> None:
    text = shown(by_signal)
    assert "measured: SQNR of the outputs in dB, on 6 of random rows (seed 0)\n" in text
    assert "worst class" not in text and "%" not in text
    assert by_signal.best is not None
    assert f"delta: from the best, {by_signal.best.label}" in text
    lines = summary_lines(by_signal)
    assert lines[0] == "Measured is the SQNR of the outputs, in dB, on 6 images."
    assert any(" dB is the best (" in line for line in lines)
    write_results(by_signal, tmp_path)
    report = write_report(by_signal, tmp_path).read_text()
    assert "SQNR of the outputs of every configuration, in both executions." in report
    document = json.loads((tmp_path / "results.json").read_text())
    assert document["measure"] == {
        "name": "SQNR of the outputs",
        "unit": "dB",
        "higher_is_better": True,
        "compared_with": "the best configuration",
        "best": by_signal.best.key,
    }
    assert "per_sample" not in document["rows"][0]["reference"]
    assert len(document["rows"][0]["reference"]["outputs"]) == 3
    record = next(csv.DictReader(io.StringIO((tmp_path / "results.csv").read_text())))
    assert record["reference_unit"] == "dB" and record["reference_accuracy"] == ""
    assert float(record["reference_score"]) == by_signal.rows[0].reference.score.value  # type: ignore[union-attr]


def test_a_classifier_without_labels_is_measured_by_its_agreement(tmp_path: Path) -> None:
    model = small_networks.float_path("bytes", tmp_path)
    arrays = small_networks.feeds("bytes", 12)
    np.savez(tmp_path / "rows.npz", **arrays)
    np.savez(tmp_path / "others.npz", **small_networks.feeds("bytes", 8, seed=1))
    result = study(
        tmp_path / "s",
        model,
        data=str(tmp_path / "rows.npz"),
        calibration_data=str(tmp_path / "others.npz"),
        measure="agreement",
    )
    for row in result.rows:
        assert row.reference is not None, row.reason
        assert row.reference.score.unit == "share"
        assert 0 <= row.reference.score.value <= 1  # type: ignore[operator]
        assert row.reference.change is None
    assert "measured: top-1 agreement with the float model in %" in shown(result)


def test_a_function_of_ones_own_is_compared_with_the_float_models_number(
    detector: Path, tmp_path: Path
) -> None:
    own = tmp_path / "own.py"
    own.write_text(OWN)
    plan = StudyPlan("one", PLAN.configs[:1])
    result = study(tmp_path / "s", detector, plan, measure=f"{own}:error")
    (row,) = result.rows
    assert row.reference is not None and row.reference.change is not None
    float_score = result.score
    assert float_score.unit == "mm" and not float_score.higher_is_better
    assert row.reference.change.delta == pytest.approx(
        row.reference.score.value - float_score.value,  # type: ignore[operator]
    )
    assert row.reference.change.p_of == "paired t-test"
    text = shown(result)
    assert "measured: own.py:error in mm, lower is better, on 6 of random" in text
    assert "float onnxruntime: " in text and " mm of 6 images, reference" in text
    again = study(tmp_path / "s", detector, plan, measure=f"{own}:error")
    assert again.rows == result.rows, "nothing is run twice"
    own.write_text(OWN.replace("abs(", "2 * abs("))
    with pytest.raises(QuantscopeError, match=r"a study of another measure: own\.py:error"):
        study(tmp_path / "s", detector, plan, measure=f"{own}:error")


def test_configurations_take_the_calibration_rows_that_there_are(
    detector: Path, tmp_path: Path
) -> None:
    plan = StudyPlan("many", (StudyConfig(PtqConfig()),))
    np.savez(tmp_path / "few.npz", **small_networks.feeds("detector", 5))
    result = study(tmp_path / "s", detector, plan, calibration_data=str(tmp_path / "few.npz"))
    (row,) = result.rows
    assert row.config["calibration_images"] == 5 and row.reference is not None
    assert "calibration_images = 256: there are 5 rows to calibrate with" in result.skipped[0]


def test_what_cannot_be_measured_is_told_before_anything_is_made(
    detector: Path, tmp_path: Path
) -> None:
    out = tmp_path / "s"
    rows = tmp_path / "rows.npz"
    np.savez(rows, **small_networks.feeds("detector", 4))
    with pytest.raises(BadDataError, match="made-up rows: nothing is right or wrong there"):
        study(out, detector, measure="top1")
    with pytest.raises(BadConfigError, match="nothing calibrates it; give rows that --data does"):
        study(out, detector, data=str(rows))
    with pytest.raises(BadConfigError, match="There is no measure 'best'"):
        study(out, detector, measure="best")
    with pytest.raises(BadConfigError, match=r"--lower-is-better goes with --measure FILE\.py"):
        study(out, detector, lower_is_better=True)
    assert not out.exists()
