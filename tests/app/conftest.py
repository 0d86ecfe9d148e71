"""The playground in a real Chromium: one server and one browser for all tests."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, expect, sync_playwright

ROOT = Path(__file__).parent.parent.parent
SECONDS = 90
"""A loaded machine is not a failing test."""

expect.set_options(timeout=SECONDS * 1000)


def _find_browser() -> ModuleType:
    spec = spec_from_file_location("find_browser", ROOT / "tools" / "find_browser.py")
    assert spec and spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    found = _find_browser().find()
    if found is None:
        reason = "no Chromium was found; install one with: make browser"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def playing(*arguments: str, **environment: str) -> Iterator[str]:
    """`quantscope play` on a free port; gives the address, and stops it as Ctrl-C does."""
    port = free_port()
    command = [sys.executable, "-m", "quantscope", "play", *arguments]
    server = subprocess.Popen(
        [*command, "--no-browser", "--port", str(port)],
        stdout=subprocess.PIPE,
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


@pytest.fixture(scope="session")
def playground() -> Iterator[str]:
    """The address of the playground with what it opens by itself."""
    with playing() as address:
        yield address


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Opens pages, and fails the test for any error in them or request to elsewhere."""
    wrong: list[str] = []
    contexts = []

    def console(message: ConsoleMessage) -> None:
        if message.type == "error":
            wrong.append(f"console: {message.text}")

    def request(asked: Request) -> None:
        if not re.match(r"(https?|ws)://127\.0\.0\.1[:/]|data:|blob:", asked.url):
            wrong.append(f"request to {asked.url}")

    def open_at(address: str, *, width: int = 1280, height: int = 800, dark: bool = False) -> Page:
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(SECONDS * 1000)
        page.on("console", console)
        page.on("pageerror", lambda error: wrong.append(f"page: {error}"))
        page.on("request", request)
        page.goto(address)
        return page

    yield open_at
    for context in contexts:
        for page in context.pages:
            if page.get_by_text("An internal error occurred").count():
                wrong.append("marimo says that an internal error occurred")
        context.close()
    assert not wrong


def settled(page: Page) -> Page:
    """Waits for the numbers on all bundled images."""
    expect(page.get_by_test_id("image-count")).to_have_text("1,000")
    return page
