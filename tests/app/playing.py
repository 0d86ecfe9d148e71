"""Starting the playground and waiting for it, for the tests that need more than the fixtures."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from playwright.sync_api import Page, expect

SECONDS = 90
"""A loaded machine is not a failing test."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def playing(
    *arguments: str, stdout: IO[bytes] | int = subprocess.PIPE, **environment: str
) -> Iterator[str]:
    """`quantscope play` on a free port; gives the address, and stops it as Ctrl-C does."""
    port = free_port()
    command = [sys.executable, "-m", "quantscope", "play", *arguments]
    server = subprocess.Popen(
        [*command, "--no-browser", "--port", str(port)],
        stdout=stdout,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **environment},
    )
    address = f"http://127.0.0.1:{port}"
    try:
        _wait_for(address, server)
        yield address
    finally:
        server.send_signal(signal.SIGINT)
        try:
            server.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            server.kill()
            server.communicate()
            raise


def _wait_for(address: str, server: subprocess.Popen[str]) -> None:
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        if server.poll() is not None:
            output, _ = server.communicate()
            raise AssertionError(f"quantscope play ended with {server.returncode}: {output}")
        try:
            with urllib.request.urlopen(address, timeout=5):
                return
        except OSError:
            time.sleep(0.1)
    raise AssertionError(f"{address} did not answer within {SECONDS} s")


def settled(page: Page) -> Page:
    """Waits for the numbers on all bundled images."""
    expect(page.get_by_test_id("image-count")).to_have_text("1,000")
    return page
