"""The page opens on whatever is given: a file alone, no labels, no pictures, many ins and outs."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playing import playing
from playwright.sync_api import Page, expect

import small_networks
from quantscope.app.accuracies import Accuracies
from quantscope.app.metrics import metrics
from quantscope.app.panes import header, layer, residuals
from quantscope.app.panes.sample_answers import answer_html, filters, item_of
from quantscope.app.panes.scores import score_text
from quantscope.app.panes.what_if.answers import Answer, RunChoice, editor_of, flip_groups
from quantscope.app.panes.what_if.pane import numbers_html, strip_numbers, why_not
from quantscope.app.place import Given, Place, select_layer
from quantscope.app.rows import layer_rows, tensor_rows
from quantscope.app.session import Session
from quantscope.data import samples_for
from quantscope.edit import SetScale
from quantscope.errors import QuantscopeError
from quantscope.model import open_model
from quantscope.run import evaluate
from quantscope.run.whatif import WhatIf

OpenPage = Callable[..., Page]
QUICK = ("recurrent", "bytes")
ROWS = 4


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("networks")


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    with playing(str(small_networks.quantized("encoder", "qdq-uint8", folder))) as found:
        yield found


@pytest.fixture(scope="module")
def desk(address: str, open_desk: OpenPage) -> Page:
    return open_desk(address, height=1400)


def test_a_file_alone_is_measured_against_itself_without_quantizers(
    desk: Page, folder: Path
) -> None:
    model = open_model(small_networks.quantized("encoder", "qdq-uint8", folder))
    expected = evaluate(model, samples_for(model), execution="reference").score
    value = desk.get_by_test_id("accuracy-reference").locator(".qs-value")
    expect(value).to_have_text(score_text(expected))
    expect(desk.get_by_test_id("measure")).to_contain_text("SQNR of the outputs")
    expect(desk.get_by_test_id("missing").first).to_contain_text("quantizers off stands in")
    expect(desk.get_by_test_id("missing").nth(1)).to_contain_text("random rows (seed 0)")
    # Until all is measured the header is drawn anew, and a click may fall between two buttons.
    expect(desk.get_by_test_id("accuracy-runtime")).to_contain_text("dB")
    expect(desk.get_by_test_id("job-stop")).to_be_hidden()
    # Without a score of the float model there is no loss, and none that chance could make.
    expect(desk.get_by_test_id("verdict")).to_contain_text(
        f"SQNR of the outputs: {score_text(expected)} on"
    )
    desk.get_by_test_id("missing").first.get_by_role("button").click()
    expect(desk.get_by_test_id("open-float")).to_be_focused()
    expect(desk.get_by_test_id("open-path")).to_have_value(str(model.path))
    desk.keyboard.press("Escape")


def test_samples_are_ids_and_every_output_is_shown(desk: Page) -> None:
    desk.get_by_test_id("tab-Samples").click()
    expect(desk.get_by_test_id("thumbnail")).to_have_count(32)
    shown = desk.get_by_test_id("prediction")
    for name in ("input_ids", "attention_mask", "token_type_ids"):
        expect(shown).to_contain_text(name)
    expect(shown.get_by_test_id("output")).to_have_count(2)


def test_edits_are_answered_in_the_unit_of_the_measure(desk: Page) -> None:
    desk.get_by_test_id("tab-What if").click()
    desk.get_by_test_id("slider-scale").press("ArrowRight")
    expect(desk.get_by_test_id("what-if-edited").locator(".qs-value")).to_contain_text("dB")
    expect(desk.get_by_text("mistake in quantscope")).to_have_count(0)


def test_a_float_file_is_quantized_in_the_lab_and_opened(
    desk: Page, address: str, folder: Path
) -> None:
    path = small_networks.float_path("recurrent", folder)
    desk.goto(f"{address}/?model={path}&tab=Images")
    expect(desk.get_by_test_id("tab-Samples")).to_have_attribute("aria-selected", "true")
    desk.get_by_test_id("missing").first.get_by_role("button").click()
    expect(desk.get_by_test_id("lab")).to_contain_text("Calibrated with 32 random rows")
    desk.get_by_test_id("lab-try").click()
    desk.get_by_test_id("trial-open").click()
    value = desk.get_by_test_id("accuracy-reference").locator(".qs-value")
    expect(value).to_contain_text("dB")


def test_old_links_to_images_show_samples() -> None:
    assert Place.from_query({"tab": "Images"}).tab == "Samples"


@pytest.mark.parametrize("form", small_networks.FORMS)
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in QUICK else pytest.mark.slow)
        for name in small_networks.NAMES
    ],
)
def test_every_pane_has_something_to_say_of_every_form(name: str, form: str, folder: Path) -> None:
    session = Given(str(small_networks.quantized(name, form, folder))).open()
    rows = session.sample.take(ROWS)
    for step in (session.measure(rows), session.compare(rows), session.count_values(rows)):
        list(step)
    assert session.failures == {}
    found = session.accuracies
    assert found is not None and found.score is not None
    network = session.opened.network
    assert metrics(session) and layer_rows(session)
    tensor_rows(session)
    header.numbers(session)
    shows_samples(found)
    for one in network.layers:
        assert "being" not in layer.show(session, select_layer(one), theme="light").text
    residuals.show(session, select_layer(network.layers[0]))
    answers_an_edit(session)


def shows_samples(found: Accuracies) -> None:
    for _, _, rows in filters(found):
        assert all(item_of(found, int(row))["index"] >= 0 for row in rows)
    assert "<h3>" in answer_html(found, 0)


def answers_an_edit(session: Session) -> None:
    """Edit the last tensor that can be edited; of a dynamic network there may be none."""
    assert why_not(session) == ""
    editor, rows = editor_of(session), session.sample.take(ROWS)
    what_if = WhatIf(editor, rows)
    for tensor in reversed(editor.network.tensors):
        try:
            applied = editor.apply([SetScale(tensor.name, factor=0.5)])
        except QuantscopeError:
            continue
        effect = what_if.effect_of(applied)
        answer = Answer(session, applied.edits, RunChoice(), applied, rows, effect)
        assert "what-if-edited" in numbers_html(answer)
        assert strip_numbers(answer)["value"]
        flip_groups(effect.against_base, rows)
        return
