"""Where the error comes from."""

from dataclasses import replace

import pytest
from figure_values import ADD, CONV, activation, bars, colour, comparison, drawn, texts, ticks

from quantscope.report.figures import error_sources
from quantscope.report.figures.style import DARK, LIGHT
from quantscope.run.compare.results import ErrorSources


def test_blocks_are_the_shares_stacked_upwards_and_negative_ones_hang_below_zero() -> None:
    figure = drawn(error_sources(comparison()))
    axes = figure.axes[0]
    stack = {bar.get_label(): bar for bar in bars(axes) if bar.get_gid() == "add"}
    heights = {name: bar.get_height() for name, bar in stack.items()}
    assert heights == pytest.approx(
        {"inherited:inherited": 110, "weights:weights": 0, "rounding:rounding": 10,
         "clipping:clipping": -20}
    )  # fmt: skip
    assert stack["rounding:rounding"].get_y() == pytest.approx(110)
    assert stack["clipping:clipping"].get_y() == 0
    low, high = axes.get_ylim()
    assert low <= -20 and high >= 120
    assert ticks(axes) == ["x", "conv", "add", "head"]


def test_each_source_has_its_colour_in_bars_and_legend() -> None:
    figure = error_sources(comparison())
    for bar in bars(figure.axes[0]):
        assert colour(bar) == LIGHT.sources[str(bar.get_label()).partition(":")[0]].lower()
    legend = figure.axes[0].get_legend()
    assert legend is not None
    names = [text.get_text() for text in legend.get_texts()]
    assert names == ["inherited", "weights and bias", "rounding", "clipping"]


def test_the_kernel_is_a_source_in_runtime_execution() -> None:
    runtime = replace(CONV, sources=ErrorSources(0.0, 0.1, 0.1, 0.0, 0.8, {}))
    figure = error_sources(comparison(tensors=(runtime,)), theme="dark")
    bar = next(b for b in bars(figure.axes[0]) if b.get_label() == "kernel:kernel")
    assert bar.get_height() == pytest.approx(80)
    assert colour(bar) == DARK.sources["kernel"]
    assert "kernel" in texts(figure)


def test_inherited_can_be_split_over_the_inputs() -> None:
    figure = error_sources(comparison(), per_input=True)
    parts = [b for b in bars(figure.axes[0]) if b.get_gid() == "add"][:2]
    assert [b.get_label() for b in parts] == ["inherited:conv.out", "inherited:x"]
    assert [b.get_height() for b in parts] == pytest.approx([80, 30])
    assert parts[0].get_hatch() is None and parts[1].get_hatch()
    assert "inherited, other inputs" in texts(figure)


def test_exact_and_not_taken_apart_are_written_where_there_is_no_bar() -> None:
    figure = drawn(error_sources(comparison()))
    words = {t.get_text().strip(): t.get_position()[0] for t in figure.axes[0].texts}
    assert words["exact"] == 0
    assert words["not taken apart"] == 3
    assert "Not taken apart: it is a surprise." in texts(figure)
    assert {bar.get_gid() for bar in bars(figure.axes[0])} == {"conv", "add"}


def test_the_size_of_the_error_stands_above_each_bar() -> None:
    figure = error_sources(comparison())
    on_top = {t.get_position()[0]: t.get_text() for t in figure.axes[0].texts}
    assert on_top[1] == "34.5" and on_top[2] == "25.0"


def test_a_large_network_has_no_row_of_numbers_and_does_not_claim_one() -> None:
    tensors = tuple(activation(f"layer{n}.out", sources=ADD.sources) for n in range(40))
    figure = drawn(error_sources(comparison(tensors=tensors)))
    assert "Above the bars" not in texts(figure)
    assert len(bars(figure.axes[0])) == 40 * 4


def test_nothing_to_take_apart_is_said() -> None:
    assert "No activation was compared." in texts(error_sources(comparison(tensors=())))
