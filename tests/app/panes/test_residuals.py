"""The Residuals pane: the numbers of `quantscope.model.residuals`, for every sum."""

from collections.abc import Callable

from playing import settled
from playwright.sync_api import Page, expect

from quantscope.app.opened import open_pair
from quantscope.app.panes.parts import share_text
from quantscope.app.panes.residuals import show, wanted
from quantscope.app.place import first_selection
from quantscope.app.session import Session
from quantscope.data import load_sample
from quantscope.model import bundled_models, read_network
from quantscope.model.residuals import residuals
from quantscope.run.compare.compare import compare


def test_every_sum_has_the_numbers_of_the_library(
    playground: str, open_page: Callable[..., Page]
) -> None:
    page = settled(open_page(playground))
    page.get_by_test_id("tab-Residuals").click()
    comparison = compare("resnet8-int8", load_sample())
    found = residuals(read_network(bundled_models()["resnet8-int8"]))
    cards = page.get_by_test_id("residuals").locator("section")
    expect(cards).to_have_count(len(found))
    for card, residual in zip(cards.all(), found, strict=True):
        assert residual.output is not None
        row = comparison[residual.output]
        assert row.sources is not None
        expect(card.locator(".qs-heading")).to_contain_text(
            f"step of the sum {residual.output_step:.4g}"
        )
        expect(card.locator(".qs-heading")).to_contain_text(f"SQNR {row.sqnr_db:.1f} dB")
        for line, branch in zip(card.locator("tbody tr").all(), residual.branches, strict=True):
            expect(line.locator("td")).to_have_text(
                [
                    branch.tensor,
                    f"{branch.step:.4g}",
                    f"{branch.bits_lost:.2f}",
                    f"{branch.effective_bits:.2f} of 8",
                    share_text(row.sources.inherited_by_input[branch.tensor], 1),
                ]
            )
    cards.last.get_by_role("button", name="stack3.shortcut.out").click()
    chosen = page.get_by_test_id("graph").locator('[aria-selected="true"]')
    expect(chosen).to_have_attribute("data-layer", "stack3.shortcut")
    expect(page.get_by_test_id("card-Branches of every sum")).to_have_attribute(
        "data-drawn", "true"
    )


def test_a_float_model_has_no_steps_that_differ() -> None:
    session = Session(open_pair("resnet8"))
    shown = show(session, first_selection(session.opened.network))
    assert "Nothing is quantized in this network" in shown.text
    assert wanted(session, theme="light") == []


def test_a_share_that_is_not_zero_never_reads_as_zero() -> None:
    assert (share_text(0), share_text(1e-5), share_text(-1e-5)) == (
        "0.00 %",
        "< 0.01 %",
        "> −0.01 %",
    )
    assert (share_text(-0.004, 0), share_text(-0.3, 1)) == ("> −1 %", "−30.0 %")
