"""Scales and weights of all layers, of the bundled network."""

from dataclasses import replace

import numpy as np
import pytest
from figure_values import bars, colour, drawn, texts, ticks

from quantscope.model import (
    Network,
    Pairing,
    QuantParams,
    find_model,
    load_onnx,
    pair_networks,
    read_onnx,
)
from quantscope.report.figures import scales_along, weight_ranges
from quantscope.report.figures.scales import span_of
from quantscope.report.figures.style import EDITED, FLOAT, QUANTIZED, WEIGHTS


@pytest.fixture(scope="module")
def network() -> Network:
    return read_onnx(load_onnx(find_model("resnet8-int8")))


@pytest.fixture(scope="module")
def pairing(network: Network) -> Pairing:
    return pair_networks(read_onnx(load_onnx(find_model("resnet8"))), network)


def test_activations_are_marks_at_their_scale_on_a_log_axis(network: Network) -> None:
    axes = drawn(scales_along(network)).axes[0]
    assert axes.get_yscale() == "log"
    found = {
        line.get_gid(): float(np.asarray(line.get_ydata()).item())
        for line in axes.lines
        if line.get_gid() and line.get_color() == QUANTIZED
    }
    expected = {
        t.producer or t.name: float(t.params.scale)
        for t in network.tensors
        if t.role == "activation"
    }
    assert found == pytest.approx(expected)
    assert ticks(axes)[:3] == ["input", "stem", "stack1.conv1"]


def test_scales_by_channel_are_bars_from_the_least_to_the_largest(network: Network) -> None:
    axes = scales_along(network).axes[0]
    by_layer = {bar.get_gid(): bar for bar in bars(axes)}
    scales = network.tensor("stack2.shortcut.weight").params.scale
    bar = by_layer["stack2.shortcut"]
    assert bar.get_y() == pytest.approx(float(scales.min()))
    assert bar.get_y() + bar.get_height() == pytest.approx(float(scales.max()))
    assert colour(bar) == WEIGHTS.lower()
    low, high = axes.get_ylim()
    smallest = min(float(b.get_y()) for b in by_layer.values())
    assert low < smallest and high > 1.0
    assert "10⁻⁷" in ticks(axes, "y")


def test_only_changed_scales_are_drawn_as_edited(network: Network) -> None:
    tensors = [
        replace(t, params=QuantParams(2 * t.params.scale, t.params.zero_point, t.params.dtype))
        if t.name == "pool.out"
        else t
        for t in network.tensors
    ]
    figure = scales_along(network, replace(network, tensors=tuple(tensors)))
    edited = [line for line in figure.axes[0].lines if line.get_color() == EDITED]
    assert [line.get_gid() for line in edited] == ["pool"]
    assert "edited" in texts(figure)


def test_a_float_network_has_no_scales() -> None:
    figure = scales_along(read_onnx(load_onnx(find_model("resnet8"))))
    assert "resnet8.onnx is not quantized" in texts(figure)


def test_float_and_quantized_weights_stand_side_by_side(network: Network, pairing: Pairing) -> None:
    figure = drawn(weight_ranges(network, pairing))
    axes = figure.axes[0]
    of_head = [bar for bar in bars(axes) if bar.get_gid() == "head"]
    assert [colour(bar) for bar in of_head] == [FLOAT.lower(), QUANTIZED.lower()]
    floats = pairing.by_name["head.weight"].float_values()
    assert floats is not None
    for bar, values in zip(of_head, (floats, network.tensor("head.weight").values()), strict=True):
        low, high = np.quantile(values, (0.05, 0.95))
        assert bar.get_y() == pytest.approx(low)
        assert bar.get_y() + bar.get_height() == pytest.approx(high)
    assert of_head[0].get_x() < of_head[1].get_x()
    assert len(ticks(axes)) == 10
    assert "2.0" in {text.get_text() for text in axes.texts}
    low, high = axes.get_ylim()
    assert low < float(floats.min()) and high > float(floats.max())


def test_without_a_pairing_only_quantized_weights_are_drawn_and_it_is_said(
    network: Network,
) -> None:
    figure = weight_ranges(network)
    assert {colour(bar) for bar in bars(figure.axes[0])} == {QUANTIZED.lower()}
    assert "No float values at hand." in texts(figure)


def test_weights_that_are_not_finite_have_no_span() -> None:
    assert span_of(np.array([1.0, np.nan])) is None
    assert span_of(np.array([])) is None
    span = span_of(np.arange(101.0))
    assert span == (0.0, 100.0, 5.0, 95.0)
