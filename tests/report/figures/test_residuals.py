"""Residual branches."""

import numpy as np
import pytest
from figure_values import ADD, CONV, RESIDUAL, bars, colour, comparison, drawn, texts, ticks

from quantscope.model.residuals import Branch, Residual
from quantscope.report.figures import residual_branches
from quantscope.report.figures.style import LIGHT


def test_every_branch_and_its_sum_have_a_row() -> None:
    axes = drawn(residual_branches([RESIDUAL], comparison())).axes[0]
    assert ticks(axes, "y") == ["conv →", "x →", "add"]
    steps = [
        float(np.asarray(line.get_xdata()).item()) for line in axes.lines if line.get_gid() == "add"
    ]
    assert steps == pytest.approx([0.1, 0.2, 0.4, 0.2, 0.2])
    assert axes.get_xscale() == "log"


def test_bits_lost_and_shares_of_the_error_are_the_bars() -> None:
    figure = residual_branches([RESIDUAL], comparison())
    _, bits, shares = figure.axes
    assert [bar.get_width() for bar in bars(bits)] == [1.0, 0.0]
    widths = [bar.get_width() for bar in bars(shares)]
    # conv.out, x, then what the sum adds: weights, rounding, clipping, kernel
    assert widths == pytest.approx([80, 30, 0, 10, -20, 0])
    assert colour(bars(shares)[0]) == LIGHT.sources["inherited"].lower()
    assert colour(bars(shares)[4]) == LIGHT.sources["clipping"].lower()
    low, high = shares.get_xlim()
    assert low < -20 and high > 100
    assert "log2(output / branch)" in texts(figure)


def test_without_a_comparison_there_are_steps_and_bits_only() -> None:
    figure = residual_branches([RESIDUAL])
    assert len(figure.axes) == 2
    assert "Costs need a comparison." in texts(figure)


def test_a_sum_that_was_not_compared_has_no_bar() -> None:
    figure = residual_branches([RESIDUAL], comparison(tensors=(CONV,)))
    assert bars(figure.axes[2]) == []


def test_an_output_that_is_not_quantized_has_no_step() -> None:
    branches = tuple(Branch(b.tensor, b.source, b.step, 8, None, None) for b in RESIDUAL.branches)
    bare = Residual("add", "Add", branches, 4.0, None, None)
    figure = drawn(residual_branches([bare], comparison(tensors=(ADD,))))
    assert bars(figure.axes[1]) == []


def test_a_network_without_residuals_says_so() -> None:
    assert "No layer joins branches" in texts(residual_branches([]))
