"""What the page's address says: loaded again or passed on, it shows the same."""

from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from playwright.sync_api import Page, expect

from quantscope.app.opened import open_pair
from quantscope.app.place import (
    Given,
    Place,
    Selection,
    begin_at,
    first_selection,
    select_layer,
    select_tensor,
)
from quantscope.model import Network, bundled_models


@pytest.fixture(scope="module")
def network() -> Network:
    return open_pair("resnet8-int8").network


def told(page: Page) -> dict[str, str]:
    return {key: value for key, (value,) in parse_qs(urlsplit(page.url).query).items()}


def test_a_place_is_what_its_address_says(network: Network) -> None:
    places = [
        Place(),
        Place(None, select_layer(network.layer("stack1.add")), "Trace"),
        Place(Given("a b.onnx", "f&g.onnx", "ü.npz"), select_tensor(network.tensor("stem.weight"))),
        Place(Given("resnet8-uint8"), select_tensor(network.tensor("input")), "What if"),
    ]
    for place in places:
        query = {key: [value] for key, value in place.to_query(network).items() if value}
        found = Place.from_query(parse_qs(urlencode(query, doseq=True)))
        assert (found.given, found.tab) == (place.given, place.tab)
        assert found.selection_in(network) == (place.selection or first_selection(network))
    assert set(Place().to_query(network).values()) == {""}


def test_what_cannot_be_meant_is_left_out(network: Network) -> None:
    found = Place.from_query({"tab": "Nowhere", "layer": "gone", "other": "1", "float": "f.onnx"})
    assert (found.given, found.tab) == (None, "Diagnose")
    assert found.selection_in(network) == first_selection(network)


def test_an_address_that_cannot_be_opened_shows_the_command_s_model_and_says_so() -> None:
    command = {"model": "resnet8-uint8"}
    begun = begin_at(command, {"model": "gone.onnx", "tab": "Trace"})
    assert begun.session.opened.name == "resnet8-uint8"
    assert "There is no file gone.onnx" in begun.error
    assert (begun.place.given, begun.place.tab) == (None, "Trace")
    begun = begin_at({"model": "missing.onnx"}, {})
    assert begun.session.opened.name == "resnet8-int8"
    assert "There is no file missing.onnx" in begun.error


def test_two_pages_keep_what_each_shows_when_they_are_loaded_again(
    playground: str, open_page: Callable[..., Page]
) -> None:
    first, second = open_page(playground), open_page(f"{playground}/?tab=Layer")
    expect(first.get_by_test_id("verdict")).to_be_visible()
    assert told(first) == {}
    first.get_by_test_id("open-toggle").click()
    first.get_by_test_id("open-resnet8-uint8").click()
    expect(first.get_by_test_id("model")).to_have_text("resnet8-uint8")
    first.get_by_test_id("graph").locator('[data-layer="stack1.add"]').click()
    first.get_by_test_id("tab-Residuals").click()
    second.get_by_test_id("graph").locator('[data-layer="stack2.conv1"]').click()
    expect(second.get_by_test_id("layer-name")).to_have_text("stack2.conv1")

    expect(first).to_have_url(f"{playground}/?model=resnet8-uint8&layer=stack1.add&tab=Residuals")
    expect(second).to_have_url(f"{playground}/?tab=Layer&layer=stack2.conv1")
    copied = open_page(first.url)
    first.reload()
    second.reload()
    for page in (first, copied):
        expect(page.get_by_test_id("model")).to_have_text("resnet8-uint8")
        expect(page.get_by_test_id("residuals")).to_be_visible()
        chosen = page.get_by_test_id("graph").locator('[aria-selected="true"]')
        expect(chosen).to_have_attribute("data-layer", "stack1.add")
    expect(second.get_by_test_id("model")).to_have_text("resnet8-int8")
    expect(second.get_by_test_id("layer-name")).to_have_text("stack2.conv1")


def test_back_and_forward_go_through_what_was_looked_at(
    playground: str, open_page: Callable[..., Page]
) -> None:
    page = open_page(playground)
    expect(page).to_have_title("resnet8-int8 · quantscope")
    page.get_by_test_id("tab-Layer").click()
    expect(page).to_have_url(f"{playground}/?tab=Layer")
    page.get_by_test_id("graph").locator('[data-layer="stack1.add"]').click()
    expect(page).to_have_url(f"{playground}/?tab=Layer&layer=stack1.add")
    page.get_by_test_id("tab-Trace").click()
    expect(page).to_have_url(f"{playground}/?tab=Trace&layer=stack1.add")
    page.go_back()
    expect(page.get_by_test_id("layer-name")).to_have_text("stack1.add")
    page.go_back()
    expect(page.get_by_test_id("layer-name")).not_to_have_text("stack1.add")
    expect(page).to_have_url(f"{playground}/?tab=Layer")
    page.go_forward()
    expect(page.get_by_test_id("layer-name")).to_have_text("stack1.add")
    page.go_forward()
    expect(page.get_by_test_id("tab-Trace")).to_have_attribute("aria-selected", "true")


def test_a_copy_is_shown_under_the_name_that_was_opened(
    playground: str, open_page: Callable[..., Page], tmp_path: Path
) -> None:
    copy = tmp_path / "mine.onnx"
    copy.write_bytes(bundled_models()["resnet8-int8"].read_bytes())
    page = open_page(playground)
    page.get_by_test_id("open-toggle").click()
    page.get_by_test_id("open-path").fill(str(copy))
    page.get_by_test_id("open-go").click()
    expect(page.get_by_test_id("model")).to_have_text("mine.onnx")
    page.reload()
    expect(page.get_by_test_id("model")).to_have_text("mine.onnx")


def test_a_selection_without_a_layer_is_the_input(network: Network) -> None:
    query = Place(None, select_tensor(network.tensor("input"))).to_query(network)
    assert (query["layer"], query["tensor"]) == ("", "input")
    assert Place.from_query(query).selection_in(network) == Selection(None, "input")
