"""Sensitivity ranking."""

from typing import Any

import numpy as np
import pytest
from figure_values import drawn, texts, ticks
from sensitivity_rows import DISABLE, ENABLE, result

from quantscope.report.figures import sensitivity_ranking
from quantscope.report.figures.style import EDITED, QUANTIZED


def marks_of(figure: Any, colour: str) -> dict[float, float]:
    """Change by the row's place."""
    found: dict[float, float] = {}
    for container in figure.axes[0].containers:
        line = container[0]
        if line.get_color() == colour:
            found |= dict(zip(line.get_ydata(), line.get_xdata(), strict=True))
    return found


def test_the_most_sensitive_layer_is_on_top_with_its_change_in_points() -> None:
    figure = drawn(sensitivity_ranking(result(*DISABLE)))
    axes = figure.axes[0]
    assert ticks(axes, "y") == ["early  (Conv)", "late  (Conv)", r"\$odd\$  (Conv)"]
    top, bottom = axes.get_ylim()
    assert top > bottom
    assert marks_of(figure, EDITED) == pytest.approx({1: 0, 0: 1, 2: -0.2})
    assert "percentage points" in axes.get_xlabel()


def test_intervals_flips_and_logit_sqnr_are_drawn() -> None:
    figure = drawn(sensitivity_ranking(result(*DISABLE)))
    (segments,) = figure.axes[0].containers[0][2]  # type: ignore[misc]
    ends = {(s[0][0], s[1][0]) for s in segments.get_segments()}
    assert {tuple(np.round(e, 6)) for e in ends} == {(-1.0, 3.0)}
    assert "+5 −2" in texts(figure)
    lines = figure.axes[1].lines
    found = {line.get_gid(): line.get_xdata()[0] for line in lines if line.get_gid()}  # type: ignore[index]
    assert found == {"late": 31.5, "early": 31.5}
    assert [t.get_text() for t in figure.axes[1].texts] == ["exact"]
    assert "not finite" in texts(sensitivity_ranking(result(*ENABLE)))


def test_where_the_quantized_network_stands_is_a_line_and_what_is_left_out_is_counted() -> None:
    figure = sensitivity_ranking(result(*DISABLE))
    (line,) = (line for line in figure.axes[1].lines if line.get_linestyle() == "--")
    assert list(np.asarray(line.get_xdata())) == [30.25, 30.25]
    shown = " ".join(texts(figure).split())
    assert "Dashed: the quantized network, 30.2 dB. 1 could not be switched." in shown
    assert "net.onnx, reference execution, 1,000 images" in shown


def test_both_modes_share_a_row_in_colours_of_their_own() -> None:
    figure = drawn(sensitivity_ranking(result(*DISABLE, *ENABLE)))
    assert len(ticks(figure.axes[0], "y")) == 3
    assert sorted(marks_of(figure, QUANTIZED).values()) == pytest.approx([-2, -0.4])
    assert len(marks_of(figure, EDITED)) == 3
    assert "switched off in the quantized network" in texts(figure)
    assert "quantized alone in the float network" in texts(figure)


def test_enable_alone_ranks_by_itself() -> None:
    figure = drawn(sensitivity_ranking(result(*ENABLE)))
    assert ticks(figure.axes[0], "y") == ["late  (Conv)", "early  (Conv)"]


def test_no_rows_are_said() -> None:
    assert "No layer was measured." in texts(sensitivity_ranking(result()))
