"""What a study's figures draw and what its report says."""

import base64
import io
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image
from study_rows import CLASSES, study_result

from quantscope.report.figures.style import png_bytes
from quantscope.report.study.figures import (
    accuracy_figure,
    calibration_figure,
    class_change_figure,
    confusion_figure,
    size_figure,
    study_figures,
)
from quantscope.report.study.report import (
    provenance_lines,
    report_html,
    summary_lines,
    write_report,
)
from quantscope.report.study.text import study_view
from quantscope.report.table import Line
from quantscope.study import StudyResult

RESULT = study_result()


def drawn(figure: Figure | None) -> Figure:
    assert figure is not None
    figure.canvas.draw()
    return figure


def texts(figure: Figure) -> str:
    return "\n".join(text.get_text() for text in figure.findobj(lambda a: hasattr(a, "get_text")))


def test_the_accuracy_figure_has_a_mark_for_every_execution_at_its_change() -> None:
    figure = drawn(accuracy_figure(RESULT))
    axes = figure.axes[0]
    assert axes.get_title("left") == "Accuracy against the float model"
    assert "percentage points" in axes.get_xlabel() and "95 %" in axes.get_xlabel()
    bars = {container.get_label(): container for container in axes.containers}
    marks = {name: bar[0].get_xdata() for name, bar in bars.items()}  # type: ignore[index]
    # 30 images wrong of 300 in float; sorted from the worst at the bottom
    assert marks["reference execution"] == pytest.approx([-2, -1, -1, 1])
    assert sorted(marks["runtime execution"]) == pytest.approx([-10, -1, 1])
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert labels[-1] == "int8 · per channel · minmax 256 · QDQ"
    assert len(labels) == 4
    assert "90.00 % of 300 images" in texts(figure)
    assert "89.00 / 80.00" in texts(figure)


def test_intervals_are_those_of_the_rows() -> None:
    figure = drawn(accuracy_figure(RESULT))
    container = figure.axes[0].containers[0]
    (segments,) = container[2]  # type: ignore[misc]
    ends = sorted((float(s[0][0]), float(s[1][0])) for s in segments.get_segments())
    expected = sorted(
        tuple(100 * end for end in row.reference.change.interval_95)
        for row in RESULT.measured
        if row.reference and row.reference.change
    )
    assert np.allclose(ends, expected)


def test_the_calibration_figure_joins_rows_that_differ_only_in_images() -> None:
    figure = drawn(calibration_figure(RESULT))
    axes = figure.axes[0]
    (curve,) = axes.containers
    assert curve.get_label() == "int8 · per channel · minmax · QDQ"
    assert list(curve[0].get_xdata()) == [100, 256]  # type: ignore[index]
    assert list(curve[0].get_ydata()) == pytest.approx([-1, 1])  # type: ignore[index]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["100", "256"]
    assert "percentage points" in axes.get_ylabel()


def test_the_class_figure_shows_every_class_of_every_configuration() -> None:
    figure = drawn(class_change_figure(RESULT))
    axes = figure.axes[0]
    values = np.asarray(axes.images[0].get_array())
    assert values.shape == (4, 3)
    # 3 more images wrong, one of each class of 100
    assert values[1].tolist() == pytest.approx([-1, -1, -1])
    low, high = axes.images[0].get_clim()
    assert low == -high, "white must be no change"
    assert [label.get_text() for label in axes.get_xticklabels()] == list(CLASSES)
    assert "percentage points" in figure.axes[1].get_xlabel()


def test_the_confusion_figure_shows_the_worst_and_the_best() -> None:
    figure = drawn(confusion_figure(RESULT))
    worst, best = figure.axes[:2]
    assert worst.get_title("left") == "Worst: −10.00 points, runtime"
    assert best.get_title("left").startswith("Best: +1.00 points")
    # 10 more images of each class went to the next one: bad on the diagonal and off it
    shown = np.asarray(worst.images[0].get_array())
    assert shown.tolist() == [[-10, -10, 0], [0, -10, -10], [-10, 0, -10]]
    numbers = [text.get_text() for text in worst.texts]
    assert sorted(numbers) == ["+10"] * 3 + ["−10"] * 3


def test_the_size_figure_has_a_point_for_every_execution_and_the_float_models() -> None:
    figure = drawn(size_figure(RESULT))
    axes = figure.axes[0]
    points = {str(c.get_label()): c.get_offsets() for c in axes.collections}
    assert {name: len(at) for name, at in points.items()} == {
        "QDQ, reference": 3,
        "QDQ, runtime": 3,
        "PT2E, reference": 1,
        "float, onnxruntime": 1,
        "float, torch": 1,
    }
    assert np.allclose(points["PT2E, reference"], [[200, 88]])
    assert np.allclose(points["float, torch"], [[400, 90]])
    assert axes.get_xlim()[0] == 0
    assert axes.get_xlabel() == "model file (kB)"
    assert "does not begin at 0" in texts(figure)


def test_a_study_without_rows_has_no_figures_but_a_report() -> None:
    empty = StudyResult(RESULT.name, (), RESULT.baselines)
    assert study_figures(empty) == {}
    assert "0 configurations measured." in report_html(empty, {})


def test_figures_need_no_global_state() -> None:
    assert study_figures(RESULT).keys() == {
        "accuracy",
        "calibration",
        "classes",
        "confusion",
        "size",
    }
    assert "matplotlib.pyplot" not in sys.modules


def test_a_figure_becomes_the_same_png_each_time() -> None:
    first, second = (png_bytes(drawn(size_figure(RESULT))) for _ in range(2))
    assert first == second
    with Image.open(io.BytesIO(first)) as picture:
        assert picture.width == 9 * 144


def test_the_summary_names_baseline_best_worst_and_gap() -> None:
    lines = summary_lines(RESULT)
    assert lines[0].startswith("The float model (onnxruntime) is right on 270 of 300 images: 90.00")
    assert "4 configurations measured, 1 failed, 1 not possible." in lines
    assert any("+1.00 points is the best (int8 · per channel · minmax 256" in at for at in lines)
    assert any("−9.00 points). The kernels saturate." in at for at in lines)


def test_the_html_is_one_file_that_asks_for_nothing(tmp_path: Path) -> None:
    path = write_report(RESULT, tmp_path)
    page = path.read_text()
    assert path == tmp_path / "report.html"
    links = re.findall(r"""(?:src|href|url)\s*[=(]\s*["']?([^"')\s>]+)""", page)
    assert len(links) == 5
    assert all(link.startswith("data:image/png;base64,") for link in links)
    assert "<script" not in page and "://" not in page and "@import" not in page
    first = base64.b64decode(links[0].partition(",")[2])
    assert first == (tmp_path / "figures" / "accuracy.png").read_bytes()
    assert "prefers-color-scheme: dark" in page


def test_what_people_named_is_escaped_in_the_html() -> None:
    page = report_html(RESULT, {})
    assert "<b>cow" not in page and "<burned>" not in page and "m<1>" not in page
    assert "m&lt;1&gt;.onnx" in page
    assert "It broke &amp; &lt;burned&gt;" in page


def test_the_markdown_is_a_table_of_the_rows(tmp_path: Path) -> None:
    write_report(RESULT, tmp_path)
    text = (tmp_path / "report.md").read_text()
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert len(rows) == 1 + 4
    assert len({row.replace("\\|", "").count("|") for row in rows}) == 1
    for name in re.findall(r"\]\((figures/\w+\.png)\)", text):
        assert (tmp_path / name).is_file()
    assert "It broke & \\<burned\\>" in text
    assert "| int8 · per channel · minmax 256 · QDQ | 91.00 | +1.00 \\[" in text


def test_the_report_says_what_everything_was_made_with() -> None:
    facts = dict(provenance_lines(RESULT))
    assert facts["Float model"] == f"m<1>.onnx, digest {'0' * 64}"
    assert facts["Versions"] == "quantscope 0.1.0"
    other = replace(
        RESULT.rows[0],
        facts=RESULT.rows[0].facts
        | {"provenance": RESULT.rows[0].facts["provenance"] | {"cpu": "another CPU"}},
    )
    mixed = replace(RESULT, rows=(other, *RESULT.rows[1:]))
    assert dict(provenance_lines(mixed))["CPU"] == "some CPU; another CPU"


def test_a_reason_that_many_configurations_have_is_told_once() -> None:
    (bad,) = RESULT.failed
    twice = replace(RESULT, rows=(*RESULT.rows, replace(bad, label="another")))
    told = [line.text for line in study_view(twice) if isinstance(line, Line)]
    assert [text for text in told if text.startswith("failed: ")] == [
        f"failed: {bad.label} and 1 more: {bad.reason}"
    ]
