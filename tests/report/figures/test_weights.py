"""Heatmaps of weights: every cell is the weight it stands for."""

from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from quantscope.errors import BadConfigError, BadModelError
from quantscope.model import Network, Pairing, find_model, load_onnx, pair_networks, read_onnx
from quantscope.report.figures.style import png_bytes
from quantscope.report.figures.weights import weights_heatmap

Array = np.ndarray[Any, Any]


@pytest.fixture(scope="module")
def network() -> Network:
    return read_onnx(load_onnx(find_model("resnet8-int8")))


@pytest.fixture(scope="module")
def pairing(network: Network) -> Pairing:
    return pair_networks(read_onnx(load_onnx(find_model("resnet8"))), network)


def cells(figure: Figure) -> Array:
    return np.ma.filled(figure.axes[0].images[0].get_array(), np.nan)


def scale(figure: Figure) -> tuple[float, float]:
    low, high = figure.axes[0].images[0].get_clim()
    return float(low), float(high)


def bar_label(figure: Figure) -> str:
    return figure.axes[1].get_ylabel()


def ticks(axes: Axes) -> list[str]:
    return [label.get_text() for label in axes.get_xticklabels()]


def test_every_kernel_lies_where_its_channels_say(network: Network) -> None:
    figure = weights_heatmap(network, "stack1.conv1.weight")
    found, values = cells(figure), network.tensor("stack1.conv1.weight").values()
    assert found.shape == (16 * 4 - 1, 16 * 4 - 1)
    for out, into in ((0, 0), (3, 7), (15, 15)):
        tile = found[4 * out : 4 * out + 3, 4 * into : 4 * into + 3]
        np.testing.assert_allclose(tile, values[out, into])
    assert np.isnan(found[3]).all() and np.isnan(found[:, 3]).all()
    axes = figure.axes[0]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("input channel", "output channel")
    assert ticks(axes) == [str(channel) for channel in range(16)]
    assert bar_label(figure) == "weight"


def test_the_longer_side_lies_across(network: Network) -> None:
    figure = weights_heatmap(network, "stem.weight")
    values = network.tensor("stem.weight").values()
    axes = figure.axes[0]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("output channel", "input channel")
    np.testing.assert_allclose(cells(figure)[4:7, 36:39], values[9, 1])


def test_colours_are_symmetric_and_integers_have_their_types_scale(
    network: Network, pairing: Pairing
) -> None:
    largest = np.abs(network.tensor("head.weight").values()).max()
    figure = weights_heatmap(network, "head.weight", pairing)
    assert scale(figure) == pytest.approx((-largest, largest))
    integers = weights_heatmap(network, "head.weight", pairing, show="integers")
    assert scale(integers) == (-128, 128)
    assert bar_label(integers) == "integer (int8)"
    np.testing.assert_array_equal(cells(integers), network.tensor("head.weight").integers())


def test_differences_are_quantized_minus_float(network: Network, pairing: Pairing) -> None:
    tensor = network.tensor("head.weight")
    floats = pairing.by_name["head.weight"].float_values()
    assert floats is not None
    expected = tensor.values().astype(np.float64) - floats
    figure = weights_heatmap(network, "head.weight", pairing, show="difference")
    np.testing.assert_allclose(cells(figure), expected)
    assert bar_label(figure) == "quantized − float (weight)"
    steps = weights_heatmap(network, "head.weight", pairing, show="difference in steps")
    np.testing.assert_allclose(cells(steps), expected / tensor.params.step[:, None])
    assert bar_label(steps) == "quantized − float (steps)"
    assert scale(steps)[1] <= 0.501
    original = weights_heatmap(network, "head.weight", pairing, show="float")
    np.testing.assert_allclose(cells(original), floats)


def test_means_are_over_what_they_say(network: Network) -> None:
    values = network.tensor("stack2.conv1.weight").values().astype(np.float64)
    by_channel = weights_heatmap(network, "stack2.conv1.weight", view="channels")
    np.testing.assert_allclose(cells(by_channel), values.mean(axis=(2, 3)).T)
    assert "each cell is the mean over a kernel" in by_channel.get_supxlabel()
    kernels = weights_heatmap(network, "stack2.conv1.weight", view="mean kernels")
    texts = kernels.axes[0].texts
    assert [text.get_text().strip() for text in texts] == [str(c) for c in range(32)]
    mean = values.mean(axis=1)
    for text, expected in zip(texts, mean, strict=True):
        x, y = (round(p + 0.5) for p in text.get_position())
        np.testing.assert_allclose(cells(kernels)[y : y + 3, x : x + 3], expected)
    assert "mean over the input channels" in kernels.get_supxlabel()


def test_chosen_channels_are_the_ones_shown(network: Network) -> None:
    values = network.tensor("stack2.conv2.weight").values()
    figure = weights_heatmap(network, "stack2.conv2.weight", outputs=[5, 1], inputs=[30, 2, 9])
    np.testing.assert_allclose(cells(figure)[:3, 4:7], values[5, 2])
    np.testing.assert_allclose(cells(figure)[4:7, 8:], values[1, 9])
    assert ticks(figure.axes[0]) == ["30", "2", "9"]
    note = figure.get_supxlabel()
    assert "2 of 32 output channels" in note and "3 of 32 input channels" in note


def test_kernels_of_one_cell_are_a_plain_matrix(network: Network) -> None:
    figure = weights_heatmap(network, "stack2.shortcut.weight")
    values = network.tensor("stack2.shortcut.weight").values()[:, :, 0, 0]
    np.testing.assert_allclose(cells(figure), values.T)


def test_without_the_float_model_there_is_a_sentence(network: Network) -> None:
    figure = weights_heatmap(network, "stem.weight", show="difference")
    text = figure.axes[0].texts[0].get_text()
    assert text == "The float values of these weights are not at hand; give the float model."


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_they_become_pictures(network: Network, theme: Any) -> None:
    figure = weights_heatmap(network, "stack3.conv2.weight", view="mean kernels", theme=theme)
    assert png_bytes(figure).startswith(b"\x89PNG")


def test_bad_questions_are_answered_in_one_line(network: Network) -> None:
    with pytest.raises(BadConfigError, match=r"stem.bias is not a stored weight; ask for one"):
        weights_heatmap(network, "stem.bias")
    with pytest.raises(BadConfigError, match=r"stem.out is not a stored weight"):
        weights_heatmap(network, "stem.out")
    with pytest.raises(BadModelError, match=r"No quantized tensor 'stm.weight'"):
        weights_heatmap(network, "stm.weight")
    with pytest.raises(BadConfigError, match="no output channel 16; choose from 0 to 15"):
        weights_heatmap(network, "stem.weight", outputs=[16])
    with pytest.raises(BadConfigError, match="No input channel was chosen; choose from 0 to 2"):
        weights_heatmap(network, "stem.weight", inputs=[])
