"""The playground in a real Chromium: one server and one browser for all tests."""

import os
import re
from collections.abc import Callable, Iterator

import pytest
from playing import SECONDS, let_in, playing
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, expect, sync_playwright
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
        is_written_page = asked.url.startswith("file:") and asked.is_navigation_request()
        if not is_written_page and not re.match(OURS, asked.url):
            wrong.append(f"request to {asked.url}")

    def open_at(address: str, *, width: int = 1280, height: int = 800, dark: bool = False) -> Page:
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
        )
        contexts.append(let_in(context))
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
def desk(browser: Browser, playground: str) -> Iterator[Page]:
    """One page for all tests of a file: opening one takes longer than any of them."""
    context = let_in(browser.new_context(viewport={"width": 1280, "height": 1400}))
    page = context.new_page()
    wrong: list[str] = []
    page.set_default_timeout(SECONDS * 1000)
    page.on("console", lambda m: wrong.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.goto(playground)
    yield page
    clear(page)
    context.close()
    assert not wrong
