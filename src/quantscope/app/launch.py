"""Start the page; what can be wrong is said in one line before anything is started."""

import socket
import sys
import webbrowser
from collections import deque
from importlib.resources import as_file, files
from importlib.util import find_spec
from pathlib import Path
from threading import Thread, Timer
from typing import TYPE_CHECKING

from quantscope.app.memo import use_one_heap
from quantscope.app.opened import DEFAULT_MODEL
from quantscope.app.place import Given
from quantscope.app.session import Session
from quantscope.data import RowWishes
from quantscope.errors import BadConfigError, MissingExtraError
from quantscope.files import write_whole
from quantscope.model import parse_patiently_everywhere

if TYPE_CHECKING:
    from quantscope.app.doors import Keys

has_threads = False
"""It says whether threads may be inside onnxruntime, which aborts a process that ends around it.

A process that served a page ends without waiting for anything.
"""

FIRST_PORT = 2718
_PORTS_TRIED = 50
_SECONDS_TO_LISTEN = 0.05
"""The time from when marimo's server is ready to when it listens; a browser takes longer."""


def launch(
    model: str | None,
    float_model: str | None,
    data: str | None = None,
    *,
    wishes: RowWishes | None = None,
    measure: str | None = None,
    lower_is_better: bool = False,
    host: str = "127.0.0.1",
    port: int | None = None,
    browser: bool = True,
    edit: bool = False,
) -> None:
    """Serve the playground until it is interrupted. Files are read first, so errors come first."""
    missing = [name for name in ("marimo", "anywidget") if find_spec(name) is None]
    if missing:
        names = " and ".join(missing)
        raise MissingExtraError(
            f"The playground needs {names}, not installed here; install with: "
            f"pip install {' '.join(missing)}"
        )
    use_one_heap()
    parse_patiently_everywhere()  # marimo reads its notebook while modules are loaded beside it
    given = Given(
        model or DEFAULT_MODEL,
        float_model or "",
        data or "",
        wishes or RowWishes(),
        measure or "",
        lower_is_better=lower_is_better,
    )
    session = given.open()
    chosen = free_port(host) if port is None else check_port(host, port)
    from marimo._cli.cli import main

    from quantscope.app.doors import Keys, doors_of_marimo

    keys = Keys()
    global has_threads  # noqa: PLW0603
    has_threads = True
    Thread(target=_warm_up, args=(session,), daemon=True).start()
    with (
        as_file(files("quantscope.app") / "playground.py") as original,
        doors_of_marimo(keys, host, ready=lambda: _welcome(keys, host, chosen, browser=browser)),
    ):
        notebook = own_copy(original, Path.cwd()) if edit else original
        main(
            [
                *("-y", "edit" if edit else "run", str(notebook)),
                *("--host", host, "--port", str(chosen), "--base-url", keys.path, "--no-sandbox"),
                *("--token", "--token-password", keys.token, "--headless"),
                *([] if edit else ["--session-ttl", "30"]),
                *("--", *given.to_arguments()),
            ],
            standalone_mode=False,  # signals are answered to by the command line
        )


def _welcome(keys: "Keys", host: str, port: int, *, browser: bool) -> None:
    """Say where the page is, and open it where a browser is wanted.

    The browser gets the ticket, not the token: every user can read its command line.
    """
    from quantscope.app.doors import LOOPBACK, addresses_of

    addresses = [f"http://{address}:{port}{keys.path}" for address in addresses_of(host)]
    for address in addresses:
        print(f"quantscope is at {address}/?access_token={keys.token}")
    if not {host, f"[{host}]"} & set(LOOPBACK):
        print("Other machines can reach it; who has the token can open every file that you can.")
    print("Ctrl-C ends it.", flush=True)
    if browser:
        opened = f"{addresses[0]}/?ticket={keys.ticket}"
        Timer(_SECONDS_TO_LISTEN, webbrowser.open, [opened]).start()


def own_copy(original: Path, folder: Path) -> Path:
    """Copy the notebook for a person: it saves itself while it is edited.

    One that is there already is theirs, and stays as it is.
    """
    copy = folder / f"quantscope_{original.name}"
    if not copy.exists():
        text = original.read_text(encoding="utf-8")
        style = (original.parent / "style.css").as_posix()
        write_whole(copy, text.replace('"style.css"', repr(style)).encode())
    print(f"quantscope: edit your own copy, {copy}", file=sys.stderr)
    return copy


def _warm_up(session: Session) -> None:
    """Work while the browser starts: its page finds modules loaded and the first numbers there."""
    import quantscope.app.page  # noqa: F401

    # It is run for its effects: the session keeps the results.
    deque(session.measure(session.quick), maxlen=0)


def free_port(host: str) -> int:
    """Find the first port that nobody listens on, so that two playgrounds run side by side."""
    for port in range(FIRST_PORT, FIRST_PORT + _PORTS_TRIED):
        if _is_free(host, port):
            return port
    raise BadConfigError(
        f"All ports from {FIRST_PORT} to {FIRST_PORT + _PORTS_TRIED - 1} are in use; "
        f"choose another with --port"
    )


def check_port(host: str, port: int) -> int:
    """Check the port that a person chose."""
    if not 1 <= port <= 65535:
        raise BadConfigError(f"A port is a number from 1 to 65535, not {port}")
    if not _is_free(host, port):
        raise BadConfigError(
            f"Port {port} is in use, perhaps by another playground; "
            f"choose another with --port, or leave it out"
        )
    return port


def _is_free(host: str, port: int) -> bool:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        # A port whose last connections still linger counts as free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except PermissionError:
            raise BadConfigError(
                f"Port {port} is not allowed here; choose one above 1023"
            ) from None
        except socket.gaierror:
            raise BadConfigError(f"{host!r} is no address of this machine; try 127.0.0.1") from None
        except OSError:
            return False
    return True
