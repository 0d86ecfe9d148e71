"""The command line in a process of its own, as a person starts it."""

import os
import subprocess
import sys


def run(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "quantscope", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "100", **environment},
    )


def refused(*arguments: object, **environment: str) -> str:
    """The one line that bad input gets."""
    done = run(*arguments, **environment)
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith("quantscope: ")
    return done.stderr
