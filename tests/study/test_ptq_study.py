"""Real studies of a small random network: rows, results and what is refused."""

import csv
import io
import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quantscope.data import load_sample
from quantscope.errors import BadConfigError, BadModelError, QuantscopeError
from quantscope.quantize import PtqConfig, quantize_onnx
from quantscope.run import compare_evaluations, evaluate, kernel_map
from quantscope.study import StudyConfig, StudyPlan, StudyResult, run_ptq_study, write_results
from quantscope.zoo import Weights, write_safetensors

IMAGES = 60
CONFIGS = (
    StudyConfig(PtqConfig(calibration_images=8)),
    StudyConfig(PtqConfig(calibration_images=8, activations="uint8", format="qoperator")),
)
PLAN = StudyPlan("test", CONFIGS)


def study(folder: Path, model: Path, plan: StudyPlan = PLAN, **options: Any) -> StudyResult:
    with ThreadPoolExecutor(1) as serial:
        return run_ptq_study(
            plan, folder, **{"model": model, "images": IMAGES, "executor": serial, **options}
        )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("studies") / "study"


@pytest.fixture(scope="module")
def result(folder: Path, random_resnet8: Path) -> StudyResult:
    return study(folder, random_resnet8)


def test_rows_say_what_the_parts_say_by_themselves(
    result: StudyResult, random_resnet8: Path, tmp_path: Path
) -> None:
    data = load_sample().take(IMAGES)
    for row, config in zip(result.rows, CONFIGS, strict=True):
        made = quantize_onnx(random_resnet8, tmp_path / f"{row.key}.onnx", config.ptq)
        assert row.facts["model_digest"] == made.digest
        assert row.size_bytes == made.path.stat().st_size
        by = {}
        for execution in ("reference", "runtime"):
            by[execution] = evaluate(made.path, data, execution=execution, threads=1)  # type: ignore[arg-type]
            float_model = evaluate(random_resnet8, data, execution=execution, threads=1)  # type: ignore[arg-type]
            pair = compare_evaluations(by[execution], float_model)
            found = row.executions()[execution]
            assert found.predictions == tuple(by[execution].predictions)
            assert found.correct == by[execution].correct
            assert found.confusion == tuple(map(tuple, by[execution].confusion.tolist()))
            assert found.change is not None
            assert found.change.delta == pair.delta
            assert found.change.interval_95 == pair.interval_95
            assert found.change.p_value == pair.p_value
            assert found.change.changed == len(pair.changed)
            changes = [c.delta for c in pair.per_class]
            assert found.change.worst_class_change == min(c for c in changes if c is not None)
            worst = found.change.worst_class
            assert worst == data.class_names[int(np.argmin(np.array(changes, float)))]
        gap = compare_evaluations(by["runtime"], by["reference"])
        kernels = kernel_map(made.path)
        assert row.kernel_gap is not None
        assert row.kernel_gap.delta == gap.delta
        assert row.kernel_gap.changed == len(gap.changed)
        assert row.kernel_gap.integer_layers == kernels.integer_layers
        assert row.kernel_gap.computing_layers == kernels.computing_layers


def test_a_row_carries_its_provenance(result: StudyResult) -> None:
    facts = result.rows[0].facts["provenance"]
    assert facts["data"]["images"] == IMAGES
    assert facts["data"]["digest"] == load_sample().take(IMAGES).digest
    assert facts["float_model"]["name"] == "random_resnet8.onnx"
    assert {"onnxruntime", "numpy", "quantscope"} <= facts["versions"].keys()
    assert facts["runtime_options"]["session.qdqisint8allowed"] == "platform default"
    assert facts["quantization"]["calibration"]["images"] == 8


def test_worker_processes_find_what_a_serial_run_finds(
    result: StudyResult, tmp_path: Path, random_resnet8: Path
) -> None:
    parallel = study(tmp_path / "s", random_resnet8, executor=None, workers=2)
    assert _without_seconds(parallel) == _without_seconds(result)


def _without_seconds(result: StudyResult) -> Any:
    def strip(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: strip(v) for k, v in value.items() if k != "seconds"}
        return [strip(v) for v in value] if isinstance(value, list) else value

    return strip(result.to_dict())


def test_another_plan_on_the_same_model_adds_rows(
    result: StudyResult, folder: Path, random_resnet8: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    new = StudyConfig(PtqConfig(calibration_images=8, per_channel=False))
    more = study(copy, random_resnet8, StudyPlan("more", (new, CONFIGS[1])))
    assert [row.label for row in more.rows] == [c.label() for c in (new, CONFIGS[1], CONFIGS[0])]
    assert more.rows[1:] == (result.rows[1], result.rows[0])


def test_a_folder_of_another_model_or_other_images_is_refused(
    result: StudyResult, folder: Path, random_resnet8: Path
) -> None:
    with pytest.raises(QuantscopeError, match=r"study of another model: random_resnet8\.onnx"):
        run_ptq_study(PLAN, folder, images=IMAGES)
    expected = "another set of images: sample, 60 images .*not sample, 50 images"
    with pytest.raises(QuantscopeError, match=expected):
        study(folder, random_resnet8, images=50)


def test_a_configuration_that_fails_is_a_row_that_says_why(
    tmp_path: Path, random_resnet8: Path
) -> None:
    bad = PtqConfig.from_dict(
        {"calibration_images": 8, "overrides": [{"layer": "heat", "left_float": True}]}
    )
    found = study(tmp_path / "s", random_resnet8, StudyPlan("bad", (StudyConfig(bad), CONFIGS[0])))
    failed, good = found.rows
    assert failed.reason is not None
    assert failed.reason.startswith("No layer 'heat' in ")
    assert good.reference is not None
    assert found.table()[0]["reason"] == failed.reason


def test_torch_rows_run_on_the_weights_in_the_onnx_file(
    tmp_path: Path, random_resnet8: Path, random_weights: Weights
) -> None:
    pytest.importorskip("torchao")
    torch_config = StudyConfig(PtqConfig(framework="torch", calibration_images=8))
    plan = StudyPlan("torch", (torch_config,))
    (row,) = study(tmp_path / "s", random_resnet8, plan).rows
    assert row.reason is None
    assert row.reference is not None
    assert row.runtime is None and row.kernel_gap is None
    saved = tmp_path / "weights.safetensors"
    write_safetensors(random_weights, saved)
    (given,) = study(tmp_path / "s", random_resnet8, plan, torch_model=saved).rows
    assert given.key == row.key, "the same weights, so nothing is run again"


def test_without_weights_torch_rows_say_so_and_the_rest_runs(
    tmp_path: Path, random_resnet8: Path
) -> None:
    import onnx

    other = onnx.load(random_resnet8)
    other.graph.node[-1].name = "classifier"
    model = tmp_path / "other.onnx"
    onnx.save(other, model)
    torch_config = StudyConfig(PtqConfig(framework="torch", calibration_images=8))
    found = study(tmp_path / "s", model, StudyPlan("both", (torch_config, CONFIGS[0])))
    assert found.rows[0].reason == (
        "Not run: other.onnx is not a ResNet8 of quantscope's, so PyTorch needs its weights: "
        "--torch-model FILE.safetensors"
    )
    assert found.rows[1].reference is not None
    assert not any(row.stem == found.rows[0].key for row in (tmp_path / "s" / "rows").iterdir())
    with pytest.raises(BadModelError, match="None of the study's configurations can run"):
        study(tmp_path / "t", model, StudyPlan("torch", (torch_config,)))


def test_bad_input_is_refused_before_anything_is_made(
    tmp_path: Path, random_resnet8: Path, random_weights: Weights
) -> None:
    quantized = tmp_path / "quantized.onnx"
    quantize_onnx(random_resnet8, quantized, CONFIGS[0].ptq)
    weights = tmp_path / "weights.safetensors"
    write_safetensors(random_weights, weights)
    out = tmp_path / "s"
    with pytest.raises(BadModelError, match="is quantized already"):
        study(out, quantized)
    with pytest.raises(BadModelError, match="is a PyTorch model; give the ONNX one with --model"):
        study(out, weights)
    with pytest.raises(BadModelError, match=r"--torch-model takes a \.safetensors file"):
        study(out, random_resnet8, torch_model=random_resnet8)
    with pytest.raises(BadConfigError, match="--images 0 is not possible"):
        study(out, random_resnet8, images=0)
    assert not out.exists()


def test_results_are_the_same_in_csv_json_and_table(result: StudyResult, tmp_path: Path) -> None:
    write_results(result, tmp_path)
    records = list(csv.DictReader(io.StringIO((tmp_path / "results.csv").read_text())))
    document = json.loads((tmp_path / "results.json").read_text())
    assert len(records) == len(document["rows"]) == len(result.table()) == 2
    for record, row, flat in zip(records, document["rows"], result.table(), strict=True):
        assert float(record["reference_accuracy"]) == row["reference"]["accuracy"]
        assert float(record["kernel_gap"]) == row["kernel_gap"]["delta"] == flat["kernel_gap"]
        assert int(record["size_bytes"]) == row["size_bytes"]
        assert record["label"] == row["label"]
        assert "predictions" not in row["reference"]
    assert document["provenance"]["data"][0]["images"] == IMAGES
