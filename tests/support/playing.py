"""Starting the playground and going into it, for the tests that need more than the fixtures."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import BrowserContext, Page, expect

from serve_play import Served, serving

SECONDS = 90
"""A loaded machine is not a failing test."""

SERVED: dict[str, Served] = {}
"""The playgrounds that run, by their addresses."""


@contextmanager
def playing(
    *arguments: str, log: Path | None = None, cwd: Path | None = None, **environment: str
) -> Iterator[str]:
    """`quantscope play` on a free port; gives the address, without the token."""
    with serving(*arguments, log=log, cwd=cwd, **environment) as served:
        SERVED[served.address] = served
        try:
            yield served.address
        finally:
            del SERVED[served.address]


def let_in(context: BrowserContext) -> BrowserContext:
    """The browser gets the cookies of all playgrounds, as from the addresses they printed."""
    for served in SERVED.values():
        assert context.request.get(served.way_in).ok
    return context


def settled(page: Page) -> Page:
    """Waits for the numbers on all bundled images."""
    expect(page.get_by_test_id("image-count")).to_have_text("1,000")
    return page
