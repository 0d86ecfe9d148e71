"""SQNR along the network."""

from dataclasses import replace

import pytest
from figure_values import ADD, CONV, HEAD, INPUT, activation, comparison, drawn, marks, texts, ticks
from matplotlib.collections import LineCollection

from quantscope.report.figures import sqnr_along
from quantscope.report.figures.style import EDITED, QUANTIZED

WHOLE = {"conv": 34.5, "add": 25.0, "head": 24.0}
LOCAL = {"conv": 38.0, "add": 37.5, "head": 39.0}


def test_every_activation_has_a_filled_and_a_hollow_mark_at_its_sqnr() -> None:
    figure = drawn(sqnr_along(comparison()))
    (axes,) = figure.axes
    assert marks(axes, filled=True) == WHOLE
    assert marks(axes, filled=False) == LOCAL
    assert ticks(axes) == ["x", "conv", "add", "head"]
    assert axes.get_ylabel() == "signal to quantization noise (dB)"
    assert {line.get_color() for line in axes.lines if line.get_gid()} == {QUANTIZED}


def test_a_tensor_without_error_says_exact_where_it_stands() -> None:
    figure = drawn(sqnr_along(comparison()))
    (word,) = (t for t in figure.axes[0].texts if "exact" in t.get_text())
    assert word.get_position()[0] == 0


def test_lines_join_a_tensor_with_what_is_made_of_it_only() -> None:
    first, second = activation("a.out", sqnr_db=30.0), activation("b.out", sqnr_db=20.0)
    joined = replace(ADD, sources=replace(ADD.sources, inherited_by_input={"a.out": 1.0}))
    figure = sqnr_along(comparison(tensors=(first, second, joined)))
    (lines,) = (c for c in figure.axes[0].collections if isinstance(c, LineCollection))
    assert [segment.tolist() for segment in lines.get_segments()] == [[[0, 30], [2, 25]]]


def test_without_sources_neighbours_are_joined() -> None:
    plain = tuple(replace(t, sources=None) for t in (CONV, ADD, HEAD))
    figure = sqnr_along(comparison(tensors=plain))
    (lines,) = (c for c in figure.axes[0].collections if isinstance(c, LineCollection))
    assert len(lines.get_segments()) == 2


def test_a_second_comparison_lies_beside_in_the_edited_colour() -> None:
    edited = comparison(model="edited.onnx", tensors=(INPUT, replace(CONV, sqnr_db=31.0), ADD))
    figure = drawn(sqnr_along(comparison(), edited))
    (axes,) = figure.axes
    green = {
        line.get_gid(): line.get_ydata()[0]  # type: ignore[index]
        for line in axes.lines
        if line.get_markerfacecolor() == EDITED and line.get_gid()
    }
    assert green == {"conv": 31.0, "add": 25.0}
    legend = axes.get_legend()
    assert legend is not None
    words = [text.get_text() for text in legend.get_texts()]
    assert words == ["before", "after", "network up to here", "this quantizer alone"]
    shown = " ".join(texts(figure).split())
    assert (
        "after is edited.onnx, reference execution, 1,000 images; 1 without a counterpart" in shown
    )


def test_hollow_marks_are_explained_only_where_there_are_some() -> None:
    whole = comparison(tensors=tuple(replace(t, local_sqnr_db=None) for t in (CONV, ADD)))
    figure = sqnr_along(whole, whole)
    legend = figure.axes[0].get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["before", "after"]
    assert "hollow" not in texts(figure)
    assert sqnr_along(whole).axes[0].get_legend() is None


def test_counterparts_may_be_known_better_than_by_name() -> None:
    first = comparison(tensors=(CONV, ADD))
    renamed = tuple(replace(t, name=f"x.{t.name}", float_name="?") for t in (CONV, ADD))
    second = comparison(tensors=renamed)
    known = dict(zip((CONV.name, ADD.name), renamed, strict=True))
    assert "2 without a counterpart" in texts(sqnr_along(first, second))
    assert "without a counterpart" not in texts(sqnr_along(first, second, counterparts=known))


def test_the_two_can_be_named() -> None:
    figure = sqnr_along(comparison(), comparison(), labels=("ONNX", "PT2E"))
    assert "PT2E is net.onnx" in texts(figure)


def test_tensors_of_another_name_are_matched_by_the_float_tensor_they_stand_for() -> None:
    renamed = replace(CONV, name="node_conv.out", layer="node_conv", sqnr_db=31.0)
    figure = sqnr_along(comparison(), comparison(tensors=(renamed,)))
    green = [line for line in figure.axes[0].lines if line.get_markerfacecolor() == EDITED]
    assert [(line.get_gid(), line.get_ydata()[0]) for line in green] == [("conv", 31.0)]  # type: ignore[index]


def test_what_cannot_be_seen_is_counted_and_tensors_that_are_not_finite_are_marked() -> None:
    broken = replace(HEAD, sqnr_db=None, local_sqnr_db=None, not_finite_images=2)
    figure = drawn(sqnr_along(comparison(tensors=(CONV, broken))))
    shown = " ".join(texts(figure).split())
    assert "not finite" in shown
    assert "1 more cannot be seen without changing what runs" in shown
    assert "net.onnx, reference execution, 1,000 images" in shown


def test_negative_sqnr_is_inside_the_axes_with_a_line_at_zero() -> None:
    figure = sqnr_along(comparison(tensors=(CONV, replace(ADD, sqnr_db=-7.0))))
    low, high = figure.axes[0].get_ylim()
    assert low < -7 and high > 38


def test_nothing_to_compare_is_said() -> None:
    figure = sqnr_along(comparison(tensors=()))
    assert "No activation was compared." in texts(figure)


@pytest.mark.parametrize(("count", "named"), [(26, 26), (60, 60), (150, 50)])
def test_names_of_many_layers_are_thinned_and_it_is_said(count: int, named: int) -> None:
    tensors = tuple(activation(f"/net/layer{n}/conv.out") for n in range(count))
    axes = drawn(sqnr_along(comparison(tensors=tensors))).axes[0]
    assert len(ticks(axes)) == named
    assert ticks(axes)[0] == "layer0/conv"
    assert ("every 3rd is named" in axes.get_xlabel()) == (named < count)
