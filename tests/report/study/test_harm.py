"""What a study's report says of who is harmed."""

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from study_rows import study_result

from quantscope.data import Samples
from quantscope.report.study.harm import harm_html, harm_lines, sample_table
from quantscope.report.study.report import report_html, report_markdown
from quantscope.study.harm import Harm, HarmedClass, HarmedSample

PICTURES = Samples.of_images(
    "pictures",
    np.random.default_rng(0).integers(0, 255, (4, 3, 8, 6), np.uint8),
    None,
    np.arange(10, 14),
    (),
    "as-is",
)


def sample(index: int, changed: int, **other: Any) -> HarmedSample:
    values: dict[str, Any] = {
        "label": "dog",
        "float_class": "<b>",
        "margin": 0.25,
        "lost": 0,
        "gained": 0,
        "classes": (("cow", changed),),
        "mean_loss": None,
        "worst_loss": None,
        "worst_variant": None,
    }
    return HarmedSample(index=index, changed=changed, **{**values, **other})


HARM = Harm(
    model="m.onnx",
    digest="0" * 64,
    execution="reference",
    data="pictures",
    data_digest=PICTURES.digest,
    samples=4,
    sample_word="image",
    measure="top-1 accuracy",
    unit="share",
    higher_is_better=True,
    variants=("one", "two"),
    tells_classes=True,
    has_labels=True,
    has_float_score=True,
    how_often=(2, 1, 1),
    safe_margin=0.5,
    median_margin_changed=0.25,
    median_margin_kept=4.0,
    classes=(HarmedClass("cat", 2, 0, 0, 0, 0), HarmedClass("dog", 2, 2, 3, 2, 1)),
    moves=(("dog", "cow", 2),),
    worst=(sample(12, 2), sample(10, 1)),
    provenance={},
)
NO_CLASSES = replace(
    HARM,
    tells_classes=False,
    measure="SQNR of the outputs",
    unit="dB",
    has_float_score=False,
    how_often=(),
    classes=(),
    moves=(),
    worst=(sample(11, 0, mean_loss=-12.5, worst_loss=-9.0, worst_variant="two"),),
)


def test_the_sentences_say_how_many_how_far_and_which() -> None:
    assert list(harm_lines(HARM)) == [
        "2 of 4 images change their class in at least one of 2 configurations, 1 in all of them, "
        "by reference.",
        "The float model's margin (its largest score above the next) of images that change is 0.25 "
        "in the middle, of those that never do 4; above 0.5 none changed.",
        "Class dog changes most: 75.0% of its images in a configuration on average (2 lost, 1 "
        "gained).",
        "The most frequent change is dog to cow, 2 times.",
    ]


def test_where_nobody_is_harmed_that_is_said() -> None:
    none = replace(HARM, how_often=(4, 0, 0), worst=())
    assert list(harm_lines(none)) == [
        "No image changes its class in any of 2 configurations, by reference."
    ]


def test_without_classes_those_that_lose_most_are_named_with_their_score() -> None:
    assert list(harm_lines(NO_CLASSES)) == [
        "What loses most over 2 configurations, by reference: image 11, SQNR of the outputs "
        "12.50 dB."
    ]
    assert sample_table(NO_CLASSES).rows == (("11", "12.50", "9.00", "two"),)


def test_pictures_are_shown_where_the_samples_are_the_studys() -> None:
    html = harm_html(HARM, PICTURES)
    assert html.count('<figure class="harmed">') == 2
    assert html.count("data:image/png;base64,") == 2
    assert "12: &lt;b&gt; (dog) to cow, in 2 of 2, margin 0.25" in html and "<b>" not in html
    others = replace(PICTURES, name="others", arrays={"images": PICTURES.images + np.uint8(1)})
    for without in (None, others):
        html = harm_html(HARM, without)
        assert "data:image" not in html and re.search(r"<td[^>]*>12</td>", html)


def test_the_study_report_has_the_section_in_both_forms() -> None:
    result = study_result()
    html, text = report_html(result, {}, HARM, PICTURES), report_markdown(result, [], HARM)
    for report in (html, text):
        assert "Who is harmed" in report and "2 of 4 images change their class" in report
    assert "| 12 | dog | \\<b\\> | 0.25 | 2 | cow |" in text
    assert "Who is harmed" not in report_html(result, {})


@pytest.mark.parametrize("harm", [HARM, NO_CLASSES])
def test_tables_have_a_cell_for_every_column(harm: Harm) -> None:
    table = sample_table(harm)
    assert all(len(row) == len(table.columns) for row in table.rows)
