"""The page as a person meets it."""

from collections.abc import Callable, Iterator

import pytest
from playing import playing, settled
from playwright.sync_api import Page, expect

from quantscope.app.panes.scores import percent, points
from quantscope.data import load_sample
from quantscope.run import compare_evaluations, evaluate, kernel_gap
from quantscope.run.compare.compare import compare

OpenPage = Callable[..., Page]


def layer_in_graph(page: Page, name: str) -> None:
    page.get_by_test_id("graph").locator(f'[data-layer="{name}"]').click()


def row_in_table(page: Page, name: str) -> None:
    page.get_by_test_id("table-layers").locator(f'tr[data-layer="{name}"]').click()


def chosen_in_graph(page: Page) -> object:
    return page.get_by_test_id("graph").locator('[aria-selected="true"]')


def chosen_in_table(page: Page) -> object:
    return page.get_by_test_id("table-layers").locator('tr[aria-selected="true"]')


@pytest.fixture(scope="module")
def shown(playground: str, open_desk: OpenPage) -> Page:
    return settled(open_desk(playground))


@pytest.fixture
def page(shown: Page) -> Page:
    """The page with the first layer in the first tab, the graph at its beginning."""
    shown.get_by_test_id("tab-Layer").click()
    # Until the tab's pane is there the page may still move under the mouse.
    expect(shown.get_by_test_id("layer-name")).to_be_visible()
    shown.get_by_test_id("graph").focus()
    shown.keyboard.press("Home")
    layer_in_graph(shown, "stem")
    expect(shown.get_by_test_id("layer-name")).to_have_text("stem")
    return shown


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A playground of the float model that has no full data and has measured nothing else."""
    with playing("resnet8", QUANTSCOPE_CACHE=str(tmp_path_factory.mktemp("cache"))) as address:
        yield address


def test_page_opens_with_the_numbers_of_the_library(playground: str, open_page: OpenPage) -> None:
    page = settled(open_page(playground))
    images = load_sample()
    baseline = evaluate("resnet8", images, execution="reference")
    gap = kernel_gap("resnet8-int8", images)
    number = page.get_by_test_id("accuracy-float").locator(".qs-value")
    expect(number).to_have_text(percent(baseline.accuracy, 1000))
    for evaluation in (gap.reference, gap.runtime):
        card = page.get_by_test_id(f"accuracy-{evaluation.execution}")
        delta = compare_evaluations(evaluation, baseline)
        expect(card.locator(".qs-value")).to_have_text(percent(evaluation.accuracy, 1000))
        expect(card.locator(".qs-delta")).to_have_text(points(delta.delta, delta.interval_95, 1000))
    assert page.get_by_test_id("gap").count() == int(gap.is_real)
    expected = compare("resnet8-int8", images)["stack2.conv1.out"].sqnr_db
    shown = page.get_by_test_id("table-layers").locator('tr[data-layer="stack2.conv1"] td').last
    expect(shown).to_have_text(f"{expected:.1f} dB")


def test_table_stays_where_it_was_scrolled_when_its_numbers_change(page: Page) -> None:
    table = page.get_by_test_id("table-layers")
    expect(chosen_in_table(page)).to_have_attribute("data-layer", "stem")
    scrolled = table.evaluate("(part) => (part.scrollTop = 1e6, part.scrollTop)")
    page.get_by_test_id("colour-by").select_option("weight_range")
    expect(table.locator("th").last).to_contain_text("weight range")
    assert table.evaluate("(part) => part.scrollTop") == scrolled > 0


def test_graph_and_table_select_the_same_layer(page: Page) -> None:
    layer_in_graph(page, "stack1.conv2")
    expect(chosen_in_table(page)).to_have_attribute("data-layer", "stack1.conv2")
    expect(page.get_by_test_id("layer-name")).to_have_text("stack1.conv2")
    row_in_table(page, "stack1.add")
    expect(chosen_in_graph(page)).to_have_attribute("data-layer", "stack1.add")
    expect(page.get_by_test_id("layer-name")).to_have_text("stack1.add")


def test_graph_is_used_with_the_keyboard(page: Page) -> None:
    graph = page.get_by_test_id("graph")
    layer_in_graph(page, "stem")
    graph.focus()
    page.keyboard.press("ArrowDown")
    expect(page.get_by_test_id("layer-name")).to_have_text("stem")
    page.keyboard.press("Enter")
    expect(page.get_by_test_id("layer-name")).to_have_text("stack1.conv1")
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    expect(page.get_by_test_id("layer-name")).to_have_text("head")


def test_selection_survives_tabs(page: Page) -> None:
    layer_in_graph(page, "stack1.conv2")
    page.get_by_test_id("tab-Network").click()
    row = page.get_by_test_id("table-tensors").locator('tr[data-tensor="stem.weight"]')
    row.click()
    expect(chosen_in_graph(page)).to_have_attribute("data-layer", "stem")
    page.get_by_test_id("tab-Layer").click()
    expect(page.get_by_test_id("layer-name")).to_have_text("stem")
    expect(page.get_by_test_id("reading")).to_contain_text("stem.weight")


def test_another_tab_begins_at_its_top(page: Page) -> None:
    page.get_by_test_id("tab-Network").click()
    expect(page.get_by_test_id("table-tensors")).to_be_visible()
    page.get_by_test_id(
        "card-Weights of all layers, float and quantized"
    ).scroll_into_view_if_needed()
    page.mouse.move(900, 500)
    page.mouse.wheel(0, 5000)
    expect(page.get_by_test_id("table-tensors")).not_to_be_in_viewport()
    page.get_by_test_id("tab-Layer").click()
    expect(page.get_by_test_id("layer-name")).to_be_in_viewport()
    assert page.get_by_test_id("layer-name").evaluate(
        """(name) => name.getBoundingClientRect().top >=
             document.querySelector('[data-cell-name="tabs"]').getBoundingClientRect().bottom"""
    )


def test_click_on_a_bar_selects_its_layer(page: Page) -> None:
    page.get_by_test_id("tab-Network").click()
    card = page.get_by_test_id("card-Weights of all layers, float and quantized")
    card.locator('[data-gid="stack3.conv1"]').click()
    expect(chosen_in_table(page)).to_have_attribute("data-layer", "stack3.conv1")


def test_tabs_lie_above_the_pane_under_the_mouse_and_below_the_opener(page: Page) -> None:
    height = "(name) => +getComputedStyle(document.querySelector(name)).zIndex"
    tabs = '[data-cell-name="tabs"]'
    page.get_by_test_id("layer-name").hover()
    assert page.evaluate(height, ".marimo-cell:hover") < page.evaluate(height, tabs)
    page.get_by_test_id("open-toggle").hover()
    assert page.evaluate(height, ".marimo-cell:hover") > page.evaluate(height, tabs)


def test_layer_without_parameters_says_so(page: Page) -> None:
    row_in_table(page, "flatten")
    expect(page.get_by_test_id("layer")).to_contain_text("keeps the parameters of pool.out")


def test_wrong_path_is_a_line_and_the_page_goes_on(page: Page) -> None:
    page.get_by_test_id("open-toggle").click()
    error = page.get_by_test_id("open-error")
    for path, line in (
        ("", "Give a model"),
        ("missing.onnx", "There is no file missing.onnx; give a model"),
    ):
        page.get_by_test_id("open-path").fill(path)
        page.get_by_test_id("open-go").click()
        expect(error).to_contain_text(line)
    page.keyboard.press("Escape")
    layer_in_graph(page, "stack1.add")
    expect(page.get_by_test_id("layer-name")).to_have_text("stack1.add")


def test_another_bundled_model_replaces_the_numbers(playground: str, open_page: OpenPage) -> None:
    page = open_page(f"{playground}/?tab=Layer")
    layer_in_graph(page, "stack1.conv2")
    page.get_by_test_id("open-toggle").click()
    page.get_by_test_id("open-resnet8-uint8").click()
    expect(page.get_by_test_id("model")).to_have_text("resnet8-uint8")
    expect(page.get_by_test_id("layer-name")).to_have_text("stack1.conv2")
    settled(page)
    gap = kernel_gap("resnet8-uint8", load_sample())
    shown = page.get_by_test_id("accuracy-runtime").locator(".qs-value")
    expect(shown).to_have_text(percent(gap.runtime.accuracy, 1000))
    if gap.is_real:
        expect(page.get_by_test_id("gap")).to_contain_text(str(gap.explanation()))


def test_float_model_alone_says_what_to_do(fresh: str, open_page: OpenPage) -> None:
    page = open_page(fresh)
    expect(page.get_by_test_id("model")).to_have_text("resnet8")
    expect(page.get_by_text("nothing in it is quantized yet")).to_be_visible()
    expect(page.get_by_test_id("accuracy-float").locator(".qs-value")).to_contain_text("%")


def test_all_images_says_how_to_get_them(fresh: str, open_page: OpenPage) -> None:
    page = open_page(fresh)
    page.get_by_test_id("job-start").click()
    expect(page.get_by_test_id("job-error")).to_contain_text("quantscope data fetch")
    expect(page.get_by_test_id("image-count")).to_have_text("1,000")


# A quick machine has measured everything before a click of Playwright's arrives.
CLICK_ONCE_SHOWN = """(name) => {
  const find = (root) => root.querySelector(`[data-testid="${name}"]`)
    ?? [...root.querySelectorAll("*")].filter((part) => part.shadowRoot)
      .map((part) => find(part.shadowRoot)).find(Boolean);
  const found = find(document);
  if (!found || found.hidden) return false;
  found.click();
  return true;
}"""


def test_measuring_can_be_stopped_and_goes_on(fresh: str, open_page: OpenPage) -> None:
    page = open_page(f"{fresh}/?model=resnet8-uint8")
    page.wait_for_function(CLICK_ONCE_SHOWN, arg="job-stop", polling=10)
    expect(page.get_by_test_id("job-start")).to_have_text("go on measuring")
    assert page.get_by_test_id("image-count").inner_text() != "1,000"
    page.get_by_test_id("job-start").click()
    settled(page)
