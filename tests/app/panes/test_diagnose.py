"""The Diagnose tab: it shows any finding, and its buttons do what they say."""

from collections.abc import Callable

import pytest
from planted import rows
from playwright.sync_api import Page as Browsed
from playwright.sync_api import expect
from what_if_page import clear

from quantscope.app.page import Page
from quantscope.app.panes.diagnose import actions, worst_selection
from quantscope.app.place import first_selection
from quantscope.cure import correct_biases
from quantscope.edit import SetRange
from quantscope.progress import silent


def shown(page: Page) -> str:
    return str(page.doctor.show(page.selection).text)


def diagnosed(page: Page) -> Page:
    list(page.session.compare(page.session.quick))
    list(page.session.diagnose(page.session.quick))
    page.refresh()
    return page


def test_until_it_is_known_the_pane_says_that_it_is_being_found(small_page: Page) -> None:
    assert "Being diagnosed" in shown(small_page)


def test_a_finding_is_shown_with_its_place_and_a_button_for_each_remedy(small_page: Page) -> None:
    (finding,) = diagnosed(small_page).session.diagnosis.findings
    text = shown(small_page)
    assert f'data-testid="finding-{finding.kind}"' in text
    assert finding.title in text and finding.places[0].where in text
    assert text.count("put in force") == sum(bool(r.edits) for r in finding.remedies)


def test_a_remedy_joins_the_edits_in_force(small_page: Page) -> None:
    (finding,) = diagnosed(small_page).session.diagnosis.findings
    small_page.set_edits((other := SetRange("conv1.out", 0, 3),))
    small_page.doctor.asked({"do": "remedy", "finding": "0", "remedy": "0"})
    assert small_page.edits == (other, *finding.remedies[0].edits)
    assert small_page.tabs.tab == "What if"


@pytest.mark.parametrize("message", [{"finding": "9"}, {"finding": "x", "remedy": "0"}, {}])
def test_a_button_of_findings_that_are_gone_says_so(
    small_page: Page, message: dict[str, str]
) -> None:
    diagnosed(small_page).doctor.asked({"do": "remedy", **message})
    assert "The findings have changed; choose again" in shown(small_page)
    assert small_page.edits == ()


def test_what_was_tried_stands_beside_its_button(small_page: Page) -> None:
    diagnosed(small_page)
    assert 'data-testid="attempt"' not in shown(small_page)
    list(small_page.session.try_remedies())
    assert 'data-testid="attempt"' in shown(small_page)
    assert "measure every proposal" not in shown(small_page)


def test_a_cure_joins_the_edits_in_force(small_page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    list(diagnosed(small_page).doctor._cure("bias correction", silent))
    assert "A cure looks at calibration samples" in shown(small_page)
    assert small_page.edits == ()
    monkeypatch.setattr(actions, "calibration_for", lambda _: rows(64, seed=2))
    small_page.set_edits((other := SetRange("conv1.out", 0, 3),))
    list(small_page.doctor._cure("bias correction", silent))
    cured = correct_biases(small_page.bench.editor, rows(64, seed=2), edits=(other,))
    assert small_page.edits == (other, *cured.edits)
    assert cured.edits


def test_the_worst_layer_is_selected_until_a_person_selects_another(small_page: Page) -> None:
    network = small_page.session.opened.network
    assert small_page.selection == first_selection(network)
    diagnosed(small_page)
    worst = worst_selection(small_page.session)
    assert small_page.selection == worst != first_selection(network)
    assert small_page.session.diagnosis.account.layers[0].layer in (worst.layer, worst.tensor)
    assert set(small_page.chrome.address.values()) == {""}
    small_page.select(first_selection(network))
    small_page.refresh()
    assert small_page.selection == first_selection(network)
    assert small_page.chrome.address["layer"]


def test_too_few_samples_are_a_line_and_no_tab_fails(
    small_page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    list(small_page.session.diagnose(small_page.session.sample.take(4)))
    assert "say too little to find a cause" in shown(small_page)


def test_the_first_tab_leads_to_the_worst_layers_and_to_what_parts_cost(
    playground: str, open_page: Callable[..., Browsed]
) -> None:
    page = open_page(playground)
    expect(page.get_by_test_id("verdict")).to_be_visible()
    layers = page.get_by_test_id("worst-layers").locator("tbody .qs-link")
    expect(layers.first).to_have_attribute("aria-pressed", "true")
    graph = page.get_by_test_id("graph").locator('[aria-selected="true"]')
    expect(graph).to_have_attribute("data-layer", layers.first.inner_text())
    layers.nth(1).click()
    expect(graph).to_have_attribute("data-layer", layers.nth(1).inner_text())
    page.get_by_test_id("account").get_by_role("button", name="try").first.click()
    expect(page.get_by_test_id("edits")).to_contain_text("weights")
    expect(page.get_by_test_id("what-if-edited")).to_be_visible()
    clear(page)
