"""The pages that commands write, in a browser: they live with their own content policies."""

from collections.abc import Callable
from pathlib import Path

import pytest
from in_process import run
from playwright.sync_api import Browser, Page, expect

OpenPage = Callable[..., Page]
WRITTEN = ("report.html", "compare.html", "graph.html")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("written")
    (folder / "study.toml").write_text("[[config]]\ncalibration_images = 4\n")
    few = ("--images", "4")
    for words in (
        ("study", folder / "study.toml", *few, "--workers", 1, "--out", folder / "study"),
        ("compare", "resnet8-int8", *few, "--html", folder / "compare.html"),
        ("graph", "resnet8-int8", "-o", folder / "graph.html"),
    ):
        done = run(*words)
        assert done.returncode == 0, done.stderr
    (folder / "study" / "report.html").rename(folder / "report.html")
    return folder


@pytest.mark.parametrize("name", WRITTEN)
def test_a_written_page_shows_all_it_has(written: Path, open_page: OpenPage, name: str) -> None:
    page = open_page((written / name).as_uri())
    expect(page.locator("h1, svg").first).to_be_visible()
    widths = page.evaluate("Array.from(document.images, (image) => image.naturalWidth)")
    assert all(widths)
    assert bool(widths) == (name != "graph.html")


@pytest.mark.parametrize("name", WRITTEN)
def test_scripts_that_are_not_its_own_do_not_run(
    written: Path, browser: Browser, tmp_path: Path, name: str
) -> None:
    """Even if a name got past the escaping. The same page without a policy runs them."""
    text = (written / name).read_text()
    hostile = '<img src="x" onerror="window.ran = 1"><script>window.ran = 1</script></body>'
    start = text.index('<meta http-equiv="Content-Security-Policy"')
    open_text = text[:start] + text[text.index(">", start) + 1 :]
    for content, ran in ((text, None), (open_text, 1)):
        path = tmp_path / f"{ran}.html"
        path.write_text(content.replace("</body>", hostile))
        page = browser.new_page()
        page.goto(path.as_uri())
        assert page.evaluate("window.ran ?? null") == ran
        page.close()
