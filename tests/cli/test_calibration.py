"""`quantscope calibration` as a person meets it."""

import json
from pathlib import Path

import numpy as np
import pytest
from in_process import refused, run

MODEL = "resnet8"
FEW = ("--calibration-images", "20", "--images", "20")


def printed(*arguments: object) -> str:
    done = run(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_table_is_along_the_network_with_a_sentence_for_what_stands_out() -> None:
    text = printed("calibration", MODEL, *FEW)
    assert "calibrated with 20 images of cifar10-train-sample" in text
    assert "against 20 images of cifar10-test-sample" in text
    assert text.index("stem.relu.out") < text.index("stack3.relu2.out") < text.rindex("logits")


def test_a_page_and_a_figure_are_written(tmp_path: Path) -> None:
    page, figure = tmp_path / "page.html", tmp_path / "ranges.svg"
    printed("calibration", MODEL, *FEW, "--html", str(page), "--figure", str(figure))
    assert "Calibration of resnet8.onnx" in page.read_text()
    assert figure.read_text().startswith("<?xml")


def test_json_says_who_set_each_end(tmp_path: Path) -> None:
    found = json.loads(printed("calibration", MODEL, *FEW, "--json"))
    assert found["calibration_samples"] == 20 and found["samples"] == 20
    row = next(each for each in found["tensors"] if each["name"] == "stem.relu.out")
    assert row["growth"][-1]["high"] == row["high"]["value"] > row["high"]["without"]
    assert row["overflow"]["samples"] == 20


def test_rows_that_calibrate_and_evaluate_are_refused(tmp_path: Path) -> None:
    array = np.random.default_rng(0).uniform(0, 255, (9, 3, 32, 32)).astype(np.float32)
    one, other = tmp_path / "one.npz", tmp_path / "other.npz"
    np.savez(one, input=array)
    np.savez(other, input=array[::-1][:4])
    same = ("calibration", MODEL, "--calibration-data", str(one), "--data", str(other))
    assert refused(*same).startswith(
        "quantscope: 4 of the 4 images of other.npz are calibration images too"
    )
    assert "calibrated with 9 images" in printed(*same, "--allow-calibration-data")


@pytest.mark.parametrize("count", ["0", "10"])
def test_numbers_of_rows_that_are_not_there_are_refused(count: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.npz"
    np.savez(path, input=np.zeros((9, 3, 32, 32), np.float32))
    told = refused(
        "calibration", MODEL, "--calibration-data", str(path), "--calibration-images", count
    )
    assert "alibration" in told and count in told
