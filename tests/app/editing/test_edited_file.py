"""While edits are in force, every pane says which model it shows; what it shows is that model."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page, expect
from what_if_page import clear

from quantscope.app.editing import EditedFile
from quantscope.data import load_sample
from quantscope.edit import Editor, SetScale, apply
from quantscope.model import bundled_models
from quantscope.run import Trace, evaluate, trace_value

LAYER, SCALE = "stack2.conv1", 0.02
MUCH_CLIPPED = 0.002
"""With it the first image's likeliest class is far less likely."""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A model of its own, because edits outlive a page, and the same with the edit."""
    folder = tmp_path_factory.mktemp("models")
    opened, edited = folder / "mine.onnx", folder / "edited.onnx"
    opened.write_bytes(bundled_models()["resnet8-int8"].read_bytes())
    apply(opened, [SetScale(f"{LAYER}.out", SCALE)]).save(edited)
    return opened, edited


@pytest.fixture(scope="module")
def opened(playground: str, open_desk: Callable[..., Page], files: tuple[Path, Path]) -> Page:
    page = open_desk(f"{playground}/?model={files[0]}&layer={LAYER}&tab=What+if", height=1100)
    expect(page.get_by_test_id("model")).to_have_text("mine.onnx")
    return page


@pytest.fixture
def page(opened: Page) -> Page:
    """The edit is in force, and no other."""
    page = opened
    page.get_by_test_id("tab-What if").click()
    clear(page)
    expect(page.get_by_test_id("tensor-name")).to_have_text(f"{LAYER}.out")
    type_scale(page, SCALE)
    expect(page.get_by_test_id("edited-accuracy")).to_contain_text("%")
    return page


def type_scale(page: Page, scale: float) -> None:
    field = page.get_by_test_id("field-scale")
    field.fill(str(scale))
    field.press("Enter")
    expect(page.get_by_test_id("edits").locator(".chip")).to_contain_text(f"{scale:g}")


def accumulated(page: Page, expected: Trace) -> None:
    text = page.get_by_test_id("trace-text")
    multiplier = f"{expected.tensors[-1].scale:.9g}"
    expect(text.locator("table").first).to_contain_text(multiplier)
    number = text.locator("dt").all_inner_texts().index("accumulator")
    expect(text.locator("dd").nth(number)).to_have_text(str(expected.accumulator))


def test_trace_shows_the_edited_model_or_the_original_and_says_which(
    page: Page, files: tuple[Path, Path]
) -> None:
    page.get_by_test_id("tab-Trace").click()
    which = page.get_by_test_id("which-model")
    expect(which).to_have_text("The edited model, with the edit in force.")
    first = load_sample().take(1)
    traces = [trace_value(file, LAYER, 0, (0, 0, 0), data=first) for file in files]
    assert traces[0].steps != traces[1].steps
    accumulated(page, traces[1])
    page.get_by_test_id("choice-original").click()
    expect(which).to_have_text("The model as it was opened, without the edit in force.")
    accumulated(page, traces[0])
    page.get_by_test_id("choice-edited").click()
    accumulated(page, traces[1])
    page.get_by_test_id("clear-edits").click()
    expect(which).to_have_count(0)
    accumulated(page, traces[0])


def test_images_have_the_edited_model_s_prediction_and_maps(
    page: Page, files: tuple[Path, Path], tmp_path: Path
) -> None:
    # News of the measuring would show it too; this is offered at its end.
    more = page.locator('[data-cell-name="head_job"]').get_by_test_id("job-start")
    expect(more).to_have_text("all 10,000 images")
    expect(more).to_be_visible()
    type_scale(page, MUCH_CLIPPED)
    page.get_by_test_id("tab-Samples").click()
    expect(page.get_by_test_id("which-model")).to_contain_text("are with the edit in force")
    first = load_sample().take(1)
    edited = tmp_path / "edited.onnx"
    apply(files[0], [SetScale(f"{LAYER}.out", MUCH_CLIPPED)]).save(edited)
    scores = evaluate(edited, first, execution="reference").scores[0].astype(np.float64)
    shares = np.exp(scores - scores.max())
    best = f"{100 * shares.max() / shares.sum():.1f} %"
    column = page.get_by_test_id("prediction-edited")
    expect(column.locator("tr").first).to_contain_text(best)
    card = page.get_by_test_id(f"card-{LAYER}.out of image {first.indices[0]:,}, edited")
    expect(card).to_have_attribute("data-drawn", "true")
    page.get_by_test_id("clear-edits").click()
    expect(page.get_by_test_id("which-model")).to_have_count(0)
    expect(column).to_have_count(0)


def test_layer_shows_the_edited_parameters_beside_the_original_s(page: Page) -> None:
    page.get_by_test_id("tab-Layer").click()
    which = page.get_by_test_id("which-model")
    expect(which).to_contain_text("rows marked edited are with the edit in force")
    row = page.get_by_test_id("parameters").locator("tr", has_text="edited").last
    expect(row).to_contain_text(str(SCALE))
    for tab in ("Network", "Residuals"):
        page.get_by_test_id(f"tab-{tab}").click()
        expect(which).to_contain_text("the model as it was opened, without the edit in force")
    page.get_by_test_id("clear-edits").click()
    expect(which).to_have_count(0)
    page.get_by_test_id("tab-Layer").click()
    expect(page.get_by_test_id("parameters")).to_be_visible()
    expect(which).to_have_count(0)


def test_graph_and_histogram_say_that_they_are_of_the_model_before(page: Page) -> None:
    note = page.get_by_test_id("legend-note")
    histogram = page.get_by_test_id("what-if").locator(".caption").first
    expect(note).to_have_text("without the edits")
    expect(histogram).to_contain_text("line: quantized before the edits")
    page.get_by_test_id("clear-edits").click()
    expect(note).to_have_count(0)
    expect(histogram).to_contain_text("line: quantized;")


def test_an_edited_qoperator_file_has_the_names_of_its_layers(
    quantized: Callable[..., Path],
) -> None:
    path = quantized(format="qoperator", activations="uint8")
    editor = Editor(path)
    edited = EditedFile(editor.apply([SetScale(f"{LAYER}.out", SCALE)]), editor.network)
    layers = [layer.name for layer in editor.network.layers]
    assert [layer.name for layer in edited.model.network.layers] == layers
    assert edited.model is edited.model
    first = load_sample().take(1)
    found = trace_value(edited.model, LAYER, 0, (0, 0, 0), data=first, float_model="resnet8")
    original = trace_value(path, LAYER, 0, (0, 0, 0), data=first, float_model="resnet8")
    assert found.tensors[-1].scale == pytest.approx(SCALE)
    assert found.float_value == original.float_value is not None
    folder = edited.path.parent
    del edited
    assert not folder.exists()
