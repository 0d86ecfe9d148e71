"""The What-if pane in a browser: edits that stay, are taken back, saved and loaded, and memory."""

import re
from pathlib import Path

import onnxruntime as ort
import pytest
from playing import SERVED
from playwright.sync_api import Page, expect
from what_if_page import Ask, at_the_stem, chips, clear, saved, shows, type_in

from quantscope.data import load_sample
from quantscope.edit import (
    Editor,
    OffRole,
    SetScale,
    SetZeroPoint,
    guided_recipes,
)
from quantscope.run import evaluate
from quantscope.run.whatif.whatif import WhatIf

MOVES = 100
MEGABYTES = 40
"""What a hundred moves may leave behind: allocators do not give everything back."""


@pytest.fixture
def page(desk: Page) -> Page:
    return at_the_stem(desk)


def test_edits_survive_other_layers_and_tabs_and_a_typed_number_too(page: Page, ask: Ask) -> None:
    page.get_by_test_id("field-scale").fill("0.15")  # not entered: the click must not lose it
    page.get_by_test_id("graph").locator('[data-layer="stack2.conv1"]').click()
    expect(page.get_by_test_id("tensor-name")).to_have_text("stack2.conv1.out")
    shows(page, ask(SetScale("stem.out", 0.15)))
    type_in(page, "scale", "0.2")
    both = ask(SetScale("stem.out", 0.15), SetScale("stack2.conv1.out", 0.2))
    shows(page, both)
    for tab in ("Layer", "Network"):
        page.get_by_test_id(f"tab-{tab}").click()
        expect(chips(page)).to_have_count(2)
        expect(page.get_by_test_id("edited-accuracy")).to_be_visible()
    page.get_by_test_id("tab-What if").click()
    shows(page, both)
    expect(page.get_by_test_id("field-scale")).to_have_value("0.2")
    chips(page).first.locator(".what").click()
    expect(page.get_by_test_id("tensor-name")).to_have_text("stem.out")
    expect(page.get_by_test_id("field-scale")).to_have_value("0.15")
    chips(page).first.get_by_text("×").click()
    shows(page, ask(SetScale("stack2.conv1.out", 0.2)))


def test_edits_are_still_there_when_the_page_is_loaded_again(page: Page, ask: Ask) -> None:
    type_in(page, "zero-point", "-100")
    shows(page, ask(SetZeroPoint("stem.out", -100)))
    page.reload()
    expect(chips(page)).to_have_text([re.compile("zero-point of stem.out = -100")])
    page.get_by_test_id("tab-What if").click()
    expect(page.get_by_test_id("field-zero-point")).to_have_value("-100")
    shows(page, ask(SetZeroPoint("stem.out", -100)))


def test_undo_goes_back_gesture_by_gesture(page: Page) -> None:
    scale = page.get_by_test_id("field-scale")
    base = scale.input_value()
    type_in(page, "scale", "0.1")
    expect(chips(page)).to_have_text([re.compile("scale of stem.out = 0.1")])
    type_in(page, "zero-point", "-90")
    expect(chips(page)).to_have_count(2)
    page.get_by_test_id("undo").click()
    expect(chips(page)).to_have_text([re.compile("scale of stem.out = 0.1")])
    page.get_by_test_id("undo").click()
    expect(chips(page)).to_have_count(0)
    page.get_by_test_id("tab-What if").focus()
    page.keyboard.press("Control+Shift+Z")
    expect(chips(page)).to_have_text([re.compile("scale of stem.out = 0.1")])
    page.keyboard.press("Control+z")
    expect(chips(page)).to_have_count(0)
    expect(scale).to_have_value(base)


def test_a_saved_recipe_gives_the_same_numbers_when_it_is_loaded(
    page: Page, ask: Ask, tmp_path: Path
) -> None:
    edits = (SetZeroPoint("stem.out", -80), OffRole("weights"))
    type_in(page, "zero-point", "-80")
    shows(page, ask(edits[0]))  # or the switch could be there first
    page.get_by_test_id("switch-role-weights").click()
    shows(page, ask(*edits))
    page.get_by_test_id("recipe-note").fill("negatives pass")
    recipe = saved(page, tmp_path)
    assert (recipe.edits, recipe.note) == (edits, "negatives pass")
    assert recipe.base_digest == Editor("resnet8-int8").model.digest
    assert recipe.effect is not None
    clear(page)
    page.get_by_test_id("recipe-file").set_input_files(tmp_path / "resnet8-int8-recipe.json")
    expect(page.get_by_test_id("recipe-said")).to_contain_text("2 edits loaded")
    shows(page, ask(*edits))


def test_a_guided_recipe_teaches_and_is_loaded(page: Page, ask: Ask) -> None:
    recipe = guided_recipes()["break-a-folded-relu"]
    page.get_by_test_id("guided-break-a-folded-relu").click()
    expect(page.get_by_text(recipe.note[:60])).to_be_visible()
    page.get_by_test_id("load-guided").click()
    shows(page, ask(*recipe.edits))
    page.get_by_test_id("guided-break-a-folded-relu").click()


def test_a_recipe_of_another_model_is_refused_and_what_fits_is_offered(
    page: Page, ask: Ask
) -> None:
    recipe = guided_recipes()["saturation-and-its-cure"]
    page.get_by_test_id("guided-saturation-and-its-cure").click()
    page.get_by_test_id("load-guided").click()
    refused = page.get_by_test_id("recipe-refused")
    expect(refused).to_contain_text("The recipe is for resnet8-uint8")
    expect(chips(page)).to_have_count(0)
    page.get_by_test_id("apply-fitting").click()
    shows(page, ask(*recipe.edits))
    expect(refused).to_be_hidden()
    clear(page)
    page.get_by_test_id("load-guided").click()
    page.get_by_test_id("open-its-model").click()
    expect(page.get_by_test_id("model")).to_have_text("resnet8-uint8")
    expect(page.get_by_test_id("recipe-said")).to_contain_text("10 edits loaded")
    shows(page, WhatIf("resnet8-uint8", load_sample()).answer(recipe.edits))
    clear(page)
    page.get_by_test_id("open-toggle").click()
    page.get_by_test_id("open-resnet8-int8").click()
    expect(page.get_by_test_id("model")).to_have_text("resnet8-int8")
    page.get_by_test_id("guided-saturation-and-its-cure").click()


def test_a_file_that_is_no_recipe_says_so(page: Page, tmp_path: Path) -> None:
    path = tmp_path / "wrong.json"
    path.write_text("{}")
    page.get_by_test_id("recipe-file").set_input_files(path)
    expect(page.get_by_test_id("recipe-refused")).to_contain_text("wrong.json is not a recipe")


def test_the_downloaded_model_is_the_one_whose_numbers_were_shown(
    page: Page, ask: Ask, tmp_path: Path
) -> None:
    type_in(page, "zero-point", "-85")
    effect = ask(SetZeroPoint("stem.out", -85))
    shows(page, effect)
    with page.expect_download() as download:
        page.get_by_text("download the edited model").click()
    path = tmp_path / download.value.suggested_filename
    assert path.name == "resnet8-int8-edited.onnx"
    download.value.save_as(path)
    ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    images = WhatIf("resnet8-int8", load_sample()).quick_images
    found = evaluate(path, images, execution="reference")
    assert found.correct == effect.evaluation.correct


def test_a_hundred_slider_moves_leave_memory_where_it_was(page: Page, playground: str) -> None:
    server = process_at(playground)
    slider = page.get_by_test_id("slider-scale")
    slider.focus()
    move(page, 30)
    before = at_rest(page, server)
    move(page, MOVES)
    assert at_rest(page, server) - before < MEGABYTES * 2**20


def move(page: Page, times: int) -> None:
    """There and back, each move seen by Python before the next."""
    board = page.get_by_test_id("qparam")
    for step in range(times):
        seen = int(board.get_attribute("data-seen") or 0)
        page.keyboard.press("ArrowRight" if (step // 10) % 2 == 0 else "ArrowLeft")
        page.wait_for_function(
            "([part, seen]) => Number(part.dataset.seen) > seen", arg=[board.element_handle(), seen]
        )


def process_at(address: str) -> Path:
    """The server's folder in /proc."""
    folder = Path("/proc") / str(SERVED[address].pid)
    if not folder.exists():
        pytest.skip("memory is read from /proc, which this system does not have")
    return folder


def at_rest(page: Page, process: Path) -> int:
    """The least of some readings, since one may fall into an answer that is being found."""
    readings = []
    for _ in range(10):
        page.wait_for_timeout(200)
        readings.append(resident(process))
    return min(readings)


def resident(process: Path) -> int:
    found = re.search(r"VmRSS:\s+(\d+) kB", (process / "status").read_text())
    assert found
    return 1024 * int(found[1])
