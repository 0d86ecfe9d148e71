"""Sensitivity ranking, from any result that has the rows."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from figure_values import drawn, texts, ticks

from quantscope.report.figures import sensitivity_ranking
from quantscope.report.style import EDITED, QUANTIZED


@dataclass(frozen=True)
class Row:
    layer: str
    rank: int
    delta: float
    mode: str = "disable"
    op_type: str = "Conv"
    interval_95: tuple[float, float] = (-0.01, 0.03)
    gained: int = 5
    lost: int = 2
    logit_sqnr_db: float | None = 31.5


@dataclass(frozen=True)
class Result:
    rows: tuple[Row, ...]


DISABLE = (Row("late", 2, 0.0), Row("early", 1, 0.01), Row("$odd$", 3, -0.002, logit_sqnr_db=None))
ENABLE = (Row("early", 2, -0.004, mode="enable"), Row("late", 1, -0.02, mode="enable"))


def marks_of(figure: Any, colour: str) -> dict[float, float]:
    """Change by the row's place."""
    found: dict[float, float] = {}
    for container in figure.axes[0].containers:
        line = container[0]
        if line.get_color() == colour:
            found |= dict(zip(line.get_ydata(), line.get_xdata(), strict=True))
    return found


def test_the_most_sensitive_layer_is_on_top_with_its_change_in_points() -> None:
    figure = drawn(sensitivity_ranking(Result(DISABLE)))
    axes = figure.axes[0]
    assert ticks(axes, "y") == ["early  (Conv)", "late  (Conv)", r"\$odd\$  (Conv)"]
    top, bottom = axes.get_ylim()
    assert top > bottom
    assert marks_of(figure, EDITED) == pytest.approx({1: 0, 0: 1, 2: -0.2})
    assert "percentage points" in axes.get_xlabel()


def test_intervals_flips_and_logit_sqnr_are_drawn() -> None:
    figure = drawn(sensitivity_ranking(Result(DISABLE)))
    (segments,) = figure.axes[0].containers[0][2]  # type: ignore[misc]
    ends = {(s[0][0], s[1][0]) for s in segments.get_segments()}
    assert {tuple(np.round(e, 6)) for e in ends} == {(-1.0, 3.0)}
    assert "+5 −2" in texts(figure)
    found = {line.get_gid(): line.get_xdata()[0] for line in figure.axes[1].lines}  # type: ignore[index]
    assert found == {"late": 31.5, "early": 31.5}
    assert "exact" in texts(figure)


def test_both_modes_share_a_row_in_colours_of_their_own() -> None:
    figure = drawn(sensitivity_ranking(Result((*DISABLE, *ENABLE))))
    assert len(ticks(figure.axes[0], "y")) == 3
    assert sorted(marks_of(figure, QUANTIZED).values()) == pytest.approx([-2, -0.4])
    assert len(marks_of(figure, EDITED)) == 3
    assert "switched off in the quantized network" in texts(figure)
    assert "quantized alone in the float network" in texts(figure)


def test_enable_alone_ranks_by_itself() -> None:
    figure = drawn(sensitivity_ranking(Result(ENABLE)))
    assert ticks(figure.axes[0], "y") == ["late  (Conv)", "early  (Conv)"]


def test_no_rows_are_said() -> None:
    assert "No layer was measured." in texts(sensitivity_ranking(Result(())))
