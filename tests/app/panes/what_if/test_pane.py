"""The What-if pane in a browser: what it shows is what the library computes."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from what_if_page import Ask, at_the_stem, chips, edits_of, shows, type_in

from quantscope.data import load_sample
from quantscope.edit import (
    Edit,
    Editor,
    Off,
    OffRole,
    OnRole,
    SetRange,
    SetScale,
    SetZeroPoint,
    apply,
)
from quantscope.errors import QuantscopeError
from quantscope.run import compare
from quantscope.run.whatif.whatif import WhatIf


@pytest.fixture
def page(desk: Page) -> Page:
    return at_the_stem(desk)


def test_a_slider_move_shows_exactly_what_the_library_computes(
    page: Page, ask: Ask, tmp_path: Path
) -> None:
    page.get_by_test_id("slider-scale").focus()
    for key in ("PageUp", "PageUp", "PageUp", "ArrowLeft"):
        page.keyboard.press(key)
    scale = float(page.get_by_test_id("field-scale").input_value())
    assert scale > 0.2
    shows(page, ask(SetScale("stem.out", scale)))
    assert edits_of(page, tmp_path) == (SetScale("stem.out", scale),)


def test_a_zero_point_that_lets_negatives_through_warns_at_its_control(
    page: Page, ask: Ask
) -> None:
    type_in(page, "zero-point", "-88")
    shows(page, ask(SetZeroPoint("stem.out", -88)))
    expect(page.get_by_test_id("remarks").locator(".warning")).to_contain_text(
        "stem.out would let negative values through"
    )


def test_a_range_is_dragged_on_the_histogram(page: Page, ask: Ask, tmp_path: Path) -> None:
    box = page.get_by_test_id("handle-high").bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    for step in range(1, 13):
        page.mouse.move(x - 20 * step, y)
    page.mouse.up()
    expect(page.get_by_test_id("field-hi")).not_to_have_value("17.901")
    (edit,) = edits_of(page, tmp_path)
    assert isinstance(edit, SetRange)
    assert edit.lo == 0
    assert 2 < edit.hi < 8
    shows(page, ask(edit))
    expect(page.get_by_test_id("field-hi")).to_have_value(f"{edit.hi:g}")
    apply("resnet8-int8", [edit]).save(tmp_path / "cut.onnx")
    images = WhatIf("resnet8-int8", load_sample()).quick_images
    clipped = compare(tmp_path / "cut.onnx", images, float_model="resnet8")["stem.out"]
    text = page.get_by_test_id("handle-high").get_attribute("aria-valuetext") or ""
    said = re.search(r"about ([\d.]+) % clipped", text)
    assert said and clipped.clipped_high_fraction is not None
    assert float(said[1]) == pytest.approx(100 * clipped.clipped_high_fraction, rel=0.05)


def test_the_range_has_a_keyboard(page: Page, tmp_path: Path) -> None:
    page.get_by_test_id("handle-high").focus()
    page.keyboard.press("Shift+ArrowLeft")
    page.keyboard.press("ArrowLeft")
    expect(chips(page)).to_have_count(1)
    expect(page.get_by_test_id("field-hi")).not_to_have_value("17.901")
    (edit,) = edits_of(page, tmp_path)
    assert isinstance(edit, SetRange)
    assert 15 < edit.hi < 17.5


def test_switches_take_quantization_away_and_back(page: Page, ask: Ask) -> None:
    page.get_by_test_id("switch-tensor").click()
    shows(page, ask(Off("stem.out")))
    expect(page.get_by_test_id("locked")).to_contain_text("not quantized now")
    page.get_by_test_id("switch-tensor").click()
    expect(page.get_by_test_id("clear-edits")).to_be_hidden()
    expect(page.get_by_test_id("switch-layer")).to_have_attribute("aria-checked", "true")
    page.get_by_test_id("switch-layer").click()
    expect(page.get_by_test_id("switch-tensor")).to_have_attribute("aria-checked", "false")
    weights = page.get_by_test_id("switch-role-weights")
    expect(weights).to_have_attribute("aria-checked", "mixed")
    weights.click()  # what is partly off goes on first
    expect(weights).to_have_attribute("aria-checked", "true")
    shows(page, ask(Off("stem"), OnRole("weights")))
    weights.click()
    shows(page, ask(Off("stem"), OffRole("weights")))


def test_several_layers_are_switched_off_from_a_list(page: Page, ask: Ask) -> None:
    page.get_by_test_id("choose-layers").click()
    for layer in ("stack1.conv1", "stack3.conv2"):
        page.get_by_test_id(f"layer-switch-{layer}").click()
    shows(page, ask(Off("stack1.conv1"), Off("stack3.conv2")))
    page.get_by_test_id("choose-layers").click()


@pytest.mark.parametrize(
    ("field", "text", "refused"),
    [
        ("scale", "0", SetScale("stem.out", 0.0)),
        ("scale", "nan", SetScale("stem.out", float("nan"))),
        ("zero-point", "300", SetZeroPoint("stem.out", 300)),
        ("lo", "3", SetRange("stem.out", 3.0, 25.5)),
    ],
)
def test_a_refusal_is_a_line_at_the_control_and_nothing_changes(
    page: Page, ask: Ask, tmp_path: Path, field: str, text: str, refused: Edit
) -> None:
    type_in(page, "scale", "0.1")
    shows(page, ask(SetScale("stem.out", 0.1)))
    high = page.get_by_test_id("handle-high")
    expect(high).to_have_attribute("aria-valuenow", re.compile(r"^25\.5"))
    with pytest.raises(QuantscopeError) as error:
        Editor("resnet8-int8").apply([refused])
    type_in(page, field, text)
    expect(page.get_by_test_id("refusal")).to_have_text(str(error.value))
    expect(high).to_have_attribute("aria-valuenow", re.compile(r"^25\.5"))
    shows(page, ask(SetScale("stem.out", 0.1)))
    assert edits_of(page, tmp_path) == (SetScale("stem.out", 0.1),)
    type_in(page, "scale", "0.2")
    expect(page.get_by_test_id("refusal")).to_be_hidden()


def test_what_is_no_number_is_refused_too(page: Page) -> None:
    type_in(page, "scale", "much")
    expect(page.get_by_test_id("refusal")).to_have_text(
        "'much' is not a number; type one such as 0.05"
    )


def test_channels_have_a_factor_and_a_scale_of_their_own(
    page: Page, ask: Ask, tmp_path: Path
) -> None:
    page.get_by_role("button", name="stem.weight", exact=True).click()
    expect(page.get_by_test_id("tensor-name")).to_have_text("stem.weight")
    type_in(page, "factor", "3")
    page.get_by_test_id("field-channel").fill("4")
    type_in(page, "channel-scale", "0.003")
    expect(chips(page)).to_have_count(2)
    edits = edits_of(page, tmp_path)
    scales, factor = edits
    assert isinstance(scales, SetScale)
    assert isinstance(scales.scale, tuple)
    assert scales.scale[4] == pytest.approx(0.001)
    assert factor == SetScale("stem.weight", factor=3.0)
    shows(page, ask(*edits))
    expect(chips(page).first).to_contain_text("scale of channel 4 of stem.weight")


def test_more_images_and_this_cpus_kernels_are_a_click_away(page: Page, ask: Ask) -> None:
    type_in(page, "zero-point", "-85")
    edit = SetZeroPoint("stem.out", -85)
    shows(page, ask(edit))
    page.get_by_test_id("what-if").get_by_test_id("job-start").click()
    shows(page, ask(edit, full=True))
    expect(page.get_by_test_id("what-if")).to_contain_text("1,000 images, as the file states it")
    page.get_by_test_id("choice-runtime").click()
    shows(page, ask(edit, execution="runtime"))
    expect(page.get_by_test_id("what-if")).to_contain_text("256 images, as this CPU runs it")


def test_the_second_answer_follows_as_a_picture(page: Page) -> None:
    type_in(page, "zero-point", "-85")
    for title in (
        "Images gained and lost, by class",
        "Change of confusion",
        "Signal to quantization noise along the network, before and after",
    ):
        expect(page.get_by_test_id(f"card-{title}")).to_have_attribute("data-drawn", "true")


def test_an_edit_without_effect_says_so(page: Page) -> None:
    page.get_by_test_id("table-layers").locator('tr[data-tensor="input"]').click()
    expect(page.get_by_test_id("tensor-name")).to_have_text("input")
    type_in(page, "hi", "255")
    expect(page.get_by_test_id("unchanged")).to_be_visible()
    expect(page.get_by_test_id("remarks")).to_contain_text("Changes nothing, it is so already")


def test_a_float_model_says_that_there_is_nothing_to_change(page: Page) -> None:
    type_in(page, "zero-point", "-85")
    card = page.get_by_test_id("card-Change of confusion")
    expect(card).to_be_visible()
    for model, gone in (("resnet8", True), ("resnet8-int8", False)):
        page.get_by_test_id("open-toggle").click()
        page.get_by_test_id(f"open-{model}").click()
        expect(page.get_by_test_id("model")).to_have_text(model)
        notice = page.get_by_test_id("no-what-if")
        if gone:
            expect(notice).to_contain_text("is a float model: it has no scales")
            expect(card).to_have_count(0)  # it was of the model before
        else:
            expect(notice).to_have_count(0)
