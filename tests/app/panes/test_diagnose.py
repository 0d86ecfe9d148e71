"""The Diagnose tab: it shows any finding, and its buttons do what they say."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from planted import Plant, convnet, convnet_weights, edited
from playwright.sync_api import Page as Browsed
from playwright.sync_api import expect
from what_if_page import clear

from quantscope.app.page import Page, Setters
from quantscope.app.panes.diagnose import worst_selection
from quantscope.app.place import begin_at, first_selection
from quantscope.edit import SetRange


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Page]:
    """A page of a network with a range that is too wide; nothing is measured by itself."""
    planted = Plant(tmp_path).make(
        convnet(convnet_weights()), change=edited(SetRange("add.out", 0, 100))
    )
    np.savez(tmp_path / "rows.npz", x=planted.samples.images)
    monkeypatch.setattr(Page, "begin", lambda _: None)
    setters = Setters(*[lambda _: None for _ in Setters.__dataclass_fields__])
    given = {"model": planted.quantized, "float": planted.floats, "data": tmp_path / "rows.npz"}
    made = Page(begin_at({key: str(path) for key, path in given.items()}, {}), setters)
    yield made
    made.set_edits(())
    made.close()


def shown(page: Page) -> str:
    return str(page.doctor.show(page.selection).text)


def diagnosed(page: Page) -> Page:
    list(page.session.compare(page.session.quick))
    list(page.session.diagnose(page.session.quick))
    page.refresh()
    return page


def test_until_it_is_known_the_pane_says_that_it_is_being_found(page: Page) -> None:
    assert "Being diagnosed" in shown(page)


def test_a_finding_is_shown_with_its_place_and_a_button_for_each_remedy(page: Page) -> None:
    (finding,) = diagnosed(page).session.diagnosis.findings
    text = shown(page)
    assert f'data-testid="finding-{finding.kind}"' in text
    assert finding.title in text and finding.places[0].where in text
    assert text.count("put in force") == sum(bool(r.edits) for r in finding.remedies)


def test_a_remedy_joins_the_edits_in_force(page: Page) -> None:
    (finding,) = diagnosed(page).session.diagnosis.findings
    page.set_edits((other := SetRange("conv1.out", 0, 3),))
    page.doctor.asked({"do": "remedy", "finding": "0", "remedy": "0"})
    assert page.edits == (other, *finding.remedies[0].edits)
    assert page.tabs.tab == "What if"


@pytest.mark.parametrize("message", [{"finding": "9"}, {"finding": "x", "remedy": "0"}, {}])
def test_a_button_of_findings_that_are_gone_says_so(page: Page, message: dict[str, str]) -> None:
    diagnosed(page).doctor.asked({"do": "remedy", **message})
    assert "The findings have changed; choose again" in shown(page)
    assert page.edits == ()


def test_what_was_tried_stands_beside_its_button(page: Page) -> None:
    diagnosed(page)
    assert 'data-testid="attempt"' not in shown(page)
    list(page.session.try_remedies())
    assert 'data-testid="attempt"' in shown(page)
    assert "measure every proposal" not in shown(page)


def test_the_worst_layer_is_selected_until_a_person_selects_another(page: Page) -> None:
    network = page.session.opened.network
    assert page.selection == first_selection(network)
    diagnosed(page)
    worst = worst_selection(page.session)
    assert page.selection == worst != first_selection(network)
    assert page.session.diagnosis.account.layers[0].layer in (worst.layer, worst.tensor)
    assert set(page.chrome.address.values()) == {""}
    page.select(first_selection(network))
    page.refresh()
    assert page.selection == first_selection(network)
    assert page.chrome.address["layer"]


def test_too_few_samples_are_a_line_and_no_tab_fails(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    list(page.session.diagnose(page.session.sample.take(4)))
    assert "say too little to find a cause" in shown(page)


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
