"""A study's folder that somebody or something else has been in."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from study_jobs import SUBJECTS, job
from study_jobs import run as run_jobs

from quantscope.errors import QuantscopeError
from quantscope.quantize import PtqConfig
from quantscope.study import StudyConfig, StudyPlan, StudyResult, open_folder, run_ptq_study

PLAN = StudyPlan("test", (StudyConfig(PtqConfig(calibration_images=4)),))


def study(folder: Path, model: Path) -> StudyResult:
    with ThreadPoolExecutor(1) as serial:
        return run_ptq_study(PLAN, folder, model=model, images=20, executor=serial)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, random_resnet8: Path) -> Path:
    folder = tmp_path_factory.mktemp("studies") / "study"
    study(folder, random_resnet8)
    return folder


@pytest.fixture
def folder(finished: Path, tmp_path: Path) -> Path:
    shutil.copytree(finished, tmp_path / "study")
    return tmp_path / "study"


def without(*names: str) -> Callable[[Any], object]:
    def change(row: Any) -> None:
        for name in names[:-1]:
            row = row[name]
        del row[names[-1]]

    return change


def with_value(value: object, *names: str) -> Callable[[Any], object]:
    def change(row: Any) -> None:
        for name in names[:-1]:
            row = row[name]
        row[names[-1]] = value

    return change


@pytest.mark.parametrize(
    "change",
    [
        without("label"),
        without("config"),
        without("status"),
        without("reference"),
        without("reference", "predictions"),
        without("provenance"),
        without("provenance", "cpu"),
        with_value("text", "reference", "accuracy"),
        with_value([1, 2], "reference", "predictions"),
        with_value([], "reference", "classes"),
        with_value({"name": None}, "provenance", "float_model"),
        with_value("other", "label"),
        with_value({"baseline": "other"}, "config"),
        with_value("soon", "seconds"),
    ],
)
def test_rows_that_lack_something_are_set_aside_and_done_again(
    folder: Path, random_resnet8: Path, change: Callable[[Any], object]
) -> None:
    before = {file.name: json.loads(file.read_bytes()) for file in (folder / "rows").iterdir()}
    for name, row in before.items():
        changed = json.loads(json.dumps(row))
        change(changed)
        (folder / "rows" / name).write_text(json.dumps(changed))
    result = study(folder, random_resnet8)
    assert sorted(result.damaged) == sorted(f"rows/{name}.damaged-1" for name in before)
    assert all((folder / name).is_file() for name in result.damaged)
    assert result.to_dict()["damaged"] == list(result.damaged)
    for name, row in before.items():
        again = json.loads((folder / "rows" / name).read_bytes())
        assert {**again, "seconds": 0} == {**row, "seconds": 0}
    assert study(folder, random_resnet8).damaged == ()


def test_the_rest_goes_on(folder: Path, random_resnet8: Path) -> None:
    baseline, row = sorted(
        (folder / "rows").iterdir(),
        key=lambda f: "baseline" not in json.loads(f.read_bytes())["config"],
    )
    row.write_text("[" * 100_000)
    os.utime(baseline, (1, 1))
    assert len(study(folder, random_resnet8).damaged) == 1
    assert baseline.stat().st_mtime == 1


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "is not JSON"),
        ("[" * 200_000, "is nested more than 100 deep"),
        ("[]", "does not say what the study is of"),
        ('{"of": {"model": 7}}', "does not say what the study is of"),
        ('{"of": {"model": {"digest": []}}}', "does not say what the study is of"),
    ],
)
def test_a_study_that_does_not_say_of_what_is_refused(
    tmp_path: Path, content: str, said: str
) -> None:
    (tmp_path / "study.json").write_text(content)
    with pytest.raises(QuantscopeError, match=said), open_folder(tmp_path, SUBJECTS):
        pass
    assert (tmp_path / "study.json").read_text() == content


@pytest.mark.parametrize("name", [".scratch", "rows", "figures"])
def test_a_file_where_a_folder_belongs_is_told_before_anything_runs(
    tmp_path: Path, name: str
) -> None:
    folder = tmp_path / "s"
    run_jobs(folder, [job(1)], ThreadPoolExecutor(1))
    if (folder / name).is_dir():
        shutil.rmtree(folder / name)
    (folder / name).write_text("mine")
    with pytest.raises(QuantscopeError, match="is not a folder"), open_folder(folder, SUBJECTS):
        pass
    assert (folder / name).read_text() == "mine"


@pytest.mark.skipif(os.name == "nt", reason="needs pipes")
@pytest.mark.parametrize("name", [".lock", "study.json", "results.csv", "report.html"])
def test_a_pipe_where_a_file_belongs_is_not_waited_for(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "s"
    run_jobs(folder, [job(1)], ThreadPoolExecutor(1))
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    with pytest.raises(QuantscopeError, match=r"pipe|regular"), open_folder(folder, SUBJECTS):
        pass


def command(*arguments: object, **options: Any) -> subprocess.Popen[str]:
    words = [sys.executable, "-m", "quantscope", "study", *map(str, arguments)]
    return subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
    )


def test_two_processes_do_not_share_a_folder(tmp_path: Path, random_resnet8: Path) -> None:
    words = ("--preset", "ptq", "--out", tmp_path / "s", "--model", random_resnet8, "--images", 20)
    with command(*words, "--workers", 1) as first:
        while not (tmp_path / "s" / "study.json").exists():
            assert first.poll() is None
            time.sleep(0.05)
        with command(*words) as second:
            _, said = second.communicate()
        assert (second.returncode, said.count("\n")) == (2, 1)
        assert "Another study is running in" in said
        first.terminate()
        _, said = first.communicate()
    assert (first.returncode, said.splitlines()[-1]) == (143, "Stopped.")


@pytest.mark.skipif(sys.platform != "linux", reason="limits a process as Linux does")
def test_a_disk_that_is_full_ends_with_one_line_and_whole_rows(
    tmp_path: Path, random_resnet8: Path
) -> None:
    import resource

    (tmp_path / "p.toml").write_text("[[config]]\ncalibration_images = 4\n")
    words = (tmp_path / "p.toml", "--out", tmp_path / "s", "--model", random_resnet8)
    # No file of more than 1,500 bytes: the first row is larger.
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1500, 1500))  # noqa: E731
    with command(*words, "--images", 20, "--workers", 1, preexec_fn=limit) as done:
        _, said = done.communicate()
    assert (done.returncode, said.count("\n")) == (2, 1), said
    assert "File too large" in said
    assert list((tmp_path / "s" / "rows").iterdir()) == []
    with command(*words, "--images", 20, "--workers", 1) as again:
        _, said = again.communicate()
    assert (again.returncode, said) == (0, "")
