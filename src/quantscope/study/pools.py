"""Give a study's jobs a place to run: worker processes of our own, or somebody's executor."""

import importlib
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol

from quantscope.errors import BadConfigError, MissingExtraError, QuantscopeError

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


class Pool(Protocol):
    """An executor's keeper; `limit` jobs are given to it at once, None is all of them."""

    limit: int | None

    def executor(self) -> Executor: ...

    def discard(self) -> None:
        """End what is left of an executor that broke, so that the next one is new."""

    def stop(self) -> None:
        """End everything that runs, now."""


class BorrowedPool:
    """An executor that is the caller's, to make and to shut down."""

    limit: int | None = None

    def __init__(self, executor: Executor):
        self._executor = executor

    def executor(self) -> Executor:
        return self._executor

    def discard(self) -> None:
        raise QuantscopeError(
            "The executor that the study was given broke; finished rows are kept, start it again "
            "with a new one"
        )

    def stop(self) -> None:
        """Do nothing: its jobs are cancelled by the one who submitted them."""


class WorkerPool:
    """Spawned processes, one intra-op thread each, that end when this process does."""

    def __init__(self, workers: int | None = None, *, scratch: Path | None = None):
        if workers is not None and workers < 1:
            raise BadConfigError(f"A study needs at least 1 worker, not {workers}")
        self.limit: int | None = workers or _cores()
        self._scratch = scratch
        self._running: ProcessPoolExecutor | None = None
        self._ends: list[Connection] = []

    def executor(self) -> Executor:
        if self._running is None:
            context = multiprocessing.get_context("spawn")
            worker_end, our_end = context.Pipe(duplex=False)
            self._ends = [our_end, worker_end]
            self._running = _Uninterrupted(
                max_workers=self.limit,
                mp_context=context,
                initializer=_start_worker,
                initargs=(worker_end, str(self._scratch) if self._scratch else None),
            )
            self._check_start(self._running)
        return self._running

    def _check_start(self, executor: Executor) -> None:
        # A pool whose workers cannot even start must not be blamed on the jobs.
        try:
            executor.submit(os.getpid).result()
        except BrokenProcessPool:
            self.discard()
            raise QuantscopeError(
                "The study's worker processes cannot start; a script that starts a study must do "
                "it under: if __name__ == '__main__':"
            ) from None

    def discard(self) -> None:
        self.stop()

    def stop(self) -> None:
        for end in self._ends:  # what the workers wait for to end themselves
            end.close()
        if self._running is not None:
            self._running.shutdown(wait=True, cancel_futures=True)
        self._running, self._ends = None, []


class _Uninterrupted(ProcessPoolExecutor):
    """Starts its processes with Ctrl-C held back: it is this process that answers to it."""

    def submit(self, *args, **kwargs):  # type: ignore[no-untyped-def]
        with _interrupts_held():
            return super().submit(*args, **kwargs)


@contextmanager
def _interrupts_held() -> Iterator[None]:
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _cores() -> int:
    """Count the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _start_worker(parent: Connection, scratch: str | None) -> None:
    """Set up a worker process: quiet, of one thread, and gone when its parent is."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if not sys.warnoptions:  # as in `cli/process.py`, for a warning here reaches the person too
        warnings.simplefilter("ignore")
    for name in THREAD_VARIABLES:  # PyTorch is not imported yet
        os.environ[name] = "1"
    # What a killed worker leaves behind is removed with the study's scratch folder.
    if scratch:
        tempfile.tempdir = scratch
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: Connection) -> None:
    """Wait for the pipe's end, then exit: nothing is sent, it ends when the parent does."""
    try:
        parent.recv_bytes()
    except (EOFError, OSError):
        os._exit(1)


@contextmanager
def dask_executor(address: str, *, seconds: float = 10) -> Iterator[Executor]:
    """Connect to a Dask cluster. Its workers need quantscope, and the same versions of it."""
    try:
        distributed: Any = importlib.import_module("distributed")
    except ModuleNotFoundError:
        raise MissingExtraError(
            "A study on a Dask cluster needs distributed, which is not installed; install it "
            "with: pip install 'quantscope[dask]'"
        ) from None
    try:
        client = distributed.Client(address, timeout=seconds, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        raise QuantscopeError(
            f"No Dask scheduler answers at {address} ({_first_line(error)}); give its address, "
            "such as tcp://127.0.0.1:8786"
        ) from None
    try:
        # Not pure: a job that is tried again must run again.
        yield client.get_executor(pure=False)
    finally:
        client.close()


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def killed_worker_errors() -> tuple[type[BaseException], ...]:
    """Give what a Dask cluster raises for a task that took several workers down."""
    distributed = sys.modules.get("distributed")
    return (distributed.KilledWorker,) if distributed else ()
