"""How the page behaves while something is under way: it claims nothing, and shows nothing wrong."""

from collections.abc import Callable

import pytest
from playing import playing, settled
from playwright.sync_api import Page, expect

OpenPage = Callable[..., Page]

FIND = """
window.findAll = (name, root = document) => [...root.querySelectorAll(name),
  ...[...root.querySelectorAll("*")].filter((part) => part.shadowRoot)
    .flatMap((part) => window.findAll(name, part.shadowRoot))];
window.eachFrame = (what) => { what(); requestAnimationFrame(() => window.eachFrame(what)); };
"""
WATCH_PROGRESS = """
window.said = [];
window.eachFrame(() => {
  const [job] = window.findAll(".qs-job");
  const text = job?.querySelector(".what").textContent;
  if (text && text !== window.said.at(-1)) window.said.push(text);
});
"""
WATCH_PICTURES = """
window.corners = {};
window.eachFrame(() => {
  for (const picture of window.findAll(".qs-gallery img")) {
    if (!picture.naturalWidth || picture.src in window.corners) continue;
    const canvas = Object.assign(document.createElement("canvas"), { width: 1, height: 1 });
    const room = canvas.getContext("2d");
    room.drawImage(picture, 0, 0);
    window.corners[picture.src] = room.getImageData(0, 0, 1, 1).data[3];
  }
});
"""
TURN = """(name) => {
  const shown = (what) => window.findAll(what).some((part) => part.getClientRects().length > 0);
  const before = [shown('[data-testid="layer"]'), shown(".qs-gallery .card")];
  window.findAll(`[data-testid="tab-${name}"]`)[0].click();
  const after = [shown('[data-testid="layer"]'), shown(".qs-gallery .card")];
  const bar = document.querySelector('[data-cell-name="tabs"]');
  return { before, after, waits: getComputedStyle(bar, "::after").display };
}"""


def watched(open_page: OpenPage, address: str, script: str, *, dark: bool = False) -> Page:
    """A page that is watched from its first frame on."""
    page = open_page("about:blank", dark=dark)
    page.add_init_script(FIND + script)
    page.goto(address)
    return page


@pytest.mark.slow
def test_progress_names_its_phases_and_never_claims_to_be_done(open_page: OpenPage) -> None:
    with playing("resnet8-uint8") as address:
        page = watched(open_page, address, WATCH_PROGRESS)
        settled(page)
        expect(page.get_by_test_id("job-start")).to_have_text("all 10,000 images")
        said = page.evaluate("window.said")
        assert not [text for text in said if "100 %" in text]
        assert all("%" in text or text.endswith("…") for text in said)
        assert any(text.startswith("Comparing") for text in said)
        page.close()  # before its server goes


def test_the_pane_that_is_left_is_gone_at_once(playground: str, open_page: OpenPage) -> None:
    page = settled(watched(open_page, f"{playground}/?tab=Layer", ""))
    expect(page.locator('.qs-gallery .card[data-drawn="true"]').first).to_be_visible()
    found = page.evaluate(TURN, "Residuals")
    assert found == {"before": [True, True], "after": [False, False], "waits": "block"}
    expect(page.get_by_test_id("residuals")).to_be_visible()
    expect(page.get_by_test_id("card-Branches of every sum")).to_be_visible()
    waits = "getComputedStyle(document.querySelector('[data-cell-name=tabs]'), '::after').display"
    assert page.evaluate(waits) == "none"


def test_in_the_dark_no_light_figure_is_shown_first(playground: str, open_page: OpenPage) -> None:
    page = watched(open_page, f"{playground}/?tab=Layer", WATCH_PICTURES, dark=True)
    expect(page.locator('.qs-gallery .card[data-drawn="true"]').first).to_be_visible()
    settled(page)
    corners = page.evaluate("Object.values(window.corners)")
    assert corners
    assert set(corners) == {0}  # light figures are on white
