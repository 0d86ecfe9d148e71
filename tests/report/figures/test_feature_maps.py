"""Feature maps: the values of one image, on one scale, and their difference on another."""

from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from quantscope.arithmetic import QuantParams, dequantize, quantize
from quantscope.data import load_sample
from quantscope.errors import BadConfigError
from quantscope.report.figures.feature_maps import feature_maps
from quantscope.report.figures.style import png_bytes
from quantscope.run import capture
from quantscope.run.capture.captured import CapturedTensor

Array = np.ndarray[Any, Any]
PARAMS = QuantParams(np.float32(0.1), 128, "uint8")
RNG = np.random.default_rng(3)


def captured(values: Array) -> tuple[CapturedTensor, CapturedTensor]:
    integers = quantize(values, PARAMS)
    return (
        CapturedTensor("f", "a", None, None, values),
        CapturedTensor("a.out", "a", PARAMS, integers, dequantize(integers, PARAMS)),
    )


SIGNED = RNG.normal(0, 2, (3, 11, 5, 7)).astype(np.float32)


def panels(figure: Figure) -> list[Axes]:
    return [axes for axes in figure.axes if axes.get_label() != "<colorbar>"]


def headings(figure: Figure) -> list[str]:
    return [label.get_text() for label in panels(figure)[0].get_xticklabels()]


def pictures(figure: Figure) -> Array:
    """[3, columns, height, width]"""
    found = np.stack([np.ma.filled(a.images[0].get_array(), np.nan) for a in panels(figure)])
    columns = max(len(headings(figure)), 1)
    gap = 1 if columns > 1 else 0
    width = (found.shape[2] + gap) // columns
    return np.stack([found[:, :, n * width : (n + 1) * width - gap] for n in range(columns)], 1)


def explained(figure: Figure) -> str:
    return " ".join(figure.get_supxlabel().split())


def scales(figure: Figure) -> Array:
    return np.array([axes.images[0].get_clim() for axes in panels(figure)])


def test_rows_are_float_quantized_and_their_difference() -> None:
    f, q = captured(SIGNED)
    figure = feature_maps(f, q, image=2, channels=[4, 0, 9])
    found = pictures(figure)
    np.testing.assert_allclose(found[0], f.values[2, [4, 0, 9]])
    np.testing.assert_allclose(found[1], q.values[2, [4, 0, 9]])
    np.testing.assert_allclose(found[2], found[1] - found[0])
    assert headings(figure) == ["channel 4", "channel 0", "channel 9"]
    assert [a.get_ylabel() for a in panels(figure)] == ["float", "quantized", "difference"]
    assert "3 of 11 channels" in explained(figure)


def test_float_and_quantized_share_a_scale_and_the_difference_has_its_own() -> None:
    f, q = captured(SIGNED)
    figure = feature_maps(f, q, channels=[1, 2])
    found, ends = pictures(figure), scales(figure)
    largest = np.abs(found[:2]).max()
    np.testing.assert_allclose(ends[:2], [[-largest, largest]] * 2)
    off = np.abs(found[2]).max()
    np.testing.assert_allclose(ends[2], [-off, off])
    bars = [axes.get_ylabel() for axes in figure.axes if axes.get_label() == "<colorbar>"]
    assert bars == ["value", "quantized − float"]
    assert f"{off / np.float32(0.1):.2g} steps of 0.1" in explained(figure)


def test_values_without_negatives_begin_at_zero() -> None:
    f, q = captured(np.abs(SIGNED))
    ends = scales(feature_maps(f, q))
    assert (ends[:2, 0] == 0).all() and ends[2, 0] == -ends[2, 1]


def test_those_that_differ_most_are_shown_unless_chosen() -> None:
    f, q = captured(SIGNED)
    worse = CapturedTensor("a.out", "a", PARAMS, q.integers, q.values.copy())
    worse.values[0, [2, 10]] += 1
    figure = feature_maps(f, worse)
    channels = [int(heading.split()[1]) for heading in headings(figure)]
    assert len(channels) == 8 and channels == sorted(channels) and {2, 10} <= set(channels)


def test_channels_may_lie_last() -> None:
    f, q = captured(SIGNED)
    turned = [
        CapturedTensor(t.name, None, t.params, None, t.values.transpose(0, 2, 3, 1)) for t in (f, q)
    ]
    one = pictures(feature_maps(f, q, channels=[3]))
    other = pictures(feature_maps(*turned, channels=[3], channel_axis=3))
    np.testing.assert_array_equal(one, other)


def test_scores_are_a_numbered_strip() -> None:
    f, q = captured(SIGNED[:, :10, 0, 0])
    figure = feature_maps(f, q, image=1)
    np.testing.assert_allclose(panels(figure)[0].images[0].get_array()[0], f.values[1])
    assert [label.get_text() for label in panels(figure)[2].get_xticklabels()] == [
        str(channel) for channel in range(10)
    ]


def test_the_same_numbers_in_another_shape_are_compared() -> None:
    f, q = captured(SIGNED)
    flat = CapturedTensor("f", None, None, None, f.values.reshape(3, -1))
    np.testing.assert_array_equal(pictures(feature_maps(flat, q)), pictures(feature_maps(f, q)))


def test_no_difference_is_said() -> None:
    f, _ = captured(SIGNED)
    figure = feature_maps(f, CapturedTensor("a.out", "a", PARAMS, None, f.values))
    assert figure.get_supxlabel().startswith("No difference")
    assert (scales(figure)[2] == [-1, 1]).all()


def test_what_is_not_finite_is_left_blank() -> None:
    f, q = captured(SIGNED)
    values = f.values.copy()
    values[0, 0, 0, :2] = np.nan, np.inf
    figure = feature_maps(CapturedTensor("f", None, None, None, values), q, channels=[0])
    assert np.isfinite(scales(figure)).all()
    assert "2 values that are not finite are left blank" in explained(figure)
    png_bytes(figure)
    nothing = CapturedTensor("f", None, None, None, np.full_like(values, np.nan))
    text = feature_maps(nothing, q).axes[0].texts[0].get_text()
    assert text == "It has no finite values for this image."


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_real_layer_becomes_a_picture(theme: Any) -> None:
    images = load_sample().take(2)
    q = capture("resnet8-uint8", images, ["stack2.add"])["stack2.add.out"]
    f = next(iter(capture("resnet8", images, ["stack2.add"]).tensors.values()))
    assert png_bytes(feature_maps(f, q, theme=theme)).startswith(b"\x89PNG")


def test_bad_questions_are_answered_in_one_line() -> None:
    f, q = captured(SIGNED)
    with pytest.raises(BadConfigError, match="f was captured for 3 images; there is no image 3"):
        feature_maps(f, q, image=3)
    with pytest.raises(BadConfigError, match="There is no channel 11; choose from 0 to 10"):
        feature_maps(f, q, channels=[11])
    with pytest.raises(BadConfigError, match="No channel was chosen; choose from 0 to 10"):
        feature_maps(f, q, channels=[])
    other = CapturedTensor("g", None, None, None, SIGNED[:, :4])
    with pytest.raises(BadConfigError, match=r"g has 140 values an image and a.out 385: they do"):
        feature_maps(other, q)
