"""The Samples pane: what it shows of an image is what the library computes."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from playing import settled
from playwright.sync_api import Page, expect

from quantscope.app.accuracies import Accuracies
from quantscope.app.opened import open_pair
from quantscope.app.panes.sample_answers import answer_html, filters, probabilities
from quantscope.app.panes.sample_maps import why_no_maps
from quantscope.app.place import Selection
from quantscope.app.session import Session
from quantscope.data import load_sample
from quantscope.quantize import LayerOverride
from quantscope.run import Evaluation, evaluate

A_PAGE = 36


@pytest.fixture(scope="module")
def found() -> Accuracies:
    """The library's own predictions of all bundled images."""
    images = load_sample()
    return Accuracies(
        images=images,
        float_=evaluate("resnet8", images, execution="reference"),
        reference=evaluate("resnet8-int8", images, execution="reference"),
        runtime=evaluate("resnet8-int8", images, execution="runtime"),
        gap=None,
    )


def softmax(scores: np.ndarray) -> np.ndarray:
    powers = np.exp(scores.astype(np.float64) - scores.max())
    return powers / powers.sum()


def likeliest(evaluation: Evaluation, row: int) -> list[tuple[str, str]]:
    """The five likeliest classes as the pane writes them."""
    shares = softmax(evaluation.scores[row])
    best = np.argsort(-shares, kind="stable")[:5]
    return [(evaluation.class_names[k], f"{100 * shares[k]:.1f} %") for k in best]


def test_images_are_counted_picked_and_predicted_as_the_library_does(
    playground: str, open_page: Callable[..., Page], found: Accuracies
) -> None:
    page = settled(open_page(playground, height=1100))
    page.get_by_test_id("graph").locator('[data-layer="stem"]').click()
    page.get_by_test_id("tab-Samples").click()
    assert found.reference and found.float_ and found.runtime
    labels, quantized = found.images.labels, found.reference.predictions
    flipped = found.images.indices[quantized != found.float_.predictions]
    options = page.get_by_test_id("image-filter").locator("option")
    wrong = f"wrong ({(quantized != labels).sum()})"
    flips = f"flipped by quantization ({len(flipped)})"
    classes = [f"class {name} (100)" for name in found.reference.class_names]
    expect(options).to_have_text(["all images (1,000)", wrong, flips, *classes])

    page.get_by_test_id("image-filter").select_option("flipped")
    thumbnails = page.get_by_test_id("thumbnail")
    expect(thumbnails).to_have_count(min(A_PAGE, len(flipped)))
    shown = [int(one.get_attribute("data-index") or -1) for one in thumbnails.all()]
    assert shown == flipped[:A_PAGE].tolist()

    thumbnails.nth(1).click()
    shows_predictions(page, found, shown[1])
    page.keyboard.press("ArrowRight")
    shows_predictions(page, found, shown[2])
    expect(page.get_by_test_id(f"card-stem.out of image {shown[2]:,}")).to_have_attribute(
        "data-drawn", "true"
    )


def shows_predictions(page: Page, found: Accuracies, index: int) -> None:
    row = int(np.flatnonzero(found.images.indices == index)[0])
    expect(page.get_by_test_id("prediction").locator("h2")).to_contain_text(f"image {index:,}:")
    for which in ("float", "reference", "runtime"):
        evaluation = found.of(which)
        assert evaluation is not None
        rows = page.get_by_test_id(f"prediction-{which}").locator("tr").all()
        cells = [tuple(row.locator("td").all_inner_texts()) for row in rows]
        assert [(name, share) for name, _, share in cells] == likeliest(evaluation, row)


def test_a_float_model_alone_has_its_own_mistakes_and_no_flips(found: Accuracies) -> None:
    alone = Accuracies(found.images, found.float_, None, None, None)
    counted = {key: len(rows) for key, _, rows in filters(alone)}
    assert found.float_ is not None
    assert counted["wrong"] == len(found.images) - found.float_.correct
    assert "flipped" not in counted
    columns = re.findall(r'data-testid="prediction-(\w+)"', answer_html(alone, 0))
    assert columns == ["float"]


def with_scores(evaluation: Evaluation, scores: np.ndarray) -> Evaluation:
    assert evaluation.classes is not None
    classes = replace(evaluation.classes, scores=scores.astype(np.float32))
    return replace(evaluation, classes=classes)


def test_scores_that_are_probabilities_are_shown_as_they_are(found: Accuracies) -> None:
    assert found.float_ is not None
    shares = np.apply_along_axis(softmax, 1, found.float_.scores)
    steps = np.rint(shares * 256) / 256  # as a quantized softmax gives them
    ends = with_scores(found.float_, steps)
    assert np.abs(steps.sum(axis=1) - 1).max() > 1e-3
    assert np.array_equal(probabilities(ends, 7), steps[7])
    assert np.allclose(probabilities(found.float_, 7), shares[7])


def test_probabilities_of_one_image_are_told_by_those_of_many(found: Accuracies) -> None:
    """An edited model is asked for the picked image alone, whose coarse shares add up to 0.8."""
    assert found.float_ is not None
    shares = np.apply_along_axis(softmax, 1, found.float_.scores)
    shares[7] *= 0.8
    many = with_scores(found.float_, shares)
    alone = evaluate("resnet8", found.images.select(np.array([7])), execution="reference")
    alone = with_scores(alone, many.scores[7:8])
    assert np.array_equal(probabilities(alone, 0, like=many), many.scores[7])
    html = answer_html(replace(found, reference=many), 7, edited=alone)
    assert html.count(f"{100 * shares[7].max():.1f} %") == 2


def test_why_there_are_no_feature_maps_is_said(quantized: Callable[..., Path]) -> None:
    def why(model: str | Path, layer: str) -> str:
        return why_no_maps(Session(open_pair(model)), Selection(layer, None))

    assert why("resnet8-int8", "stem") == ""
    assert why("resnet8", "stem").startswith("resnet8.onnx is a float model; feature maps")
    partly = quantized(overrides=(LayerOverride("head", left_float=True),))
    line = "The output of head is not quantized, so it has no maps to compare."
    assert why(partly, "head") == line
