"""Confusion, its difference, and the change by class."""

import numpy as np
import pytest
from figure_values import bars, colour, drawn, evaluation, texts, ticks
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh

from quantscope.report.figures import confusion, confusion_difference, per_class_change
from quantscope.report.figures.style import GAIN, INK, LOSS, ink_over
from quantscope.run.evaluate import compare_evaluations

# Labels are 0, 0, 1, 1, 2, 2.
BETTER = evaluation([0, 0, 1, 1, 2, 0], model="better.onnx")
WORSE = evaluation([0, 1, 1, 2, 2, 2], model="worse.onnx")
CHANGE = compare_evaluations(WORSE, BETTER)


def cells(axes: Axes) -> dict[tuple[int, int], str]:
    """Text by (true, predicted)."""
    return {
        (round(t.get_position()[1]), round(t.get_position()[0])): t.get_text() for t in axes.texts
    }


def mesh(axes: Axes) -> np.ndarray:
    (found,) = (c for c in axes.collections if isinstance(c, QuadMesh))
    values = found.get_array()
    assert values is not None
    return np.asarray(values).reshape(3, 3)


def test_confusion_writes_counts_and_shades_shares_of_the_true_class() -> None:
    figure = drawn(confusion(BETTER))
    axes = figure.axes[0]
    assert cells(axes) == {(0, 0): "2", (1, 1): "2", (2, 2): "1", (2, 0): "1"}
    np.testing.assert_allclose(mesh(axes), [[1, 0, 0], [0, 1, 0], [0.5, 0, 0.5]])
    assert axes.get_title("left").startswith("Confusion: 83.33 % right [")
    assert axes.get_ylabel() == "true class" and axes.get_xlabel() == "predicted class"
    assert ticks(axes, "y") == ["cat", "dog", r"co\$w\$"]
    assert axes.get_ylim()[0] > axes.get_ylim()[1]


def test_images_without_a_prediction_are_counted() -> None:
    assert "1 with a NaN score" in texts(confusion(evaluation([0, 0, 1, 1, 2, -1])))


def test_the_difference_is_first_minus_second_and_blue_where_it_is_better() -> None:
    figure = drawn(confusion_difference(CHANGE))
    axes = figure.axes[0]
    assert cells(axes) == {
        (0, 0): "−1", (0, 1): "+1", (1, 1): "−1", (1, 2): "+1", (2, 2): "+1", (2, 0): "−1",
    }  # fmt: skip
    # Fewer on the diagonal and more off it are a loss.
    np.testing.assert_allclose(mesh(axes), [[-1, -1, 0], [0, -1, -1], [1, 0, 1]])
    assert "−16.67 points" in axes.get_title("left")
    # The bar's colours are worse and better, not fewer and more: signs would contradict the cells.
    bar = figure.axes[1]
    assert {t.get_text() for t in bar.get_yticklabels()} == {"1", "0"}
    assert bar.get_ylabel() == "worse  ←  images  →  better"
    assert "worse.onnx (reference) against better.onnx (reference), 6 images" in texts(figure)


def test_bars_by_class_are_images_lost_and_gained() -> None:
    figure = drawn(per_class_change(CHANGE))
    axes = figure.axes[0]
    found = [(bar.get_gid(), bar.get_width(), colour(bar)) for bar in bars(axes)]
    loss, gain = LOSS.lower(), GAIN.lower()
    assert found == [
        ("cat", -1, loss), ("cat", 0, gain),
        ("dog", -1, loss), ("dog", 0, gain),
        ("co$w$", 0, loss), ("co$w$", 1, gain),
    ]  # fmt: skip
    net = [t.get_text() for t in axes.child_axes[0].get_yticklabels()]
    assert net == ["−50.0", "−50.0", "+50.0"]
    assert "Each image is 50 % of its class." in texts(figure)
    low, high = axes.get_xlim()
    assert low < -1 and high > 1


def test_no_change_is_drawn_without_a_failure() -> None:
    same = compare_evaluations(BETTER, BETTER)
    assert cells(drawn(confusion_difference(same)).axes[0]) == {}
    assert all(bar.get_width() == 0 for bar in bars(drawn(per_class_change(same)).axes[0]))


@pytest.mark.parametrize("colour", ["#ffffff", "#000000", "#D55E00", "#0072B2", "#56B4E9"])
def test_text_on_a_colour_has_a_contrast_of_four(colour: str) -> None:
    def luminance(value: str) -> float:
        parts = [int(value[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    pair = sorted((luminance(colour), luminance(ink_over(colour))))
    assert (pair[1] + 0.05) / (pair[0] + 0.05) > 4
    assert ink_over("#ffffff") == INK
