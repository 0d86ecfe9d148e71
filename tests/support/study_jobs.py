"""Jobs that a study of the tests runs, and a program that is such a study, to be killed."""

import os
import sys
import time
from collections.abc import Mapping
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

from quantscope.errors import BadConfigError
from quantscope.study import Job, StudyFolder, Subject, key_of, open_folder, run_jobs

SUBJECTS = {"model": Subject("some.onnx", "a" * 64)}


def work(config: Mapping[str, Any]) -> dict[str, Any]:
    """Does what the config says, after noting in its log that it began."""
    if log := config.get("log"):
        with Path(log).open("a") as stream:
            stream.write(f"{config['number']} {os.getpid()}\n")
    time.sleep(config.get("seconds", 0))
    if gate := config.get("gate"):
        while not Path(gate).exists():
            time.sleep(0.02)
    match config.get("what", "square"):
        case "abort":
            os.abort()
        case "abort once":
            marker = Path(config["marker"])
            if not marker.exists():
                marker.touch()
                os.abort()
        case "raise":
            raise ZeroDivisionError("first line\nsecond line")
        case "refuse":
            raise BadConfigError("This cannot be; do that instead")
        case "exit":
            sys.exit("gone")
        case "nan":
            return {"value": float("nan")}
        case "environment":
            return {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS")}
    return {"value": config["number"] ** 2}


def job(number: int, **config: Any) -> Job:
    config = {"number": number, **config}
    return Job(key_of(config=config), f"job {number}", config)


def run(
    folder: Path, jobs: list[Job], executor: Executor | None = None, **options: Any
) -> list[Any]:
    """The rows in the jobs' order."""
    with open_folder(folder, SUBJECTS) as opened:
        rows = run_jobs(jobs, work, opened, executor=executor, **options)
    return [rows[job.key] for job in jobs]


def began(log: Path) -> list[int]:
    """The numbers of the jobs that began, once for each time."""
    return [int(line.split()[0]) for line in log.read_text().splitlines()]


def worker_pids(log: Path) -> set[int]:
    return {int(line.split()[1]) for line in log.read_text().splitlines()}


def finished(folder: Path) -> dict[str, Any]:
    return StudyFolder(folder).rows()


def slow_jobs(log: Path, count: int, seconds: float) -> list[Job]:
    return [job(n, log=str(log), seconds=seconds) for n in range(count)]


def gated_jobs(log: Path, count: int, free: int, gate: Path) -> list[Job]:
    """After the first `free` ones, jobs do not end before there is a file `gate`."""
    return [job(n, log=str(log), **({} if n < free else {"gate": str(gate)})) for n in range(count)]


def main() -> None:
    folder, log, gate = map(Path, sys.argv[1:4])
    count, free = map(int, sys.argv[4:6])
    try:
        run(folder, gated_jobs(log, count, free, gate), workers=2)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
