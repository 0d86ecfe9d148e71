"""The Trace pane: a click on the feature map, down to the integers that the library finds."""

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from quantscope.app.lab import lab_of
from quantscope.app.opened import open_pair
from quantscope.app.panes.residuals import show as show_residuals
from quantscope.app.panes.sample_maps import why_no_maps
from quantscope.app.panes.trace import trace_html, why_not
from quantscope.app.place import first_selection, select_layer
from quantscope.app.session import Session
from quantscope.data import load_sample
from quantscope.errors import QuantscopeError
from quantscope.quantize import PtqConfig
from quantscope.run import Trace, trace_value
from quantscope.zoo import Weights, write_safetensors

LAYER, SIDE = "stack2.conv1", 16


def traced(place: tuple[int, ...], layer: str = LAYER) -> Trace:
    """Of the first image, which the page picks by itself."""
    return trace_value("resnet8-int8", layer, 0, place, data=load_sample().take(1))


def line_of(page: Page, what: str) -> str:
    """What the line of the formula that begins so gives."""
    text = page.get_by_test_id("trace-text")
    number = text.locator("dt").all_inner_texts().index(what)
    return text.locator("dd").nth(number).inner_text()


def shows(page: Page, trace: Trace) -> None:
    at = ", ".join(map(str, trace.at))
    expect(page.get_by_test_id("trace-text").locator(".qs-heading")).to_contain_text(
        f"output [{at}]"
    )
    assert line_of(page, "accumulator") == str(trace.accumulator)
    clamped = line_of(page, f"clamped to {trace.qmin}..{trace.qmax}")
    assert clamped.split()[0] == str(trace.integer)
    largest = max(trace.terms, key=lambda term: abs(term.product))
    cells = page.get_by_test_id("trace-text").locator("table").last.locator("td")
    expect(cells.nth(5)).to_have_text(f"{largest.product:,}".replace("-", "−"))
    value = f"{trace.integer}".replace("-", "−")
    said = "channel {}, row {}, column {}".format(*trace.at)
    expect(page.get_by_test_id("trace")).to_contain_text(f"{said}: {value}")


def shows_pool(page: Page, layers: Locator) -> None:
    """A layer that gives one value a channel is drawn as a vector, and traced at all its places."""
    layers.locator('tr[data-layer="pool"]').click()
    heading = page.get_by_test_id("trace-text").locator(".qs-heading")
    expect(heading).to_contain_text("output [5, 0, 0]")
    page.get_by_test_id("feature-map").press("ArrowDown")
    expect(heading).to_contain_text("output [21, 0, 0]")
    said = f"value 21: {traced((21, 0, 0), 'pool').integer}".replace("-", "−")
    expect(page.get_by_test_id("trace")).to_contain_text(said)
    layers.locator('tr[data-tensor="input"]').click()
    expect(page.get_by_test_id("trace-text")).to_have_count(0)
    expect(page.get_by_test_id("trace")).to_contain_text("input is not computed")
    expect(page.get_by_test_id("trace")).not_to_contain_text("pool, image")


def test_a_click_on_the_map_shows_the_integers_of_the_library(
    playground: str, open_page: Callable[..., Page]
) -> None:
    page = open_page(playground, height=1100)
    page.get_by_test_id("graph").locator(f'[data-layer="{LAYER}"]').click()
    page.get_by_test_id("tab-Trace").click()
    shows(page, traced((0, 0, 0)))

    box = page.get_by_test_id("feature-map").bounding_box()
    assert box is not None
    cell = box["width"] / SIDE, box["height"] / SIDE
    page.mouse.click(box["x"] + 5.5 * cell[0], box["y"] + 11.5 * cell[1])
    shows(page, traced((0, 11, 5)))

    page.get_by_test_id("feature-map").focus()
    page.keyboard.press("ArrowDown")
    shows(page, traced((0, 12, 5)))

    page.get_by_test_id("trace-channel").fill("7")
    shows(page, traced((7, 12, 5)))

    layers = page.get_by_test_id("table-layers")
    layers.locator('tr[data-layer="flatten"]').click()
    with pytest.raises(QuantscopeError) as refused:
        traced((0,), "flatten")
    expect(page.get_by_test_id("trace")).to_contain_text(str(refused.value))
    layers.locator('tr[data-layer="head"]').click()
    expect(page.get_by_test_id("trace-text").locator("h2")).to_have_text("head")
    shows_pool(page, layers)


def test_a_value_after_the_last_product_has_a_channel_only() -> None:
    html = trace_html(traced((3,), "head"))
    assert "output [3]" in html
    assert "Gemm" in html


def test_a_float_model_has_no_integers() -> None:
    assert "is a float model: there are no integers" in why_not(Session(open_pair("resnet8")))
    assert not why_not(Session(open_pair("resnet8-int8")))


def test_a_pytorch_program_says_what_is_for_onnx_only(
    random_weights: Weights, random_resnet8: Path, tmp_path: Path
) -> None:
    pytest.importorskip("torch")
    from quantscope.quantize.pt2e import quantize_torch

    floats, program = tmp_path / "float.safetensors", tmp_path / "int8.pt2"
    write_safetensors(random_weights, floats)
    config = PtqConfig(framework="torch", calibration_images=4, activations="int8")
    quantize_torch(floats, program, config)
    alone = Session(open_pair(program))
    first = first_selection(alone.opened.network)
    assert "int8.pt2 is a PyTorch program; values are traced in ONNX models" in why_not(alone)
    assert "int8.pt2 was made from a float model with SHA-256" in str(alone.opened.no_float)
    assert "the float model, which is not known here" in why_no_maps(alone, first)
    with pytest.raises(QuantscopeError, match="give it too when you open the quantized one"):
        lab_of(alone)
    found = show_residuals(alone, first).text
    assert found.count("<section") == 3
    with_float = open_pair(program, random_resnet8)
    assert Session(with_float).not_compared == "needs the float model as .pt2 or .safetensors"
    layers = with_float.network.layers
    written = next(x for x in layers if any(o.quant for o in x.outputs))
    assert not why_no_maps(Session(with_float), select_layer(written))
    assert lab_of(Session(with_float)).trials.trials == ()
