"""Run `quantscope play` for a while: for the tests, the benchmark and the pictures of the page."""

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

SECONDS = 240
"""The time that a start may take: a loaded machine starts late, but starts."""

_ADDRESS = re.compile(r"(http://[^/\s]+/[^/\s]+)/\?access_token=(\S+)")


class Served(NamedTuple):
    """A page that is served: its address, the token that opens it, and its process."""

    address: str
    token: str
    pid: int

    @property
    def way_in(self) -> str:
        """The address that was printed, which lets a browser in."""
        return f"{self.address}/?access_token={self.token}"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def serving(
    *arguments: str,
    log: Path | None = None,
    cwd: Path | None = None,
    browser: bool = False,
    **environment: str,
) -> Iterator[Served]:
    """Run `quantscope play` on a free port, stopped as Ctrl-C does; `log` keeps what it printed."""
    command = [sys.executable, "-m", "quantscope", "play", *arguments]
    command += [] if browser else ["--no-browser"]
    with tempfile.TemporaryDirectory() as folder:
        log = log or Path(folder) / "log"
        with log.open("wb") as printed:
            server = subprocess.Popen(
                [*command, "--port", str(free_port())],
                stdout=printed,
                stderr=subprocess.STDOUT,
                cwd=cwd,
                env={**os.environ, **environment},
            )
        try:
            yield _answering(server, log)
        finally:
            server.send_signal(signal.SIGINT)
            try:
                server.wait(timeout=20)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()
                raise


def _answering(server: subprocess.Popen[bytes], log: Path) -> Served:
    """Wait until the server has printed its address and answers there."""
    end = time.monotonic() + SECONDS
    while time.monotonic() < end and server.poll() is None:
        found = _ADDRESS.search(log.read_text(encoding="utf-8"))
        try:
            if found:
                with urllib.request.urlopen(f"{found[1]}/", timeout=5):
                    return Served(found[1], found[2], server.pid)
        except OSError:
            pass
        time.sleep(0.05)
    raise RuntimeError(f"quantscope play did not answer: {log.read_text(encoding='utf-8')}")
