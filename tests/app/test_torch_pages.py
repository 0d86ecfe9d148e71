"""PyTorch's files in every tab: what there is, or one line why there is nothing."""

from collections.abc import Callable
from pathlib import Path

import pytest
from playing import settled
from playwright.sync_api import Page, expect

from quantscope.app.place import TABS

OpenPage = Callable[..., Page]
SHOWN = {
    "Diagnose": "diagnosis",
    "Layer": "layer",
    "Network": "table-tensors",
    "Samples": "samples",
    "Residuals": "residuals",
    "Trace": "no-trace",
    "Bits": "no-bits",
    "Help": "help",
}


def walked(page: Page, shown: dict[str, str], float_lines: int) -> None:
    for tab in TABS:
        page.get_by_test_id(f"tab-{tab}").click()
        expect(page.get_by_test_id(shown[tab])).to_be_visible()
        expect(page.locator('.qs-gallery .card[data-drawn="false"]')).to_have_count(0)
        expect(page.get_by_text("give that one too, to compare the two")).to_have_count(float_lines)
        expect(page.get_by_text("mistake in quantscope")).to_have_count(0)
        expect(page.locator(".qs-gallery .error")).to_have_count(0)


@pytest.mark.slow
def test_a_program_is_shown_in_every_tab(
    playground: str, open_page: OpenPage, resnet8_program: Path
) -> None:
    page = settled(open_page(f"{playground}/?model={resnet8_program}"))
    walked(page, {**SHOWN, "What if": "what-if", "Quantize": "lab"}, float_lines=0)
    expect(page.get_by_test_id("accuracy-runtime")).to_contain_text("no shipped kernels here")


def test_a_torchscript_archive_says_once_what_it_does_not_know(
    playground: str, open_page: OpenPage, shared_folder: Path
) -> None:
    archive = shared_folder / "legacy" / "resnet8_int8.pt"
    page = settled(open_page(f"{playground}/?model={archive}"))
    walked(page, {**SHOWN, "What if": "no-what-if", "Quantize": "no-lab"}, float_lines=1)
    expect(page.get_by_test_id("accuracy-reference")).to_contain_text("no reference execution here")
    expect(page.get_by_test_id("accuracy-float")).to_contain_text("not known")
