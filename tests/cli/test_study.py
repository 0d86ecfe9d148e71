"""`quantscope study` as a person meets it."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import in_process

COMMAND = [sys.executable, "-m", "quantscope", "study"]
TOML = """
[base]
calibration_images = 8

[grid]
activations = ["int8", "uint8"]
weights = ["int8", "uint8"]

[[config]]
overrides = [{ layer = "heat", left_float = true }]
"""


def study(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "200"},
    )


def refused(*arguments: object) -> str:
    return in_process.refused("study", *arguments)


def test_a_study_leaves_rows_results_and_a_report(tmp_path: Path, random_resnet8: Path) -> None:
    file, out = tmp_path / "study.toml", tmp_path / "out"
    file.write_text(TOML)
    options = ("--out", out, "--model", random_resnet8, "--images", 40, "--workers", 1)
    done = study(file, *options)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "float onnxruntime:" in done.stdout
    assert "failed: int8 · per channel · minmax 8 · float: heat" in done.stdout
    assert "not possible: activations = int8, weights = uint8" in done.stdout
    assert {path.name for path in out.iterdir() if not path.name.startswith(".")} == {
        *("rows", "figures", "study.json"),
        *("results.csv", "results.json", "harm.json", "report.html", "report.md"),
    }
    harm = json.loads((out / "harm.json").read_text())
    assert harm["reference"]["samples"] == 40 == sum(harm["reference"]["how_often"])
    assert all(each["margin"] >= 0 for each in harm["reference"]["worst"])
    assert "Who is harmed" in (out / "report.html").read_text()
    assert len(list((out / "rows").iterdir())) == 1 + 4
    before = {path: path.stat().st_mtime_ns for path in (out / "rows").iterdir()}
    again = in_process.run("study", file, *options, "--json")
    assert again.returncode == 0
    result = json.loads(again.stdout)
    assert [row["status"] for row in result["rows"]] == ["done", "done", "done", "failed"]
    assert result["harm"] == harm
    assert "by_sample" not in result["baselines"]["onnxruntime"]
    assert {path: path.stat().st_mtime_ns for path in (out / "rows").iterdir()} == before


def test_what_a_study_reads_is_not_removed_or_written_over(
    tmp_path: Path, random_resnet8: Path
) -> None:
    out = tmp_path / "out"
    (out / ".scratch").mkdir(parents=True)
    (out / "study.json").write_text('{"of": {}}')
    model = out / ".scratch" / "m.onnx"
    model.write_bytes(random_resnet8.read_bytes())
    plan = tmp_path / "study.toml"
    plan.write_text(TOML)
    assert "m.onnx is in a folder that is emptied; move it elsewhere" in refused(
        plan, "--out", out, "--model", model, "--images", 4
    )
    assert model.exists()
    model.unlink()
    model.parent.rmdir()
    report = out / "report.md"
    report.write_text(TOML)
    assert "report.md is a file that is read; give another name" in refused(
        report, "--out", out, "--model", random_resnet8, "--images", 4
    )
    assert report.read_text() == TOML


def test_ctrl_c_says_what_is_kept_and_how_to_go_on(tmp_path: Path, random_resnet8: Path) -> None:
    out = tmp_path / "out"
    options = ["--preset", "ptq", "--out", out, "--model", random_resnet8]
    with subprocess.Popen(
        [*COMMAND, *map(str, options), "--images", "20", "--workers", "1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as running:
        while len(list(out.glob("rows/*.json"))) < 2:
            assert running.poll() is None, running.communicate()
            time.sleep(0.05)
        os.killpg(running.pid, signal.SIGINT)
        stdout, stderr = running.communicate()
    assert running.returncode == 130
    assert stdout == ""
    line = f"rows are kept in {out}; the same command goes on from there"
    assert stderr.splitlines()[0].endswith(line)


def test_the_help_shows_what_a_file_looks_like() -> None:
    text = in_process.run("study", "--help").stdout
    lines = [line.strip() for line in text.splitlines()]
    for line in ("[base]", "[grid]", "[[config]]", "per_channel = [true, false]"):
        assert line in lines


def test_what_cannot_be_is_one_line(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert "Give a study's TOML file or --preset ptq" in refused("--out", out)
    assert "There is no file missing.toml" in refused("missing.toml", "--out", out)
    assert "There is no preset 'x'" in refused("--preset", "x", "--out", out)
    options = ("--preset", "ptq", "--out", out)
    both = refused(*options, "--workers", 1, "--dask", "tcp://127.0.0.1:9")
    assert "--workers is for this machine and --dask for a cluster" in both
    assert "There is no data 'nothing'" in refused(*options, "--data", "nothing")
    (tmp_path / "mine.txt").write_text("mine")
    assert "holds no study" in refused("--preset", "ptq", "--out", tmp_path)
    assert not out.exists()
