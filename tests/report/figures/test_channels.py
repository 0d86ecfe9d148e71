"""Error by channel."""

from dataclasses import replace

import numpy as np
import pytest
from figure_values import CONV, INPUT, WEIGHT, bars, channel, colour, drawn, texts
from matplotlib.collections import LineCollection
from matplotlib.colors import to_hex

from quantscope.arithmetic import QuantParams
from quantscope.report.figures import channel_error
from quantscope.report.figures.style import ERROR, QUANTIZED


def test_rmse_is_in_steps_of_the_whole_tensors_quantizer() -> None:
    figure = drawn(channel_error(CONV))
    top, bottom = figure.axes
    assert bottom.get_ylabel() == "RMSE (steps)"
    # The whole tensor: sqrt(mean(0.05², 0.2², 0.05², 0.1²)) is half a step.
    step = np.sqrt(np.mean([0.0025, 0.04, 0.0025, 0.01])) / 0.5
    heights = [bar.get_height() for bar in bars(bottom)]
    assert heights == pytest.approx(np.array([0.05, 0.2, 0.05, 0.1]) / step)
    assert top.get_title("left") == "Error by channel of conv.out"
    assert "what rounding alone gives: 0.289" in texts(figure)


def test_the_worst_are_named_and_stand_out() -> None:
    figure = channel_error(CONV)
    top, bottom = figure.axes
    assert [colour(bar) for bar in bars(bottom)] == [
        c.lower() for c in (QUANTIZED, ERROR, QUANTIZED, ERROR)
    ]
    named = {text.get_text() for text in top.texts}
    assert named == {"1", "3"}
    assert "worst channels, lowest SQNR first: 1, 3" in texts(figure)


def test_both_sqnrs_of_an_activation_are_drawn_and_one_of_a_weight() -> None:
    names = [[c.get_label() for c in channel_error(t).axes[0].collections] for t in (CONV, WEIGHT)]
    assert "this quantizer alone" in names[0] and "network up to here" in names[0]
    assert names[1] == ["rounding of the weight"]
    (scatter,) = channel_error(WEIGHT).axes[0].collections
    points = np.asarray(scatter.get_offsets())
    assert points.tolist() == [[0, 36], [1, 20], [2, 35], [3, 33]]
    assert to_hex(scatter.get_facecolors()[1]) == ERROR.lower()  # type: ignore[attr-defined]


def test_a_weights_own_steps_are_used_where_its_parameters_are_given() -> None:
    params = QuantParams([0.1, 0.2, 0.1, 0.4], dtype="int8", axis=0)
    figure = channel_error(WEIGHT, params=params)
    assert [bar.get_height() for bar in bars(figure.axes[1])] == pytest.approx([0.5, 1, 0.5, 0.25])
    assert channel_error(WEIGHT).axes[1].get_ylabel() == "RMSE (value)"


def test_a_channel_without_error_is_marked_exact() -> None:
    channels = (*CONV.channels, channel(4, None, 0.0, None))
    figure = drawn(channel_error(replace(CONV, channels=channels)))
    (word,) = (t for t in figure.axes[0].texts if t.get_text() == "exact")
    assert word.get_position()[0] == 4


def test_tensors_without_channels_or_error_say_so() -> None:
    assert "no channels" in texts(channel_error(replace(CONV, channels=())))
    exact = replace(INPUT, channels=CONV.channels)
    assert "every value is represented exactly" in texts(channel_error(exact))


def test_a_thousand_channels_are_drawn_and_ticked_readably() -> None:
    many = tuple(replace(CONV.channels[n % 4], channel=n) for n in range(1000))
    figure = drawn(channel_error(replace(CONV, channels=many)))
    (lines,) = (c for c in figure.axes[1].collections if isinstance(c, LineCollection))
    assert len(lines.get_segments()) == 1000
    assert len(figure.axes[1].get_xticks()) < 20
