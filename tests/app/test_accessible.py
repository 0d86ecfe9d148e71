"""Every tab says what it is to those who do not see it, and is reached with the keyboard."""

from collections.abc import Callable

import pytest
from playing import settled
from playwright.sync_api import Page, expect

import find_axe
from quantscope.app.place import TABS

VIOLATIONS = """async () => (await axe.run(document, {resultTypes: ["violations"]})).violations
  .map((found) => [found.id, ...found.nodes.map((node) => node.html.slice(0, 120))])"""


@pytest.fixture(scope="module")
def page(playground: str, open_desk: Callable[..., Page]) -> Page:
    return settled(open_desk(playground))


def test_axe_finds_nothing_in_any_tab_light_and_dark(page: Page) -> None:
    axe = find_axe.find()
    if axe is None:
        pytest.skip(find_axe.why_not())
    page.evaluate(axe.read_text(encoding="utf-8"))
    found = {}
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        expect(page.locator(f'html[data-qs-theme="{theme}"]')).to_have_count(1)
        for tab in TABS:
            page.get_by_test_id(f"tab-{tab}").click()
            expect(page.locator(f'[role="main"][aria-label="{tab}"] .output')).to_be_visible()
            # Marimo fades what it is about to replace.
            expect(page.get_by_test_id("loading-indicator")).to_have_count(0)
            expect(page.locator(".qs-gallery .pending")).to_have_count(0)
            if wrong := page.evaluate(VIOLATIONS):
                found[theme, tab] = wrong
    assert found == {}


def test_a_question_mark_lists_the_keys(page: Page) -> None:
    page.get_by_test_id("tab-Diagnose").focus()
    page.keyboard.press("?")
    expect(page.get_by_test_id("keyboard")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_test_id("keyboard")).to_be_hidden()
    page.get_by_test_id("filter-layers").press("?")
    expect(page.get_by_test_id("keyboard")).to_be_hidden()
    page.get_by_test_id("filter-layers").fill("")


def test_the_first_stop_of_the_keyboard_leads_to_the_tabs(page: Page) -> None:
    page.locator(".qs-skip").focus()
    page.keyboard.press("Enter")
    expect(page.locator('[role="tab"]:focus')).to_have_attribute("aria-selected", "true")
