"""Run a command as a process: what it says and gives back when it is stopped or goes wrong."""

import errno
import io
import os
import shlex
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

import typer

from quantscope.cli.console import messages
from quantscope.errors import QuantscopeError
from quantscope.plain_text import elide, printable

# typer carries its own copy of click, whose errors it does not re-export; this is their base.
UsageError: type[Exception] = typer.BadParameter.__mro__[1]

_BAD_INPUT = 2
_OUR_FAULT = 1
_MOST_SAID = 2000
_STOPPED = 130  # what shells say of a program that Ctrl-C ended, and typer gives for it
_UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)


def run_process(app: typer.Typer) -> NoReturn:
    """Run a command and exit: 0, or 2 after one line on stderr that says what to put right.

    An error that nobody thought of is one line too, which asks for a report, and exit code 1. A
    traceback is for those who ask for it with --debug.
    """
    if sys.stdout is None:  # closed, as by `>&-`
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):  # a terminal may not know every letter of a name
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if not _debugging() and not sys.warnoptions:  # a library's warning is no word to the person
        warnings.simplefilter("ignore")
    with _signals() as received:
        try:
            code = _run(app)
        except Exception as error:
            # Libraries that are being loaded turn an interrupt into errors of their own.
            code = _STOPPED if received else _unexpected(error)
    if code == _STOPPED:
        messages.print("Stopped.")
    _exit(128 + received[0] if received else code)


def _exit(code: int) -> NoReturn:
    """End the process, at once where a page was served (`app/launch.py` says why)."""
    launched = sys.modules.get("quantscope.app.launch")
    if launched is not None and launched.has_threads:
        sys.stdout.flush()
        os._exit(code)
    sys.exit(code)


@contextmanager
def _signals() -> Iterator[list[int]]:
    """Let other signals end a command as Ctrl-C does, so that it cleans up; give what came."""
    received: list[int] = []

    def interrupt(number: int, _frame: object) -> None:
        received.append(number)
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():  # others may not set handlers
        yield received
        return
    names = ("SIGINT", "SIGTERM", "SIGHUP")  # Windows has no SIGHUP
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    before = {number: signal.getsignal(number) for number in numbers}
    for number, handler in before.items():
        if handler != signal.SIG_IGN:  # as in the background of a script
            signal.signal(number, interrupt)
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _run(app: typer.Typer) -> int:
    """Run what the command line says; give the exit code."""
    try:
        words = [word for word in sys.argv[1:] if word != "--debug"]
        code: int = app(words, standalone_mode=False) or 0
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has enough, as in `quantscope inspect m.onnx | head`
        _write_no_more()
        code = 0
    except OSError as error:
        if error.filename is not None and error.strerror:
            code = _say(f"Cannot use {os.fsdecode(error.filename)}: {error.strerror}")
        elif error.errno in _UNWRITABLE:
            _write_no_more()
            code = _say(f"Cannot write the output: {error.strerror}")
        else:
            raise
    except MemoryError:
        code = _say("There is not enough memory for this; free some, or take less at once")
    except QuantscopeError as error:
        code = _say(str(error))
    except UsageError as error:
        context = getattr(error, "ctx", None)
        hint = f" See: {context.command_path} --help" if context else ""
        text = getattr(error, "format_message", error.__str__)().rstrip(". ")
        text = text.replace(": Value error, ", ": ")
        if text:  # without a command, the help was printed already
            end = "" if text.endswith("?") else "."
            _say(f"{text}{end}{hint}")
        code = _BAD_INPUT
    except (KeyboardInterrupt, typer.Abort):
        code = _STOPPED
    return code


def _unexpected(error: Exception) -> int:
    """Say that an error is ours, and what to send so that it can be mended."""
    name = type(error).__name__
    text = next(iter(str(error).splitlines()), "")[:500]
    words = " ".join(map(shlex.quote, sys.argv[1:]))
    command = f"quantscope --debug {words if len(words) < 500 else '...'}"
    asking = "" if _debugging() else f" with what this prints: {command}"
    _say(
        f"This should not have happened ({f'{name}: {text}' if text else name}); "
        f"please report it{asking}"
    )
    return _OUR_FAULT


def _say(text: str) -> int:
    """Print one line whatever is in it; under --debug, after the traceback."""
    with suppress(OSError):  # as `2>/dev/full`
        if _debugging():
            traceback.print_exc()
        messages.print(f"quantscope: {elide(printable(text), _MOST_SAID)}", markup=False)
    return _BAD_INPUT


def _debugging() -> bool:
    return "--debug" in sys.argv[1:]


def _write_no_more() -> None:
    """Send what is left in stdout's buffer nowhere, for Python would fail again writing it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
