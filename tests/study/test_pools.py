"""The same studies on a real Dask cluster of two worker processes."""

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from study_jobs import began, finished, job, run, worker_pids

from quantscope.errors import MissingExtraError, QuantscopeError
from quantscope.study import dask_executor

distributed = pytest.importorskip("distributed")
dask = pytest.importorskip("dask")
# What distributed leaves to the garbage collector when its workers are killed is not ours.
pytestmark = [
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    # A loaded machine starts a worker slowly, and a task that kills workers shall not kill many.
    settings = {
        "distributed.scheduler.allowed-failures": 1,
        "distributed.deploy.lost-worker-timeout": "300s",
    }
    with pytest.MonkeyPatch.context() as patch, dask.config.set(settings):
        patch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
        with distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address=None,
            silence_logs=50,
        ) as made:
            yield made


def test_a_killed_worker_costs_no_row(cluster: Any, tmp_path: Path) -> None:
    log = tmp_path / "log"
    jobs = [job(n, log=str(log), seconds=0.3) for n in range(8)]
    killed: list[int] = []

    def kill_one(what: str, done: int, total: int) -> None:
        if done >= 2 and not killed:
            killed.append(min(worker_pids(log)))
            os.kill(killed[0], signal.SIGKILL)

    with dask_executor(cluster.scheduler_address) as executor:
        rows = run(tmp_path / "s", jobs, executor, progress=kill_one)
        assert killed
        assert [row["value"] for row in rows] == [n**2 for n in range(8)]
        assert run(tmp_path / "s", jobs, executor) == rows, "what is on disk is not run again"


def test_stopping_cancels_what_the_cluster_has_not_begun(cluster: Any, tmp_path: Path) -> None:
    log = tmp_path / "log"
    jobs = [job(n, log=str(log), seconds=0.5) for n in range(20)]

    def stop(what: str, done: int, total: int) -> None:
        if done >= 2:
            raise KeyboardInterrupt

    with dask_executor(cluster.scheduler_address) as executor, pytest.raises(KeyboardInterrupt):
        run(tmp_path / "s", jobs, executor, progress=stop)
    time.sleep(1)
    assert 2 <= len(finished(tmp_path / "s")) <= len(began(log)) < 20


def test_a_job_that_kills_workers_is_a_failed_row_and_no_other_is(
    cluster: Any, tmp_path: Path
) -> None:
    with dask_executor(cluster.scheduler_address) as executor:
        rows = run(tmp_path / "s", [job(9, what="abort"), job(10), job(11)], executor)
    assert [row["status"] for row in rows] == ["failed", "done", "done"]
    assert rows[0]["reason"].startswith("It took its worker process down")


def test_no_scheduler_is_one_line() -> None:
    with (
        pytest.raises(QuantscopeError, match=r"No Dask scheduler answers at tcp://127\.0\.0\.1:9"),
        dask_executor("tcp://127.0.0.1:9", seconds=1),
    ):
        pass
    with (
        pytest.raises(QuantscopeError, match="No Dask scheduler answers at no where"),
        dask_executor("no where", seconds=1),
    ):
        pass


def test_without_distributed_it_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with (
        pytest.raises(MissingExtraError, match=r"pip install 'quantscope\[dask\]'"),
        dask_executor("tcp://127.0.0.1:9"),
    ):
        pass
