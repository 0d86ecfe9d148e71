"""The PTQ lab: a form gives a model, its numbers are the library's, and it can be opened."""

from collections.abc import Callable
from pathlib import Path

import pytest
from playing import settled
from playwright.sync_api import Page, expect

from quantscope.app.lab import SIZES, config_from, lab_of, methods_of, sizes_of
from quantscope.app.opened import open_pair
from quantscope.app.panes.scores import percent, points
from quantscope.app.session import session_for
from quantscope.app.words import EXECUTIONS
from quantscope.data import load_sample
from quantscope.errors import BadConfigError
from quantscope.model import bundled_models
from quantscope.quantize import PtqConfig, quantize_onnx
from quantscope.report.study.figures import accuracy_figure
from quantscope.run import compare_evaluations, evaluate


def test_the_form_makes_a_model_that_can_be_opened(
    playground: str, open_page: Callable[..., Page], tmp_path: Path
) -> None:
    page = settled(open_page(playground, height=1100))
    page.get_by_test_id("tab-Quantize").click()
    lab = page.get_by_test_id("lab")
    page.get_by_test_id("lab-calibration_images").fill("-3")
    page.get_by_test_id("lab-try").click()
    with pytest.raises(BadConfigError) as refused:
        PtqConfig(calibration_images=-3)
    expect(page.get_by_test_id("lab-error")).to_have_text(str(refused.value))

    page.get_by_test_id("lab-calibration_images").fill("8")
    page.get_by_test_id("lab-left_float").fill("nowhere")
    page.get_by_test_id("lab-try").click()
    expect(lab.get_by_test_id("job-error")).to_contain_text("nowhere")
    expect(page.get_by_test_id("lab-error")).to_be_hidden()

    page.get_by_test_id("lab-left_float").fill("")
    page.get_by_test_id("lab-activations").select_option("uint8")
    page.get_by_test_id("lab-try").click()
    expect(lab.get_by_test_id("trial-open")).to_have_text(["open"])
    made = tmp_path / "made.onnx"
    config = PtqConfig(activations="uint8", per_channel=True, calibration_images=8)
    quantize_onnx(bundled_models()["resnet8"], made, config)
    images = load_sample()
    baseline = evaluate("resnet8", images, execution="reference")
    expected = [config.label()]
    for execution in ("reference", "runtime"):
        found = evaluate(made, images, execution=execution)
        delta = compare_evaluations(found, baseline)
        expected.append(percent(found.accuracy, len(images)))
        expected.append(points(delta.delta, delta.interval_95, len(images)))
    cells = page.get_by_test_id("trials").locator("tbody tr td")
    assert cells.all_inner_texts()[:5] == expected
    expect(page.get_by_test_id("card-Tried configurations")).to_have_attribute("data-drawn", "true")

    lab.get_by_test_id("trial-open").click()
    expect(page.get_by_test_id("model")).to_contain_text("uint8")
    expect(lab.get_by_test_id("trial-open")).to_have_text(["shown"])
    settled(page)
    shown = page.get_by_test_id("accuracy-reference").locator(".qs-value")
    expect(shown).to_have_text(expected[1])


def test_a_form_is_a_configuration() -> None:
    found = config_from(
        {
            "framework": "onnxruntime",
            "activations": "",
            "weights": "int8",
            "calibration": "percentile",
            "percentile": "99.9",
            "calibration_images": "32",
            "per_channel": True,
            "left_float": "stem, head",
            "int8_kernels": "yes",
        }
    )
    assert found.int8_kernels is True
    assert (found.ptq.percentile, found.ptq.calibration_images) == (99.9, 32)
    assert [override.layer for override in found.ptq.overrides] == ["stem", "head"]
    assert [size.ptq.calibration_images for size in sizes_of(found)] == list(SIZES)
    assert {one.ptq.calibration for one in methods_of(found)} == {
        "minmax",
        "entropy",
        "percentile",
    }


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ({"calibration_images": "2.5"}, "calibration_images is a whole number, not 2.5"),
        ({"percentile": "most"}, "percentile is a number, not 'most'"),
    ],
)
def test_a_field_that_is_no_number_is_named(values: dict[str, str], line: str) -> None:
    with pytest.raises(BadConfigError, match=line):
        config_from(values)


def test_figures_of_the_lab_have_the_page_s_words() -> None:
    lab = lab_of(session_for(open_pair("resnet8")))
    lab.trials.attempt(config_from({"calibration_images": "8", "weights": "int8"}))
    figure = accuracy_figure(lab.trials.result(), names=EXECUTIONS)
    assert figure is not None
    said = [text.get_text() for text in figure.legends[0].get_texts()]
    assert said == ["as the file states it", "as this CPU runs it"]
    assert "as the file states it / as this CPU runs it" in figure.get_supxlabel()


def test_the_lab_of_a_float_model_is_that_of_what_was_made_from_it() -> None:
    assert lab_of(session_for(open_pair("resnet8"))) is lab_of(
        session_for(open_pair("resnet8-int8"))
    )
