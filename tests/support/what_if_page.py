"""What tests do on the What-if tab, and what they look for there."""

from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Locator, Page, expect

from quantscope.app.panes.scores import percent, points
from quantscope.edit import Edit, Recipe
from quantscope.run.whatif.whatif import Effect

Ask = Callable[..., Effect]
"""The library's answer to edits."""


def at_the_stem(page: Page) -> Page:
    """On the What-if tab, nothing edited, the stem's output selected."""
    page.get_by_test_id("tab-What if").click()
    clear(page)
    page.get_by_test_id("graph").locator('[data-layer="stem"]').click()
    expect(page.get_by_test_id("tensor-name")).to_have_text("stem.out")
    expect(page.get_by_test_id("handle-high")).to_be_visible()
    page.get_by_test_id("choice-reference").click()
    return page


def clear(page: Page) -> None:
    expect(page.get_by_test_id("what-if-original")).to_be_visible()
    if page.get_by_test_id("clear-edits").is_visible():
        page.get_by_test_id("clear-edits").click()
    expect(page.get_by_test_id("clear-edits")).to_be_hidden()
    expect(page.get_by_test_id("what-if-edited")).to_have_count(0)


def shows(page: Page, effect: Effect) -> None:
    """Accuracy, difference and flips of this answer, in the pane and on the strip."""
    edited, delta = effect.evaluation, effect.against_base
    value = percent(edited.accuracy, edited.images)
    change = points(delta.delta, delta.interval_95, edited.images)
    card = page.get_by_test_id("what-if-edited")
    expect(card.locator(".qs-value")).to_have_text(value)
    expect(card.locator(".qs-delta")).to_have_text(change)
    expect(page.get_by_test_id("edited-accuracy")).to_have_text(value)
    expect(page.get_by_test_id("edited-delta")).to_have_text(change)
    for key, images in (("lost", delta.lost), ("gained", delta.gained)):
        group = page.get_by_test_id(f"flips-{key}")
        expect(group.locator("h3 b")).to_have_text(str(len(images)))
        if 0 < len(images) <= 24:
            shown = [int(f.get_attribute("data-index")) for f in group.locator("figure").all()]
            assert shown == images.tolist()


def edits_of(page: Page, folder: Path) -> tuple[Edit, ...]:
    """Those in force, as the page saves them."""
    return saved(page, folder).edits


def saved(page: Page, folder: Path) -> Recipe:
    with page.expect_download() as download:
        page.get_by_text("save the recipe").click()
    path = folder / download.value.suggested_filename
    download.value.save_as(path)
    return Recipe.load(path)


def type_in(page: Page, field: str, text: str) -> Locator:
    found = page.get_by_test_id(f"field-{field}")
    found.fill(text)
    found.press("Enter")
    return found


def chips(page: Page) -> Locator:
    return page.get_by_test_id("edits").locator(".chip")
