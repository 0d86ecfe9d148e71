"""Jobs become rows on disk, once each, whatever jobs and processes do meanwhile."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import pytest
import study_jobs
from study_jobs import SUBJECTS, began, finished, job, run, slow_jobs, worker_pids

from quantscope.errors import BadConfigError, QuantscopeError, StoppedError
from quantscope.study import Subject, open_folder


def wait_for(
    condition: Callable[[], bool], while_running: "subprocess.Popen[str] | None" = None
) -> None:
    """As long as it takes: a loaded machine is not a failing test, and pytest has a time limit."""
    while not condition():
        if while_running is not None and while_running.poll() is not None:
            pytest.fail(f"it ended too early: {while_running.communicate()}")
        time.sleep(0.02)


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_every_job_becomes_a_row_that_says_how_it_went(tmp_path: Path) -> None:
    kinds = ["square", "raise", "refuse", "exit", "nan"]
    jobs = [job(n, what=what) for n, what in enumerate(kinds)]
    rows = run(tmp_path / "s", jobs, workers=1)
    assert [row["status"] for row in rows] == ["done", "failed", "failed", "failed", "failed"]
    assert rows[0]["value"] == 0
    assert [row["reason"] for row in rows[1:4]] == [
        "ZeroDivisionError: first line",
        "This cannot be; do that instead",
        "SystemExit: gone",
    ]
    assert rows[4]["reason"].startswith("ValueError: Out of range float values")
    on_disk = sorted(path.stem for path in (tmp_path / "s" / "rows").iterdir())
    assert on_disk == sorted(job.key for job in jobs)


def test_a_second_run_repeats_nothing_but_failures_when_asked(tmp_path: Path) -> None:
    log = tmp_path / "log"
    jobs = [job(0, log=str(log)), job(1, log=str(log), what="raise")]
    with ThreadPoolExecutor(1) as executor:
        first = run(tmp_path / "s", jobs, executor)
        assert run(tmp_path / "s", jobs, executor) == first
        assert began(log) == [0, 1]
        run(tmp_path / "s", jobs, executor, retry_failed=True)
    assert began(log) == [0, 1, 1]


def test_a_row_that_is_damaged_on_disk_is_made_again(tmp_path: Path) -> None:
    (row,) = run(tmp_path / "s", [job(3)], ThreadPoolExecutor(1))
    file = tmp_path / "s" / "rows" / f"{row['key']}.json"
    file.write_bytes(file.read_bytes()[:20])
    (again,) = run(tmp_path / "s", [job(3)], ThreadPoolExecutor(1))
    assert again["value"] == 9
    assert json.loads(file.read_bytes()) == again


def test_any_executor_gives_the_rows_of_a_serial_run(tmp_path: Path) -> None:
    jobs = [job(n, what="raise" if n == 3 else "square") for n in range(6)]

    def rows(name: str, executor: object = None, **options: int) -> list[object]:
        found = run(tmp_path / name, jobs, executor, **options)  # type: ignore[arg-type]
        return [{**row, "seconds": None} for row in found]

    with ThreadPoolExecutor(1) as serial, ThreadPoolExecutor(3) as threads:
        expected = rows("serial", serial)
        assert rows("threads", threads) == expected
    assert rows("processes", workers=2) == expected


def test_workers_have_one_thread_each(tmp_path: Path) -> None:
    (row,) = run(tmp_path / "s", [job(0, what="environment")], workers=1)
    assert row["OMP_NUM_THREADS"] == "1"


def test_a_crash_blames_the_culprit_alone_and_the_rest_goes_on(tmp_path: Path) -> None:
    log = tmp_path / "log"
    # The neighbours are in flight when the culprit falls, so they are suspects too.
    jobs = [job(n, log=str(log), seconds=0.3) for n in range(4)]
    jobs[1] = job(1, log=str(log), what="abort")
    rows = run(tmp_path / "s", jobs, workers=2)
    assert [row["status"] for row in rows] == ["done", "failed", "done", "done"]
    assert rows[1]["reason"].startswith("It took its worker process down twice")
    assert [row.get("value") for row in rows] == [0, None, 4, 9]
    assert 2 <= began(log).count(1) <= 3


def test_a_single_crash_is_forgiven(tmp_path: Path) -> None:
    jobs = [job(0), job(1, what="abort once", marker=str(tmp_path / "marker")), job(2)]
    rows = run(tmp_path / "s", jobs, workers=2)
    assert [row["status"] for row in rows] == ["done"] * 3


def test_a_broken_executor_of_the_caller_is_an_error_and_keeps_rows(tmp_path: Path) -> None:
    jobs = [job(0), job(1, what="abort"), job(2)]
    with (
        ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as executor,
        pytest.raises(QuantscopeError, match="executor that the study was given broke"),
    ):
        run(tmp_path / "s", jobs, executor)
    assert {row["value"] for row in finished(tmp_path / "s").values()} <= {0}


def test_no_worker_at_all_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadConfigError, match="at least 1 worker, not 0"):
        run(tmp_path / "s", [job(0)], workers=0)
    with pytest.raises(BadConfigError, match="at least 1 worker, not -1"):
        run(tmp_path / "s", [job(0)], workers=-1)


def test_progress_counts_rows_and_can_stop_the_study(tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    run(tmp_path / "s", [job(0), job(1)], workers=1, progress=lambda *at: seen.append(at))
    assert seen[0] == ("Study", 0, 2)
    assert seen[-1] == ("Study", 2, 2)
    log = tmp_path / "log"

    def stop(what: str, done: int, total: int) -> None:
        if log.exists():
            raise StoppedError("enough")

    with pytest.raises(StoppedError):
        run(tmp_path / "s", slow_jobs(log, 1, 60), workers=1, progress=stop)
    assert not any(map(alive, worker_pids(log)))
    assert len(finished(tmp_path / "s")) == 2


@pytest.fixture
def study(tmp_path: Path) -> "Callable[..., subprocess.Popen[str]]":
    def start(count: int, *, free: int) -> "subprocess.Popen[str]":
        arguments = [tmp_path / "s", tmp_path / "log", tmp_path / "gate", count, free]
        return subprocess.Popen(
            [sys.executable, study_jobs.__file__, *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    return start


def test_after_kill_9_the_same_command_goes_on_and_repeats_nothing(
    tmp_path: Path, study: "Callable[..., subprocess.Popen[str]]"
) -> None:
    folder, log = tmp_path / "s", tmp_path / "log"
    killed = study(8, free=3)
    wait_for(lambda: len(finished(folder)) == 3 and len(began(log)) == 5, killed)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    kept = finished(folder)
    assert len(kept) == 3
    (tmp_path / "gate").touch()
    killed.communicate()
    wait_for(lambda: not any(map(alive, worker_pids(log))))
    assert finished(folder) == kept
    again = study(8, free=3)
    assert again.communicate() == ("", "")
    assert again.returncode == 0
    assert len(finished(folder)) == 8
    assert {key: finished(folder)[key] for key in kept} == kept
    numbers = began(log)
    assert all(numbers.count(row["config"]["number"]) == 1 for row in kept.values())
    assert not (folder / ".scratch").exists()


@pytest.mark.parametrize("whom", ["process", "terminal"])
def test_ctrl_c_ends_the_workers_and_keeps_finished_rows(
    tmp_path: Path, study: "Callable[..., subprocess.Popen[str]]", whom: str
) -> None:
    folder, log = tmp_path / "s", tmp_path / "log"
    running = study(8, free=2)
    wait_for(lambda: len(finished(folder)) == 2 and len(began(log)) == 4, running)
    if whom == "process":
        running.send_signal(signal.SIGINT)
    else:  # a terminal sends it to the whole group
        os.killpg(running.pid, signal.SIGINT)
    assert running.communicate() == ("", "")
    assert running.returncode == 130
    assert not any(map(alive, worker_pids(log)))
    assert len(finished(folder)) == 2
    assert not list(folder.glob("rows/.*"))


def test_a_script_without_a_guard_is_told_so(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        f"import sys; sys.path.insert(0, {str(Path(study_jobs.__file__).parent)!r})\n"
        "from pathlib import Path\n"
        "from study_jobs import job, run\n"
        f"run(Path({str(tmp_path / 's')!r}), [job(0)], workers=1)\n"
    )
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "worker processes cannot start" in done.stderr.splitlines()[-1]
    assert finished(tmp_path / "s") == {}


def test_a_folder_keeps_to_its_study(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    run(folder, [job(0)], ThreadPoolExecutor(1))
    other = {"model": Subject("other.onnx", "b" * 64)}
    expected = "holds a study of another model: some.onnx .a{12}., not other.onnx .b{12}.; give"
    with pytest.raises(QuantscopeError, match=expected), open_folder(folder, other):
        pass
    with open_folder(folder, {**SUBJECTS, "PyTorch model": Subject("none", None)}):
        pass
    with open_folder(folder, {**SUBJECTS, "PyTorch model": Subject("some.pt", "c" * 64)}):
        pass
    changed = {**SUBJECTS, "PyTorch model": Subject("other.pt", "d" * 64)}
    with (
        pytest.raises(QuantscopeError, match="another PyTorch model"),
        open_folder(folder, changed),
    ):
        pass
    assert len(finished(folder)) == 1


def test_other_peoples_folders_and_files_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "results.csv").write_text("mine")
    with (
        pytest.raises(QuantscopeError, match="is not empty and holds no study"),
        open_folder(tmp_path, SUBJECTS),
    ):
        pass
    with (
        pytest.raises(QuantscopeError, match="is not a folder; give one"),
        open_folder(tmp_path / "results.csv", SUBJECTS),
    ):
        pass
    assert sorted(path.name for path in tmp_path.iterdir()) == ["results.csv"]


def test_two_studies_do_not_share_a_folder(tmp_path: Path) -> None:
    with (
        open_folder(tmp_path / "s", SUBJECTS),
        pytest.raises(QuantscopeError, match="Another study is running in"),
        open_folder(tmp_path / "s", SUBJECTS),
    ):
        pass
