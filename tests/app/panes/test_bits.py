"""The Bits tab: what was measured can be put in force with a click."""

import pytest

from quantscope.app.page import Page
from quantscope.app.panes import bits
from quantscope.edit import SetBits
from quantscope.progress import silent
from quantscope.study.bits import bit_map, edits_for


@pytest.fixture
def measured(small_page: Page, monkeypatch: pytest.MonkeyPatch) -> Page:
    monkeypatch.setattr(bits, "WIDTHS", (4, 8))
    for what in ("map", "curves", "frontier"):
        list(bits._measure(small_page.session, what, silent))
    return small_page


def test_nothing_is_measured_unasked(small_page: Page) -> None:
    text = bits.bits_html(small_page.session)
    assert text.count("data-ask") == 3
    assert "bit-map" not in text and small_page.bits.wanted("light") == []


def test_cells_and_points_become_the_edits_in_force(measured: Page) -> None:
    session = measured.session
    text = bits.bits_html(session)
    expected = bit_map(
        session.opened.model,
        session.quick,
        float_model=session.opened.original,
        weights=(4, 8),
        activations=(4, 8),
    )
    walk = bits.found(session, "frontier")
    shown = [cell.score for cell in bits.found(session, "map").cells]
    assert shown == [cell.score for cell in expected.cells]
    scored = sum(cell.score is not None for cell in expected.cells)
    assert text.count("put-bits") == scored + len(walk.points)
    measured.bits.asked({"do": "put-bits", "weights": "4", "activations": ""})
    assert list(measured.edits) == edits_for(4, None)
    measured.bits.asked({"do": "put-bits", "point": "1"})
    assert measured.edits == walk.points[1].edits
    assert any(isinstance(edit, SetBits) and edit.bits < 8 for edit in measured.edits)
    assert len(measured.bits.wanted("light")) == 2


@pytest.mark.parametrize("place", [{"point": "999"}, {"point": "x"}, {"weights": "4"}, {}])
def test_a_click_on_what_is_gone_changes_nothing(small_page: Page, place: dict[str, str]) -> None:
    small_page.bits.asked({"do": "put-bits", **place})
    assert small_page.edits == ()
