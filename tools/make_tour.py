"""Take the pictures of docs/playground from the real app, and a short film of them.

    python tools/make_tour.py            all of them, light, and one in dark

Starts `quantscope play` on a free port, walks through its panes in a Chromium as a person would,
and writes docs/playground/images: a PNG a step and tour.webp. Nothing of the page is staged.
"""

import argparse
import io
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from PIL import Image
from playwright.sync_api import Browser, Page, expect, sync_playwright

from find_browser import find
from quantscope.files import write_whole
from serve_play import SECONDS, serving

FOLDER = Path(__file__).parent.parent / "docs" / "playground" / "images"
WIDTH, HEIGHT = 1280, 860
FILM_WIDTH = 960
COMMON_COLOURS = 96
MOST_BYTES, MOST_FILM_BYTES = 150_000, 2_000_000

Step = Callable[[Page], None]


def open_page(page: Page) -> None:
    expect(page.get_by_test_id("image-count")).to_have_text("1,000")
    head = page.get_by_test_id("job").first
    expect(head).to_have_attribute("data-running", "false")
    _wait_until_drawn(page)


def select_layer(page: Page) -> None:
    page.get_by_test_id("tab-Layer").click()
    page.get_by_test_id("graph").locator('[data-layer="stack2.conv1"]').click()
    expect(page.get_by_test_id("layer-name")).to_have_text("stack2.conv1")
    _wait_until_drawn(page)


def all_layers(page: Page) -> None:
    page.get_by_test_id("tab-Network").click()
    _wait_until_drawn(page, "Signal to quantization noise along the network")


def flipped_images(page: Page) -> None:
    page.get_by_test_id("tab-Samples").click()
    page.get_by_test_id("image-filter").select_option("flipped")
    expect(page.locator('[data-testid="thumbnail"]:not(.flipped)')).to_have_count(0)
    page.get_by_test_id("thumbnail").nth(1).click()
    expect(page.get_by_test_id("thumbnail").nth(1)).to_have_attribute("aria-selected", "true")
    index = page.get_by_test_id("thumbnail").nth(1).get_attribute("data-index")
    _wait_until_drawn(page, f"stack2.conv1.out of image {int(index or 0):,}")


def what_if(page: Page) -> None:
    page.get_by_test_id("tab-What if").click()
    expect(page.get_by_test_id("handle-high")).to_be_visible()


def slider_moved(page: Page) -> None:
    page.get_by_test_id("slider-scale").focus()
    for _ in range(4):
        page.keyboard.press("PageDown")
    expect(page.get_by_test_id("what-if-edited")).to_be_visible()
    expect(page.get_by_test_id("edited-accuracy")).to_contain_text("%")
    _wait_until_drawn(page, "Change of confusion")


def residuals(page: Page) -> None:
    undo = page.get_by_test_id("undo")
    while undo.is_visible():
        undo.click()
        page.wait_for_timeout(500)
    expect(page.get_by_test_id("edits")).to_be_hidden()
    page.get_by_test_id("tab-Residuals").click()
    _wait_until_drawn(page, "Branches of every sum")


def trace(page: Page) -> None:
    page.get_by_test_id("tab-Trace").click()
    heading = page.get_by_test_id("trace-text").locator(".qs-heading")
    expect(heading).to_contain_text("output [0, 0, 0]")
    place = page.get_by_test_id("feature-map")
    box = place.bounding_box()
    assert box is not None
    place.click(position={"x": 0.53 * box["width"], "y": 0.47 * box["height"]})
    expect(heading).to_contain_text("output [0, 7, 8]")


def ptq_lab(page: Page) -> None:
    page.get_by_test_id("tab-Quantize").click()
    page.get_by_test_id("lab-activations").select_option("uint8")
    page.get_by_test_id("lab-methods").click()
    expect(page.get_by_test_id("trial-open")).to_have_count(3)
    expect(page.get_by_test_id("lab").get_by_test_id("job")).to_have_attribute(
        "data-running", "false"
    )
    _wait_until_drawn(page, "Tried configurations")


def help_page(page: Page) -> None:
    page.get_by_test_id("tab-Help").click()
    expect(page.get_by_test_id("help")).to_be_visible()


STEPS: dict[str, Step] = {
    "open": open_page,
    "layer": select_layer,
    "layers": all_layers,
    "images": flipped_images,
    "what-if": what_if,
    "what-if-moved": slider_moved,
    "residuals": residuals,
    "trace": trace,
    "ptq-lab": ptq_lab,
    "help": help_page,
}
FILM = ("open", "layer", "images", "what-if", "what-if-moved", "residuals", "trace", "ptq-lab")


def _wait_until_drawn(page: Page, title: str | None = None) -> None:
    """Wait until the pane's figures are there, that with this title too, and nothing moves."""
    if title:
        expect(page.get_by_test_id(f"card-{title}")).to_have_attribute("data-drawn", "true")
    expect(page.locator('.qs-gallery .card[data-drawn="false"]')).to_have_count(0)
    page.wait_for_timeout(700)


def tour(browser: Browser, address: str) -> Iterator[tuple[str, Image.Image]]:
    """Take a picture a step, in the order in which a person would take them."""
    page = _new_page(browser, address, dark=False)
    for name, step in STEPS.items():
        step(page)
        taken = _picture(page)
        yield name, taken
        if name == "layer":
            yield "header", taken.crop(_box(page, "numbers", above=True))
            yield "graph", taken.crop(_box(page, "graph"))
    page.context.close()
    page = _new_page(browser, address, dark=True)
    open_page(page)
    select_layer(page)
    yield "layer-dark", _picture(page)
    page.context.close()


def _box(page: Page, test_id: str, *, above: bool = False) -> tuple[int, int, int, int]:
    """Find a part of the page, with some air; `above`: the whole width, from the top."""
    box = page.get_by_test_id(test_id).bounding_box()
    assert box is not None
    bottom = round(box["y"] + box["height"]) + 12
    if above:
        return 0, 0, WIDTH, bottom
    left, top = round(box["x"]) - 12, round(box["y"]) - 52
    return left, top, round(box["x"] + box["width"]) + 12, bottom


def _new_page(browser: Browser, address: str, *, dark: bool) -> Page:
    context = browser.new_context(
        viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="dark" if dark else "light"
    )
    page = context.new_page()
    page.set_default_timeout(SECONDS * 1000)
    page.goto(address)
    return page


def _picture(page: Page) -> Image.Image:
    page.mouse.move(WIDTH - 2, HEIGHT - 2)
    page.wait_for_timeout(300)
    return Image.open(io.BytesIO(page.screenshot())).convert("RGB")


def png(picture: Image.Image) -> bytes:
    """Write a PNG with a palette: the most frequent colours as they are, the others nearly."""
    pixels = np.asarray(picture)
    found, places, counts = np.unique(
        pixels.reshape(-1, 3), axis=0, return_inverse=True, return_counts=True
    )
    common = found[np.argsort(-counts, kind="stable")[:COMMON_COLOURS]]
    rare = picture.quantize(256 - len(common), method=Image.Quantize.MAXCOVERAGE).getpalette()
    palette = np.concatenate([common, np.array(rare, np.uint8).reshape(-1, 3)])
    # Pillow's own search for the nearest colour is approximate, and shifts the background.
    distances = ((found[:, None].astype(np.int32) - palette) ** 2).sum(2)
    nearest = distances.argmin(1).astype(np.uint8)[places].reshape(pixels.shape[:2])
    few, kept = Image.fromarray(nearest, "P"), io.BytesIO()
    few.putpalette(palette.tobytes())
    few.save(kept, "PNG", optimize=True)
    if kept.tell() > MOST_BYTES:
        raise ValueError(f"a picture takes {kept.tell():,} bytes; {MOST_BYTES:,} are afforded")
    return kept.getvalue()


def film(pictures: list[Image.Image]) -> bytes:
    """Join the steps, two seconds each, in a loop."""
    height = round(FILM_WIDTH * HEIGHT / WIDTH)
    frames = [one.resize((FILM_WIDTH, height), Image.Resampling.LANCZOS) for one in pictures]
    kept = io.BytesIO()
    frames[0].save(
        kept, "WEBP", save_all=True, append_images=frames[1:], duration=2200, loop=0, quality=82,
        method=6,
    )  # fmt: skip
    if kept.tell() > MOST_FILM_BYTES:
        raise ValueError(f"the film takes {kept.tell():,} bytes")
    return kept.getvalue()


def main() -> None:
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    found = find()
    if found is None:
        sys.exit("No Chromium was found; install one with: make browser")
    expect.set_options(timeout=SECONDS * 1000)
    FOLDER.mkdir(parents=True, exist_ok=True)
    taken = {}
    with serving() as served, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        for name, picture in tour(browser, served.way_in):
            taken[name] = picture
            _write(f"{name}.png", png(picture))
        browser.close()
    _write("tour.webp", film([taken[name] for name in FILM]))


def _write(name: str, content: bytes) -> None:
    write_whole(FOLDER / name, content)
    print(f"{name}: {len(content) / 1000:,.0f} kB", flush=True)


if __name__ == "__main__":
    main()
