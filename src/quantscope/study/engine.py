"""Turn jobs into rows on disk: each as soon as it is there, none lost to another's crash.

A job is a JSON-able configuration, its row what a function makes of it, in whatever process. A
function that raises gives a row that says why. One that takes its worker process down is tried
again; several jobs may have been running then, so those are tried one at a time, and a job is
given up when it was alone and its worker died, twice.
"""

import hashlib
import json
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    wait,
)
from dataclasses import dataclass
from typing import Any

from quantscope.errors import QuantscopeError
from quantscope.progress import Progress, silent
from quantscope.study.folder import Row, StudyFolder
from quantscope.study.pools import BorrowedPool, Pool, WorkerPool, killed_worker_errors

Work = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""A function from a job's configuration to its result, both JSON-able; other processes run it."""

DEATHS_ALLOWED = 2
SECONDS_BETWEEN_LOOKS = 0.2


@dataclass(frozen=True)
class Job:
    """A configuration to run; `key` says what its row follows from: the same key, the same row."""

    key: str
    label: str
    config: Mapping[str, Any]


def key_of(**parts: Any) -> str:
    """Make a short digest of JSON-able values."""
    text = json.dumps(parts, sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def run_jobs(
    jobs: Iterable[Job],
    work: Work,
    folder: StudyFolder,
    *,
    executor: Executor | None = None,
    workers: int | None = None,
    retry_failed: bool = False,
    what: str = "Study",
    progress: Progress = silent,
) -> dict[str, Row]:
    """Run the jobs that have no row in the folder yet; give the rows of all, by key.

    `executor` is any of `concurrent.futures`; without one, `workers` processes (all cores).
    """
    all_jobs = {job.key: job for job in jobs}
    done = set()
    for key, row in folder.rows().items():
        if key in all_jobs and not _is_of(row, all_jobs[key]):
            folder.set_aside(key)
        elif key in all_jobs and not (retry_failed and row["status"] == "failed"):
            done.add(key)
    left = [job for key, job in all_jobs.items() if key not in done]
    progress(what, len(done), len(all_jobs))
    if left:
        pool: Pool = (
            BorrowedPool(executor) if executor else WorkerPool(workers, scratch=folder.scratch)
        )

        def look(rows: list[Row]) -> None:
            for row in rows:
                folder.write_row(row)
                done.add(row["key"])
            progress(what, len(done), len(all_jobs))

        _Schedule(left, work, pool).run(look)
    rows = folder.rows()
    return {key: rows[key] for key in all_jobs}


class _Schedule:
    """Jobs that wait, run, or are suspected of having taken their worker process down."""

    def __init__(self, jobs: list[Job], work: Work, pool: Pool):
        self.work, self.pool = work, pool
        self.waiting = deque(jobs)
        self.suspects: deque[Job] = deque()
        self.deaths: Counter[str] = Counter()
        self.flying: dict[Future[Row], Job] = {}

    def run(self, look: Callable[[list[Row]], None]) -> None:
        """Call `look` with the rows that came, several times a second; it may raise to stop."""
        try:
            while self.waiting or self.suspects or self.flying:
                self._submit()
                wait(self.flying, timeout=SECONDS_BETWEEN_LOOKS, return_when=FIRST_COMPLETED)
                look(self._collect())
        finally:
            for future in self.flying:
                future.cancel()
            self.pool.stop()

    def _submit(self) -> None:
        # One at a time with nothing beside it, so that a death tells which job it was.
        if self.suspects:
            if not self.flying:
                self._start(self.suspects)
            return
        limit = self.pool.limit or len(self.waiting) + len(self.flying)
        while self.waiting and len(self.flying) < limit:
            if not self._start(self.waiting):
                return

    def _start(self, queue: deque[Job]) -> bool:
        try:
            future = self.pool.executor().submit(attempt, self.work, queue[0])
        except BrokenExecutor:
            # Broken since the last look. Those in flight are found broken at the next one.
            if not self.flying:
                self.pool.discard()
            return False
        self.flying[future] = queue.popleft()
        return True

    def _collect(self) -> list[Row]:
        """Take what is finished; give its rows."""
        # Only a job that ran alone is known to have killed its worker.
        alone = len(self.flying) == 1
        rows: list[Row] = []
        fallen: list[Job] = []
        broken = False
        for future in [future for future in self.flying if future.done()]:
            job = self.flying.pop(future)
            try:
                rows.append(future.result())
            except BrokenExecutor:
                broken = True
                fallen.append(job)
            except killed_worker_errors():
                self.deaths[job.key] += DEATHS_ALLOWED if alone else 0  # the cluster tried often
                self._accuse(job, rows)
            except (Exception, CancelledError) as error:
                raise QuantscopeError(
                    f"The executor could not run '{job.label}': {reason_of(error)}; finished rows "
                    "are kept, the same command goes on"
                ) from error
        if broken:
            fallen += self._fallen_since(rows)
            self.pool.discard()
            for job in fallen:
                self.deaths[job.key] += alone
                self._accuse(job, rows)
        return rows

    def _fallen_since(self, rows: list[Row]) -> list[Job]:
        """Wait for the rest: a broken pool fails all that was in flight, but not in one instant."""
        fallen = []
        wait(self.flying)
        for future, job in self.flying.items():
            if future.exception() is None:
                rows.append(future.result())
            else:
                fallen.append(job)
        self.flying.clear()
        return fallen

    def _accuse(self, job: Job, rows: list[Row]) -> None:
        """Try a job again alone, or give it up with a row that says so."""
        if self.deaths[job.key] < DEATHS_ALLOWED:
            self.suspects.append(job)
            return
        reason = "It took its worker process down twice (a crash in native code, or out of memory)"
        rows.append(failed_row(job, reason))


def attempt(work: Work, job: Job) -> Row:
    """Make a job's row, whatever happens short of the process's end."""
    started = time.perf_counter()
    try:
        result = dict(work(job.config))
        # Here, where it fails only this job, not where the row is written.
        json.dumps(result, allow_nan=False)
    # A job that exits must not take its worker along.
    except (Exception, SystemExit) as error:
        return failed_row(job, reason_of(error), seconds=time.perf_counter() - started)
    return {
        **_head(job),
        "status": "done",
        "reason": None,
        "seconds": round(time.perf_counter() - started, 3),
        **result,
    }


def failed_row(job: Job, reason: str, *, seconds: float | None = None) -> Row:
    return {
        **_head(job),
        "status": "failed",
        "reason": reason,
        "seconds": None if seconds is None else round(seconds, 3),
    }


def _is_of(row: Row, job: Job) -> bool:
    """Say whether a row says of itself what its name says."""
    return key_of(head=_head(job)) == key_of(head={name: row[name] for name in _head(job)})


def _head(job: Job) -> Row:
    return {"key": job.key, "label": job.label, "config": dict(job.config)}


def reason_of(error: BaseException) -> str:
    """Give one line. An error of ours explains itself; of others the kind is named too."""
    lines = str(error).strip().splitlines()
    text = lines[0] if lines else ""
    if isinstance(error, QuantscopeError):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
