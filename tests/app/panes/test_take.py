"""The menu Copy and save: what it gives is what the tab shows."""

import csv
import re
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Locator, Page, expect

PICTURES = {"SVG": b"<?xml", "PNG": b"\x89PNG"}


def opened_menu(page: Page) -> Locator:
    menu = page.get_by_test_id("take")
    menu.locator("summary").click()
    expect(menu.get_by_role("button", name="Python: the scores")).to_be_visible()
    return menu


def saved(page: Page, menu: Locator, name: str) -> Path:
    with page.expect_download() as download:
        menu.get_by_role("button", name=name).first.click()
    return Path(download.value.path())


def test_numbers_tables_and_figures_of_a_tab_can_be_taken_away(
    playground: str, open_page: Callable[..., Page]
) -> None:
    page = open_page(f"{playground}/?tab=Network&run=runtime")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    card = page.locator(".card", has_text="Weights of all layers")
    expect(card).to_have_attribute("data-drawn", "true")
    page.get_by_test_id("filter-tensors").fill("stem")
    menu = opened_menu(page)
    menu.get_by_role("button", name="command: the layers and their parameters").click()
    expect(menu.get_by_role("status")).to_have_text(re.compile("^Copied"))
    assert page.evaluate("navigator.clipboard.readText()") == "quantscope inspect resnet8-int8"

    with saved(page, menu, "CSV: Table of tensors").open(newline="") as file:
        head, *rows = csv.reader(file)
    assert head[:2] == ["tensor", "shape"]
    assert [row[0] for row in rows] == ["stem.weight", "stem.bias", "stem.out"]
    shown = page.get_by_test_id("table-tensors").locator("tbody tr").last.locator("td")
    assert [text.replace("−", "-") for text in shown.all_inner_texts()] == rows[-1]

    for kind, begins in PICTURES.items():
        picture = saved(page, menu, f"{kind}: Weights of all layers")
        assert picture.read_bytes().startswith(begins)
    page.keyboard.press("Escape")
    expect(menu.get_by_role("button")).to_have_count(0)
