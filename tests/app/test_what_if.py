"""The What-if pane in a browser: what it shows is what the library computes."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import onnxruntime as ort
import pytest
from playing import SECONDS
from playwright.sync_api import Browser, Locator, Page, expect

from quantscope.app.panes.header import percent, points
from quantscope.data import load_sample
from quantscope.edit import (
    Edit,
    Editor,
    Off,
    OffRole,
    OnRole,
    Recipe,
    SetRange,
    SetScale,
    SetZeroPoint,
    apply,
    guided_recipes,
)
from quantscope.errors import QuantscopeError
from quantscope.run import compare, evaluate
from quantscope.run.whatif import Effect, WhatIf

MOVES = 100
MEGABYTES = 40
"""What a hundred moves may leave behind: allocators do not give everything back."""

Ask = Callable[..., Effect]


@pytest.fixture(scope="module")
def ask() -> Ask:
    """The library's own answers, on the images that the page takes."""
    opened: dict[str, WhatIf] = {}

    def answer(*edits: Edit, execution: str = "reference", full: bool = False) -> Effect:
        if execution not in opened:
            opened[execution] = WhatIf("resnet8-int8", load_sample(), execution=execution)
        return opened[execution].answer(edits, full=full)

    return answer


@pytest.fixture(scope="module")
def desk(browser: Browser, playground: str) -> Iterator[Page]:
    """One page for all tests here: opening one takes longer than any of them."""
    context = browser.new_context(viewport={"width": 1280, "height": 1400})
    page = context.new_page()
    wrong: list[str] = []
    page.set_default_timeout(SECONDS * 1000)
    page.on("console", lambda m: wrong.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.goto(playground)
    yield page
    clear(page)
    context.close()
    assert not wrong


@pytest.fixture
def page(desk: Page) -> Page:
    """On the What-if tab, nothing edited, the stem's output selected."""
    desk.get_by_test_id("tab-What if").click()
    clear(desk)
    desk.get_by_test_id("graph").locator('[data-layer="stem"]').click()
    expect(desk.get_by_test_id("tensor-name")).to_have_text("stem.out")
    expect(desk.get_by_test_id("handle-high")).to_be_visible()
    desk.get_by_test_id("choice-reference").click()
    return desk


def clear(page: Page) -> None:
    expect(page.get_by_test_id("what-if-original")).to_be_visible()
    if page.get_by_test_id("clear-edits").is_visible():
        page.get_by_test_id("clear-edits").click()
    expect(page.get_by_test_id("clear-edits")).to_be_hidden()
    expect(page.get_by_test_id("what-if-edited")).to_have_count(0)


def shows(page: Page, effect: Effect) -> None:
    """Accuracy, difference and flips of this answer, in the pane and on the strip."""
    edited, delta = effect.evaluation, effect.against_base
    value = percent(edited.accuracy, edited.images)
    change = points(delta.delta, delta.interval_95, edited.images)
    card = page.get_by_test_id("what-if-edited")
    expect(card.locator(".qs-value")).to_have_text(value)
    expect(card.locator(".qs-delta")).to_have_text(change)
    expect(page.get_by_test_id("edited-accuracy")).to_have_text(value)
    expect(page.get_by_test_id("edited-delta")).to_have_text(change)
    for key, images in (("lost", delta.lost), ("gained", delta.gained)):
        group = page.get_by_test_id(f"flips-{key}")
        expect(group.locator("h4 b")).to_have_text(str(len(images)))
        if 0 < len(images) <= 24:
            shown = [int(f.get_attribute("data-index")) for f in group.locator("figure").all()]
            assert shown == images.tolist()


def edits_of(page: Page, folder: Path) -> tuple[Edit, ...]:
    """Those in force, as the page saves them."""
    return saved(page, folder).edits


def saved(page: Page, folder: Path) -> Recipe:
    with page.expect_download() as download:
        page.get_by_text("save the recipe").click()
    path = folder / download.value.suggested_filename
    download.value.save_as(path)
    return Recipe.load(path)


def type_in(page: Page, field: str, text: str) -> Locator:
    found = page.get_by_test_id(f"field-{field}")
    found.fill(text)
    found.press("Enter")
    return found


def chips(page: Page) -> Locator:
    return page.get_by_test_id("edits").locator(".chip")


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


def test_edits_survive_other_layers_and_tabs_and_a_typed_number_too(page: Page, ask: Ask) -> None:
    page.get_by_test_id("field-scale").fill("0.15")  # not entered: the click must not lose it
    page.get_by_test_id("graph").locator('[data-layer="stack2.conv1"]').click()
    expect(page.get_by_test_id("tensor-name")).to_have_text("stack2.conv1.out")
    shows(page, ask(SetScale("stem.out", 0.15)))
    type_in(page, "scale", "0.2")
    both = ask(SetScale("stem.out", 0.15), SetScale("stack2.conv1.out", 0.2))
    shows(page, both)
    for tab in ("Layer", "Layers"):
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
    expect(scale).to_have_value(base)


def test_a_saved_recipe_gives_the_same_numbers_when_it_is_loaded(
    page: Page, ask: Ask, tmp_path: Path
) -> None:
    type_in(page, "zero-point", "-80")
    page.get_by_test_id("switch-role-weights").click()
    edits = (SetZeroPoint("stem.out", -80), OffRole("weights"))
    shows(page, ask(*edits))
    page.get_by_test_id("recipe-note").fill("negatives pass")
    recipe = saved(page, tmp_path)
    assert (recipe.edits, recipe.note) == (edits, "negatives pass")
    assert recipe.base_digest == Editor("resnet8-int8").file.digest
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


def test_more_images_and_this_cpus_kernels_are_a_click_away(page: Page, ask: Ask) -> None:
    type_in(page, "zero-point", "-85")
    edit = SetZeroPoint("stem.out", -85)
    shows(page, ask(edit))
    page.get_by_test_id("what-if").get_by_test_id("job-start").click()
    shows(page, ask(edit, full=True))
    expect(page.get_by_test_id("what-if")).to_contain_text("1,000 images, its arithmetic")
    page.get_by_test_id("choice-runtime").click()
    shows(page, ask(edit, execution="runtime"))
    expect(page.get_by_test_id("what-if")).to_contain_text("256 images, this CPU's kernels")


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
    port = address.rpartition(":")[2].encode()
    if not Path("/proc/self/cmdline").exists():
        pytest.skip("memory is read from /proc, which this system does not have")
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if port in words and b"play" in words:
            return folder
    raise AssertionError(f"no process serves {address}")


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
