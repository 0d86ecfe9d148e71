"""The command line: a thin face of the library, one module a command."""

import errno
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import typer

from quantscope.cli import (
    accumulators,
    capture,
    compare,
    data,
    evaluate,
    graph,
    import_keras,
    inspect,
    play,
    quantize,
    sensitivity,
    study,
    trace,
    whatif,
)
from quantscope.cli.console import messages
from quantscope.errors import QuantscopeError

# typer carries its own copy of click, whose errors it does not re-export; this is their base.
UsageError: type[Exception] = typer.BadParameter.__mro__[1]

_STOPPED = 130  # what shells say of a program that Ctrl-C ended, and typer gives for it
_UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)

app = typer.Typer(
    name="quantscope",
    help="See every factor of a quantized network, change any of them, watch what happens.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("play")(play.command)
app.command("evaluate")(evaluate.command)
app.command("inspect")(inspect.command)
app.command("graph")(graph.command)
app.command("compare")(compare.command)
app.command("capture")(capture.command)
app.command("sensitivity")(sensitivity.command)
app.command("whatif")(whatif.command)
app.command("trace")(trace.command)
app.command("accumulators")(accumulators.command)
app.command("quantize")(quantize.command)
app.command("study")(study.command)
app.command("import-keras")(import_keras.command)
app.add_typer(data.app, name="data")


def _show_version(wanted: bool) -> None:
    if wanted:
        from quantscope import __version__

        typer.echo(f"quantscope {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(
        False,
        "--version",
        help="Show the version and exit.",
        callback=_show_version,
        is_eager=True,
    ),
) -> None:
    del version


def main() -> None:
    """Run a command. Bad input is one line on stderr and exit code 2, never a traceback."""
    if sys.stdout is None:  # closed, as by `>&-`
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115
    with _signals() as received:
        try:
            code = _run()
        except Exception:
            # Libraries that are being loaded turn an interrupt into errors of their own.
            if not received:
                raise
            code = _STOPPED
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
    """Let other signals end a command as Ctrl-C does, so that it cleans up; gives what came."""
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


def _run() -> int:
    """Run what the command line says; gives the exit code."""
    try:
        code: int = app(standalone_mode=False) or 0
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has enough, as in `quantscope inspect m.onnx | head`
        _write_no_more()
        code = 0
    except OSError as error:
        if error.filename is not None or error.errno not in _UNWRITABLE:
            raise
        _write_no_more()
        messages.print(f"quantscope: Cannot write the output: {error.strerror}", markup=False)
        code = 2
    except QuantscopeError as error:
        messages.print(f"quantscope: {error}", markup=False)
        code = 2
    except UsageError as error:
        context = getattr(error, "ctx", None)
        hint = f" See: {context.command_path} --help" if context else ""
        text = getattr(error, "format_message", error.__str__)().rstrip(". ")
        text = text.replace(": Value error, ", ": ")
        if text:  # without a command, the help was printed already
            end = "" if text.endswith("?") else "."
            messages.print(f"quantscope: {text}{end}{hint}", markup=False)
        code = 2
    except (KeyboardInterrupt, typer.Abort):
        code = _STOPPED
    return code


def _write_no_more() -> None:
    """Python writes what is left in stdout's buffer when it ends, and would fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
