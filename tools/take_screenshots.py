"""Take a picture of every tab of the playground, light and dark, at three widths.

python tools/take_screenshots.py FOLDER [MODEL ...]
"""

import sys
from pathlib import Path

from playwright.sync_api import Browser, expect, sync_playwright

import find_browser
from quantscope.app.place import TABS
from serve_play import Served, serving

WIDTHS = (1024, 1280, 1920)
HEIGHT = 1000
_MILLISECONDS = 300_000


def main(folder: Path, *models: str) -> None:
    """Write FOLDER/MODEL-TAB-WIDTH-THEME.png, the pages with all their numbers."""
    folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=find_browser.find(), args=["--no-sandbox"]
        )
        for model in models or ("resnet8-int8",):
            with serving(model) as served:
                for theme in ("light", "dark"):
                    for width in WIDTHS:
                        _take(browser, served, folder, (Path(model).stem, width, theme))
        browser.close()


def _take(browser: Browser, served: Served, folder: Path, about: tuple[str, int, str]) -> None:
    name, width, theme = about
    context = browser.new_context(
        viewport={"width": width, "height": HEIGHT},
        color_scheme="dark" if theme == "dark" else "light",
    )
    assert context.request.get(served.way_in).ok
    page = context.new_page()
    page.goto(served.address)
    # The numbers are complete when there is no more to stop.
    stop = page.get_by_test_id("job-stop")
    expect(page.get_by_test_id("accuracy-float").locator(".qs-value")).not_to_have_text(
        "…", timeout=_MILLISECONDS
    )
    expect(stop).to_be_hidden(timeout=_MILLISECONDS)
    for tab in TABS:
        page.get_by_test_id(f"tab-{tab}").click()
        expect(page.locator(f'[role="main"][aria-label="{tab}"] .output')).to_be_visible()
        page.wait_for_timeout(500)  # figures begin to be drawn
        drawing = page.locator('.qs-gallery .card[data-drawn="false"]')
        expect(drawing).to_have_count(0, timeout=_MILLISECONDS)
        path = folder / f"{name}-{tab.replace(' ', '-')}-{width}-{theme}.png"
        page.screenshot(path=path)
    context.close()


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(f"Give a folder: {sys.argv[0]} FOLDER [MODEL ...]")
    main(Path(sys.argv[1]), *sys.argv[2:])
