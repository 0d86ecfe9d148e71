"""The What-if pane for a PT2E program: the same gestures, the same numbers as the library's."""

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from quantscope.app.panes.scores import percent, points
from quantscope.data import load_sample
from quantscope.edit import Edit, Off, Recipe, SetRange, SetZeroPoint
from quantscope.run import WhatIf, evaluate


@pytest.fixture
def page(playground: str, resnet8_program: Path, open_page: Callable[..., Page]) -> Page:
    page = open_page(f"{playground}/?model={resnet8_program}", height=1400)
    page.get_by_test_id("tab-What if").click()
    expect(page.get_by_test_id("what-if-original")).to_be_visible()
    page.get_by_test_id("graph").locator('[data-layer="stem.relu"]').click()
    expect(page.get_by_test_id("tensor-name")).to_have_text("stem.relu.out")
    return page


@pytest.mark.slow
def test_a_program_is_edited_as_an_onnx_model_is(
    page: Page, resnet8_program: Path, tmp_path: Path
) -> None:
    what_if = WhatIf(resnet8_program, load_sample())

    def shows(*edits: Edit) -> None:
        effect = what_if.answer(edits)
        edited, delta = effect.evaluation, effect.against_base
        card = page.get_by_test_id("what-if-edited")
        expect(card.locator(".qs-value")).to_have_text(percent(edited.accuracy, edited.images))
        change = points(delta.delta, delta.interval_95, edited.images)
        expect(card.locator(".qs-delta")).to_have_text(change)
        for key, images in (("lost", delta.lost), ("gained", delta.gained)):
            group = page.get_by_test_id(f"flips-{key}")
            expect(group.locator("h3 b")).to_have_text(str(len(images)))

    expect(page.get_by_test_id("only-way")).to_contain_text("as it states itself")
    expect(page.get_by_test_id("choice-runtime")).to_have_count(0)
    expect(page.get_by_test_id("what-if-float")).to_be_visible()
    expect(page.get_by_test_id("handle-high")).to_be_visible()  # its values were counted
    field = page.get_by_test_id("field-hi")
    field.fill("3")
    field.press("Enter")
    ranged = SetRange("stem.relu.out", 0.0, 3.0)
    shows(ranged)
    switch = page.get_by_test_id("switch-layer")
    switch.click()
    expect(switch).to_have_attribute("aria-checked", "false")
    shows(ranged, Off("stem.relu"))
    switch.click()
    expect(switch).to_have_attribute("aria-checked", "true")
    shows(ranged)
    title = "Signal to quantization noise along the network, before and after"
    expect(page.get_by_test_id(f"card-{title}")).to_have_attribute("data-drawn", "true")

    with page.expect_download() as download:
        page.get_by_text("save the recipe").click()
    download.value.save_as(tmp_path / "recipe.json")
    recipe = Recipe.load(tmp_path / "recipe.json")
    assert recipe.edits == (ranged,)
    assert recipe.base_digest == what_if.editor.model.digest
    with page.expect_download() as download:
        page.get_by_text("download the edited model").click()
    path = tmp_path / download.value.suggested_filename
    assert path.name == "resnet8-edited.pt2"
    download.value.save_as(path)
    found = evaluate(path, what_if.quick_images)
    assert found.correct == what_if.answer([ranged]).evaluation.correct
    page.get_by_test_id("clear-edits").click()
    expect(page.get_by_test_id("what-if-edited")).to_have_count(0)
    page.get_by_test_id("switch-tensor").click()
    shows(Off("stem.relu.out"))
    page.get_by_test_id("clear-edits").click()


def test_a_recipe_of_which_nothing_fits_is_refused(page: Page) -> None:
    page.get_by_test_id("recipe-file").set_input_files(
        {
            "name": "other.json",
            "mimeType": "application/json",
            "buffer": Recipe("0" * 64, (SetZeroPoint("nowhere", 3),)).to_json().encode(),
        }
    )
    refused = page.get_by_test_id("recipe-refused")
    expect(refused).to_contain_text("The recipe is for 000000000000")
    page.get_by_test_id("apply-fitting").click()
    expect(refused).to_contain_text("The recipe's only edit cannot be applied to resnet8.pt2")
    expect(page.get_by_test_id("apply-fitting")).to_be_hidden()
