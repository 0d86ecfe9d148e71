"""`quantscope evaluate` of what is no labelled classifier: what is counted, and what is said."""

import json
from pathlib import Path

import numpy as np
import pytest

from small_networks import feeds, float_path, quantized
from support.in_process import refused, run

ROWS = 6
OWN = """
def size(outputs, targets):
    return abs(outputs["scale_0"]).mean(axis=(1, 2))
size.unit = "px"

def broken(outputs, targets):
    raise KeyError("boxes")

def nan(outputs, targets):
    return [float("nan")] * len(outputs["scale_0"])

def total(outputs, targets):
    return outputs["scale_0"].sum()
"""


def rows(name: str, folder: Path, labels: np.ndarray | None = None) -> Path:
    parts = [feeds(name, 1, seed=seed) for seed in range(ROWS)]
    arrays = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
    path = folder / f"{name}-rows.npz"
    np.savez(path, **arrays, **({} if labels is None else {"labels": labels}))
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("evaluate")
    (made / "own.py").write_text(OWN)
    for name in ("detector", "bytes"):
        rows(name, made)
        quantized(name, "qdq-uint8", made)
        float_path(name, made)
    return made


def test_outputs_that_are_no_scores_are_measured_as_signals(folder: Path) -> None:
    model = quantized("detector", "qdq-uint8", folder)
    data = folder / "detector-rows.npz"
    text = run("evaluate", model, "--data", data, COLUMNS="140").stdout
    assert "SQNR of the outputs 29." in text and " dB  [" in text
    # The mean over rows and the ratio of all energies are two numbers, and told apart.
    assert f"mean of {ROWS} " in text and "pooled SQNR dB" in text
    assert f"against {model.name} with every quantizer off" in text
    assert "scale_0" in text and "largest difference" in text
    found = json.loads(run("evaluate", model, "--data", data, "--json").stdout)
    assert found["score"]["measure"] == "SQNR of the outputs" and found["score"]["unit"] == "dB"
    assert found["score"]["interval_of"] == "Student's t" and found["score"]["samples"] == ROWS
    assert (found["accuracy"], found["confusion"], found["per_class"]) == (None, None, None)
    assert found["against_float"]["is_stand_in"]
    names = [each["name"] for each in found["against_float"]["outputs"]]
    assert names == ["scale_0", "scale_1", "scale_2"]
    assert [each["shape"] for each in found["outputs"]] == [[256, 7], [64, 7], [16, 7]]


def test_scores_without_labels_are_measured_by_agreement(folder: Path) -> None:
    model, floats = quantized("bytes", "qdq-uint8", folder), float_path("bytes", folder)
    data = folder / "bytes-rows.npz"
    text = run("evaluate", model, "--data", data, "--float", floats, COLUMNS="140").stdout
    assert "top-1 agreement with the float model " in text and "KL " in text
    assert f"against {floats.name}\n" in text
    assert "accuracy" not in text
    same = run("evaluate", model, "--data", data, "--against", floats, COLUMNS="140").stdout
    assert same == text  # a float model is what agreement is with


def test_ranges_that_every_batch_finds_anew_are_told(folder: Path) -> None:
    found = run(
        "evaluate", quantized("bytes", "dynamic", folder), "--data", folder / "bytes-rows.npz"
    )
    assert "are found anew in every batch: other batches give other answers" in found.stderr
    stored = quantized("bytes", "qdq-uint8", folder)
    assert "anew" not in run("evaluate", stored, "--data", folder / "bytes-rows.npz").stderr


def test_both_executions_and_a_second_model_are_paired_by_the_score(folder: Path) -> None:
    model = quantized("detector", "qdq-uint8", folder)
    other = quantized("detector", "qdq-int8-per-channel", folder)
    data = folder / "detector-rows.npz"
    words = ("evaluate", model, "--data", data, "--execution", "both", "--against", other)
    text = " ".join(run(*words).stdout.split())
    assert f"against {other.name}, runtime execution, SQNR of the outputs " in text
    assert "dB [" in text and "(paired t)" in text and "paired t-test p = " in text
    found = json.loads(run(*words, "--json").stdout)
    against = found["executions"]["runtime"]["against"]
    assert against["by_score"]["interval_of"] == "paired t"
    assert against["both_correct"] is None
    assert not found["kernel_gap"]["is_real"]


def test_a_function_of_ones_own_is_what_is_counted(folder: Path) -> None:
    model, data = quantized("detector", "qdq-uint8", folder), folder / "detector-rows.npz"
    words = ("evaluate", model, "--data", data, "--measure", f"{folder / 'own.py'}:size")
    assert "own.py:size " in run(*words).stdout
    score = json.loads(run(*words, "--lower-is-better", "--json").stdout)["score"]
    assert (score["measure"], score["unit"]) == ("own.py:size", "px")
    assert not score["higher_is_better"]
    assert "(lower is better)" in run(*words, "--lower-is-better").stdout


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("broken", "own.py:broken raised KeyError: 'boxes' (line 7 of own.py)"),
        ("nan", "own.py:nan gave nan for row 0; it must give a finite number for every row"),
        (
            "total",
            "own.py:total gave float32 of shape [] for 6 rows; it must give one number",
        ),
    ],
)
def test_a_measure_that_fails_is_one_line(folder: Path, function: str, message: str) -> None:
    model, data = quantized("detector", "qdq-uint8", folder), folder / "detector-rows.npz"
    spec = f"{folder / 'own.py'}:{function}"
    assert message in refused("evaluate", model, "--data", data, "--measure", spec)


def test_a_float_model_alone_says_what_it_gives_and_what_to_give(folder: Path) -> None:
    model, data = float_path("detector", folder), folder / "detector-rows.npz"
    text = run("evaluate", model, "--data", data, COLUMNS="200").stdout
    assert f"no score: {model.name} is a float model, and nothing is known" in text
    assert "quantscope quantize" in text and "scale_2" in text and "lowest" in text
    line = refused("evaluate", model, "--data", data, "--measure", "signal")
    assert f"{model.name} is a float model" in line


def test_measures_that_do_not_fit_are_one_line(folder: Path) -> None:
    model, data = quantized("detector", "qdq-uint8", folder), folder / "detector-rows.npz"
    words = ("evaluate", model, "--data", data)
    classifier = quantized("bytes", "qdq-uint8", folder)
    asked = ("--data", folder / "bytes-rows.npz", "--measure", "top1")
    assert "bytes-rows.npz has no labels" in refused("evaluate", classifier, *asked)
    line = refused(*words, "--measure", "agreement")
    assert "'scale_0' has the shape [6, 256, 7], not [samples, classes]" in line
    assert "There is no measure 'best'" in refused(*words, "--measure", "best")
    assert "--lower-is-better goes with" in refused(*words, "--lower-is-better")


def test_whatif_speaks_of_the_score(folder: Path) -> None:
    model, data = quantized("detector", "qdq-uint8", folder), folder / "detector-rows.npz"
    words = ("whatif", model, "--data", data, "--off", "images", "--no-sqnr")
    text = run(*words, COLUMNS="140").stdout
    assert "SQNR of the outputs\nedited    " in text and "(paired t)" in text
    found = json.loads(run(*words, "--json").stdout)
    assert found["evaluation"]["score"]["unit"] == "dB"
    assert found["against_base"]["by_score"]["p_of"] == "paired t-test"
    assert found["against_float"] is None
