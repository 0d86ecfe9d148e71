"""Histogram figures: what is drawn is what was counted."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import StepPatch

from quantscope.arithmetic import QuantParams
from quantscope.data import load_sample
from quantscope.model import QuantTensor
from quantscope.model.pairing import TensorPair
from quantscope.report.figures.histograms import activation_histogram, percent, weight_histograms
from quantscope.report.figures.style import png_bytes
from quantscope.run.histograms.histograms import histograms
from quantscope.run.histograms.results import Histogram, Histograms
from quantscope.run.histograms.series import choose_counting

Array = np.ndarray[Any, Any]


def tensor(params: QuantParams, name: str = "a.out", role: Any = "activation") -> QuantTensor:
    return QuantTensor(
        name=name, role=role, params=params, shape=None, producer="a", consumers=(),
        clips_negatives=False, folded_relu=False, shares_params_with=(), float_name=name,
        integer_names=("q",), dequantized_names=(), scale_name=None, zero_point_name=None,
    )  # fmt: skip


def counted(params: QuantParams, floats: Array | None, integers: Array, **facts: Any) -> Histogram:
    found = tensor(params, **facts)
    pair = TensorPair(found.name, found.role, "f", "a", "a", "structure")
    made = choose_counting(
        found, pair if floats is not None else None, None if floats is not None else "no"
    )
    return made.histogram(made.count(floats, integers), 512)


RNG = np.random.default_rng(4)
NARROW = QuantParams(np.float32(0.02), 128, "uint8")
FLOATS = RNG.normal(0, 1, 4000).astype(np.float32)
INTEGERS = np.clip(np.rint(FLOATS / np.float32(0.02)) + 128, 0, 255).astype(np.uint8)


@pytest.fixture(scope="module")
def clipping() -> Histogram:
    return counted(NARROW, FLOATS, INTEGERS)


@pytest.fixture(scope="module")
def real() -> Histograms:
    names = ["stem", "stack1.conv2", "stem.weight"]
    return histograms("resnet8-uint8", load_sample().take(4), names)


def stairs(axes: Axes) -> dict[str, StepPatch]:
    return {p.get_label(): p for p in axes.patches if isinstance(p, StepPatch)}


def texts(figure: Figure) -> str:
    found = [t.get_text() for axes in figure.axes for t in axes.texts]
    found += [axes.get_title(loc="left") for axes in figure.axes]
    return "\n".join([*found, figure.get_supxlabel(), figure.get_suptitle()])


def test_float_and_quantized_are_drawn_in_the_same_bins(clipping: Histogram) -> None:
    figure = activation_histogram(clipping, bins=64)
    (axes,) = figure.axes
    shown, drawn = clipping.at_most(64), stairs(axes)
    for name, patch in drawn.items():
        np.testing.assert_array_equal(patch.get_data().edges, shown.edges, err_msg=name)
    floats = drawn["float"].get_data().values + drawn["clipped"].get_data().values
    np.testing.assert_allclose(floats, 100 * shown["float"].counts / 4000)
    quantized = drawn["quantized"].get_data().values
    np.testing.assert_allclose(quantized, 100 * shown["quantized"].counts / 4000)
    assert axes.get_ylabel() == "share of values (%)" and axes.get_xlabel() == "value"
    assert "a bin is" in texts(figure) and "as uint8" in texts(figure)


def test_the_range_is_marked_and_what_it_cuts_is_tinted_and_named(clipping: Histogram) -> None:
    figure = activation_histogram(clipping)
    (axes,) = figure.axes
    dashed = sorted(float(np.asarray(line.get_xdata())[0]) for line in axes.lines)
    assert dashed == pytest.approx([clipping.low, clipping.high])
    cut = stairs(axes)["clipped"].get_data()
    middles = (cut.edges[:-1] + cut.edges[1:]) / 2
    outside = (middles < clipping.low) | (middles > clipping.high)
    assert cut.values[outside].sum() > 0 and cut.values[~outside].sum() == 0
    low, high = clipping["float"].clipped_low_fraction, clipping["float"].clipped_high_fraction
    assert low and high
    assert f"{percent(low)} clipped" in texts(figure)
    assert f"{percent(high)} clipped" in texts(figure)
    spans = [p for p in axes.patches if not isinstance(p, StepPatch)]
    assert len(spans) == 2


def test_nothing_clipped_is_said_and_not_tinted() -> None:
    wide = QuantParams(np.float32(0.05), 128, "uint8")
    figure = activation_histogram(counted(wide, FLOATS, INTEGERS))
    assert texts(figure).count("0 % clipped") == 2
    assert all(isinstance(patch, StepPatch) for patch in figure.axes[0].patches)


@pytest.mark.parametrize(
    ("zero_point", "values"),
    [(0, (0, 15)), (255, (-15, 0)), (128, (-8, 8)), (0, (0, 3.2)), (255, (-15, 3))],
)
def test_what_is_said_of_the_two_ends_does_not_overlap(
    zero_point: int, values: tuple[float, float]
) -> None:
    params = QuantParams(np.float32(0.012), zero_point, "uint8")
    floats = RNG.uniform(*values, 4000).astype(np.float32)
    integers = np.clip(np.rint(floats / 0.012) + zero_point, 0, 255).astype(np.uint8)
    figure = activation_histogram(counted(params, floats, integers))
    png_bytes(figure)  # places what is drawn
    said = [t for t in figure.axes[0].texts if t.get_text().endswith("clipped")]
    one, other = (text.get_window_extent() for text in said)
    assert not one.overlaps(other)
    frame = figure.axes[0].get_window_extent()
    assert all(frame.x0 <= box.x0 and box.x1 <= frame.x1 for box in (one, other))


def test_a_towering_bin_runs_out_of_the_picture_and_says_its_share(real: Histograms) -> None:
    figure = activation_histogram(real["stem.out"])
    (axes,) = figure.axes
    floats = stairs(axes)["float"].get_data().values
    assert floats.max() > axes.get_ylim()[1]
    assert f"the bin at 0 holds {floats.max():.3g} % (float)" in texts(figure)
    logarithmic = activation_histogram(real["stem.out"], log=True)
    assert logarithmic.axes[0].get_yscale() == "log"
    assert logarithmic.axes[0].get_ylim()[1] > floats.max()
    assert "holds" not in texts(logarithmic)


def test_another_type_does_not_beat_against_the_bins(real: Histograms) -> None:
    figure = activation_histogram(real["stack1.conv2.out"], types=True)
    assert len(figure.axes) == 3
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles == [
        "Values of stack1.conv2.out",
        "As int8, symmetric over the same range",
        "As uint8, as the file has it",
    ]
    found = stairs(figure.axes[1])["as int8"].get_data()
    params = real["stack1.conv2.out"]["int8"].params
    assert params is not None
    steps = np.diff(found.edges) / float(params.scale)
    np.testing.assert_allclose(steps, np.round(steps), atol=1e-4)
    shown = real["stack1.conv2.out"].at_most(128)
    width = shown.step * shown.steps_per_bin
    assert (found.values * np.diff(found.edges) / width).sum() == pytest.approx(100)
    assert "int8 has steps of" in texts(figure)


def test_without_float_values_it_says_so() -> None:
    figure = activation_histogram(counted(NARROW, None, INTEGERS))
    assert set(stairs(figure.axes[0])) == {"quantized"}
    assert "no float values: no" in texts(figure) and "clipped" not in texts(figure)


def test_weights_stand_side_by_side_on_one_scale(real: Histograms) -> None:
    found = real["stem.weight"]
    figure = weight_histograms(found)
    shown = found.at_most(64)
    assert [a.get_title(loc="left").split(",")[0] for a in figure.axes] == [
        "float",
        "int8",
        "uint8",
    ]
    assert "asymmetric over the float values" in texts(figure).replace("\n", " ")
    for axes, name in zip(figure.axes, ("float", "quantized", "uint8"), strict=True):
        patch = next(p for p in axes.patches if p.get_fill())
        np.testing.assert_allclose(patch.get_data().values, 100 * shown[name].counts / 432)
        np.testing.assert_array_equal(patch.get_data().edges, shown.edges)
        assert axes.get_ylim() == figure.axes[0].get_ylim()
        assert axes.get_xlim() == figure.axes[0].get_xlim()
        assert axes.get_xlabel() == "weight"
    outlined = stairs(figure.axes[2])["float"]
    np.testing.assert_allclose(outlined.get_data().values, 100 * shown["float"].counts / 432)


def test_weights_of_other_types_have_a_panel_of_their_own() -> None:
    four = QuantParams(np.float32(0.2), 0, "int4")
    integers = np.clip(np.rint(FLOATS / 0.2), -8, 7).astype(np.int8)
    found = counted(four, FLOATS, integers, name="w", role="weight")
    figure = weight_histograms(found)
    headings = [axes.get_title(loc="left").split(",")[0] for axes in figure.axes]
    assert headings == ["float", "int4", "int8", "uint8"]


def test_what_is_not_finite_is_said() -> None:
    floats = FLOATS.copy()
    floats[:3] = np.nan, np.inf, -np.inf
    found = counted(NARROW, floats, INTEGERS)
    assert "3 values that are not finite are left out" in texts(activation_histogram(found))
    nothing = counted(NARROW, np.full(4, np.nan, np.float32), INTEGERS[:4])
    png_bytes(activation_histogram(nothing))


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_figures_become_pictures(real: Histograms, theme: Any, tmp_path: Path) -> None:
    for figure in (
        activation_histogram(real["stem.out"], types=True, theme=theme),
        weight_histograms(real["stem.weight"], log=True, theme=theme),
    ):
        assert png_bytes(figure).startswith(b"\x89PNG")


def test_names_are_text_and_not_mathematics() -> None:
    found = counted(NARROW, FLOATS, INTEGERS, name="$x_1$")
    figure = activation_histogram(found)
    png_bytes(figure)
    assert r"\$x_1\$" in texts(figure)


def test_a_share_is_never_rounded_to_nothing() -> None:
    assert [percent(s) for s in (0.0, 1e-7, 0.0012, 0.5)] == ["0 %", "1e-05 %", "0.12 %", "50 %"]
