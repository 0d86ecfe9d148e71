"""The command line in a process of its own, as a person starts it."""

import os
import subprocess
import sys
from pathlib import Path

Done = subprocess.CompletedProcess[str]


def run(*arguments: object, first: Path | None = None, **environment: str) -> Done:
    """Run a command; what is in the folder `first` is imported before anything else."""
    if first:
        environment["PYTHONPATH"] = os.pathsep.join((str(first), *filter(None, sys.path)))
    return subprocess.run(
        [sys.executable, "-m", "quantscope", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "100", **environment},
    )


def refused(*arguments: object, first: Path | None = None, **environment: str) -> str:
    """The one line that bad input gets."""
    done = run(*arguments, first=first, **environment)
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith("quantscope: ")
    return done.stderr
