"""The command line without a process of its own: modules are loaded once for many commands."""

import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from subprocess import CompletedProcess
from unittest.mock import patch

import pytest

# Imported before COLUMNS is patched: rich takes the width that it finds when a console is made for
# good, and the first command of a process would decide it for all later ones.
import quantscope.cli.console  # noqa: F401
from quantscope.cli import main


def run(*arguments: object, **environment: str) -> CompletedProcess[str]:
    """Run a command as `own_process.run` does."""
    words = ["quantscope", *map(str, arguments)]
    with (
        redirect_stdout(io.StringIO()) as stdout,
        redirect_stderr(io.StringIO()) as stderr,
        patch.object(sys, "argv", words),
        patch.dict("os.environ", {"COLUMNS": "100", **environment}),
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
