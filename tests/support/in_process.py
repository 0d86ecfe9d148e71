"""The command line without a process of its own: modules are loaded once for many commands."""

import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from subprocess import CompletedProcess
from unittest.mock import patch

import pytest

from quantscope.cli import main
from quantscope.cli.console import console, messages


def run(*arguments: object, **environment: str) -> CompletedProcess[str]:
    """Run a command as `own_process.run` does."""
    words = ["quantscope", *map(str, arguments)]
    environment = {"COLUMNS": "100", **environment}
    # A console keeps the COLUMNS that it was made with, which a worker of the tests has as well.
    width = int(environment["COLUMNS"])
    with (
        redirect_stdout(io.StringIO()) as stdout,
        redirect_stderr(io.StringIO()) as stderr,
        patch.object(sys, "argv", words),
        patch.dict("os.environ", environment),
        patch.object(console, "_width", width),
        patch.object(messages, "_width", width),
        pytest.raises(SystemExit) as end,
    ):
        main()
    code = end.value.code or 0
    assert isinstance(code, int)
    return CompletedProcess(words, code, stdout.getvalue(), stderr.getvalue())


def refused(*arguments: object, **environment: str) -> str:
    """The one line that bad input gets."""
    done = run(*arguments, **environment)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("quantscope: ") and done.stderr.count("\n") == 1, done.stderr
    return done.stderr
