"""The playground in a real Chromium: one server and one browser for all tests of a process."""

import os
import re
from collections.abc import Callable, Iterator

import pytest
from playing import SECONDS, let_in, playing, settled
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Request,
    expect,
    sync_playwright,
)
from what_if_page import Ask, clear

import find_browser
from quantscope.data import load_sample
from quantscope.edit import Edit
from quantscope.run.whatif.whatif import Effect, WhatIf

OURS = r"(https?|ws)://127\.0\.0\.1[:/]|data:|blob:"
expect.set_options(timeout=SECONDS * 1000)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    found = find_browser.find()
    if found is None:
        reason = "no Chromium was found; install one with: make browser"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The address of the playground with what it opens by itself."""
    with playing() as address:
        yield address


@pytest.fixture(scope="session")
def playground(server: str, browser: Browser) -> Iterator[str]:
    """The same address, while a page that has all its numbers stays open.

    Pages share what they show for as long as one of them shows it, so no test measures it again.
    """
    context = let_in(browser.new_context())
    page = context.new_page()
    page.goto(server)
    settled(page)
    yield server
    context.close()


class Watch:
    """Opens pages, and notes any error in them and any request to elsewhere."""

    def __init__(self, browser: Browser) -> None:
        self.wrong: list[str] = []
        self._browser = browser
        self._contexts: list[BrowserContext] = []

    def open_at(
        self, address: str, *, width: int = 1280, height: int = 800, dark: bool = False
    ) -> Page:
        context = self._browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
        )
        self._contexts.append(let_in(context))
        page = context.new_page()
        page.set_default_timeout(SECONDS * 1000)
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.wrong.append(f"page: {error}"))
        page.on("request", self._request)
        page.goto(address)
        return page

    def close(self) -> None:
        """Close the pages, and fail for what went wrong in them."""
        for context in self._contexts:
            for page in context.pages:
                if page.get_by_text("An internal error occurred").count():
                    self.wrong.append("marimo says that an internal error occurred")
            context.close()
        assert not self.wrong

    def _console(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.wrong.append(f"console: {message.text}")

    def _request(self, asked: Request) -> None:
        is_written_page = asked.url.startswith("file:") and asked.is_navigation_request()
        if not is_written_page and not re.match(OURS, asked.url):
            self.wrong.append(f"request to {asked.url}")


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Callable[..., Page]]:
    """`open_page(address, ...)`: a page of this test's own."""
    watch = Watch(browser)
    yield watch.open_at
    watch.close()


@pytest.fixture(scope="module")
def open_desk(browser: Browser) -> Iterator[Callable[..., Page]]:
    """`open_desk(address, ...)`: one page for all tests of a file.

    Opening one takes longer than most of them. Each brings it into the state that it begins with.
    """
    watch = Watch(browser)
    yield watch.open_at
    watch.close()


@pytest.fixture(scope="module")
def ask() -> Ask:
    """The library's own answers, on the images that the page takes."""
    opened: dict[str, WhatIf] = {}

    def answer(*edits: Edit, execution: str = "reference", full: bool = False) -> Effect:
        if execution not in opened:
            opened[execution] = WhatIf("resnet8-int8", load_sample(), execution=execution)
        return opened[execution].answer(edits, full=full)

    return answer


@pytest.fixture(scope="module")
def desk(playground: str, open_desk: Callable[..., Page]) -> Iterator[Page]:
    """A page whose edits are taken back at the end."""
    page = open_desk(playground, height=1400)
    yield page
    clear(page)
