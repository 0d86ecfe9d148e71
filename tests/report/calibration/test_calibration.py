"""What is said and drawn of a calibration set."""

from dataclasses import replace
from typing import Any

import pytest

from quantscope.report.calibration import (
    calibration_page,
    calibration_view,
    ranges_table,
    summary_lines,
)
from quantscope.report.figures import calibration_ranges, png_bytes
from quantscope.study.calibration import CalibrationInspection, Overflow, RangeEnd, TensorRange


def tensor(name: str, *, without: float, last: float = 7.0, beyond: int = 0) -> TensorRange:
    return TensorRange(
        name=name,
        layer=name,
        op_type="Conv",
        low=RangeEnd(-2.0, 4, "", 0, -2.0),
        high=RangeEnd(8.0, 31, "", 2, without),
        growth=((1, -1.0, 3.0), (4, -2.0, last), (8, -2.0, 8.0)),
        overflow=Overflow(20, -2.0, 10.0, 0, beyond, beyond, 17 if beyond else None, 0.2, 1.0),
    )


def result(*tensors: TensorRange) -> CalibrationInspection:
    return CalibrationInspection(
        model="small.onnx",
        digest="0" * 64,
        calibration="train",
        calibration_digest="1" * 64,
        calibration_samples=8,
        data="test",
        data_digest="2" * 64,
        samples=20,
        sample_word="image",
        tensors=tensors,
        left_out={"<b>": "it is int64"},
        notes=(),
        provenance={"onnxruntime": "1"},
    )


BOTH = result(tensor("one", without=3.0, last=5.0, beyond=2), tensor("two", without=8.0, last=8.0))


def test_what_stands_out_is_said_in_numbers() -> None:
    lines = list(summary_lines(BOTH))
    assert lines[0].startswith("small.onnx, calibrated with 8 images of train, against 20 images")
    assert lines[1] == (
        "one image takes a tenth or more of the range of 1 of 2 tensors: one 50.0 % "
        "(image 31 alone)"
    )
    assert "the range of 1 of 2 tensors: one 30.0 %; more images would widen them" in lines[2]
    assert lines[3] == "images of test go beyond 1 of 2 tensors: one 20.0 % (2 images)"


def test_where_nothing_stands_out_that_is_said() -> None:
    calm = replace(result(tensor("two", without=8.0, last=8.0)), data="", data_digest="")
    lines = list(summary_lines(calm))
    assert lines[1:] == [
        "no image takes a tenth of the range of any of 1 tensors",
        "the second half of the images brought less than a tenth of any range",
    ]


def test_the_table_names_who_sets_a_range_unless_several_do() -> None:
    table = ranges_table(BOTH)
    assert table.column("set by") == ("31", "several")
    assert table.column("takes") == ("50.0 %", "0.0 %")
    assert table.column("beyond") == ("2", "0")
    without_data = ranges_table(replace(BOTH, data=""))
    assert "beyond" not in [column.heading for column in without_data.columns]
    assert "no range: <b>: it is int64" in list(calibration_view(BOTH))


def test_the_page_is_one_file_with_names_escaped() -> None:
    page = calibration_page(BOTH, b"\x89PNG")
    assert "data:image/png;base64," in page and "&lt;b&gt;: it is int64" in page
    assert "<b>" not in page and "http" not in page.replace("http-equiv", "")
    assert "50.0 %" in page and "0" * 64 in page


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_figure_shows_what_one_sample_takes_and_what_goes_beyond(theme: Any) -> None:
    figure = calibration_ranges(BOTH, theme=theme)
    left, right = figure.axes
    widths = [round(bar.get_width(), 6) for bar in left.patches]
    assert widths == [50, 50, 100]  # all others, the sample alone; and a range of several
    marks = [line.get_xdata()[0] for line in left.lines if line.get_marker() == "D"]
    assert marks == [120, 120]
    assert [list(line.get_ydata())[-1] for line in right.lines] == [100, 100]
    assert png_bytes(figure)[:4] == b"\x89PNG"


def test_ranges_without_width_are_no_figure() -> None:
    flat = replace(BOTH.tensors[0], high=RangeEnd(-2.0, 4, "", 0, -2.0))
    assert "No tensor has a range" in calibration_ranges(result(flat)).axes[0].texts[0].get_text()
