"""What all figures have in common: two themes, no global state, no memory kept."""

import gc
import itertools
import sys
import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from io import BytesIO

import numpy as np
import pytest
from figure_values import CONV, RESIDUAL, activation, comparison, evaluation
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.text import Text
from PIL import Image
from sensitivity_rows import DISABLE, result

from quantscope.model import find_model, load_onnx, read_onnx
from quantscope.report import figures
from quantscope.report.figures.style import DARK, LIGHT, plain, png_bytes, svg_bytes
from quantscope.run.compare.results import TensorComparison
from quantscope.run.evaluate import compare_evaluations
from quantscope.study.bits import (
    BitCell,
    BitCurve,
    BitCurves,
    BitMap,
    CurvePoint,
    Frontier,
    FrontierPoint,
)

NETWORK = read_onnx(load_onnx(find_model("resnet8-int8")))
CHANGE = compare_evaluations(evaluation([0, 1, 1, 2, 2, 2]), evaluation([0, 0, 1, 1, 2, 0]))
WIDTHS = (2, 8, None)
CELLS = (
    BitCell(w, a, 0.1 * i, (0.0, 0.9), 0.1 * i - 0.8, (-0.3 + 0.1 * i, 0.2), 100)
    for i, (w, a) in enumerate(itertools.product(WIDTHS, WIDTHS))
)
BITS = BitMap(
    *("q.onnx", "d", "f.onnx", "d", "reference", "data", "d", 100, "image"),
    *("top-1 accuracy", "share", True, "Wilson", {}, WIDTHS, WIDTHS, tuple(CELLS)),
)
POINTS = tuple(CurvePoint(bits, 0.1 * bits, 0.1 * bits - 0.8, (-0.9, 0.1)) for bits in (2, 4, 8))
CURVES = BitCurves(
    **BITS.facts(),
    base=0.8,
    floats=0.9,
    curves=tuple(
        BitCurve(layer, f"{layer}.{role}", role, 8, POINTS)  # type: ignore[arg-type]
        for layer in ("stem", "head")
        for role in ("weights", "activations")
    ),
)
STEPS = tuple(
    FrontierPoint(
        step, {"stem.weight": bits}, 100 * bits, 1000 * bits, score, (0.2, 0.9), -0.1, None
    )
    for step, bits, score in (("", 8, 0.8), ("w", 4, 0.5))
)
FRONTIER = Frontier(
    **BITS.facts(),
    ranked_on=20,
    saving="compute",
    floats=0.9,
    points=STEPS,
    uniform=STEPS,
)
MAKERS: dict[str, Callable[..., Figure]] = {
    "sqnr": lambda **o: figures.sqnr_along(comparison(), comparison(), **o),
    "sources": lambda **o: figures.error_sources(comparison(), per_input=True, **o),
    "scales": lambda **o: figures.scales_along(NETWORK, **o),
    "weights": lambda **o: figures.weight_ranges(NETWORK, **o),
    "channels": lambda **o: figures.channel_error(CONV, **o),
    "residuals": lambda **o: figures.residual_branches([RESIDUAL], comparison(), **o),
    "ranking": lambda **o: figures.sensitivity_ranking(result(*DISABLE), **o),
    "frontier": lambda **o: figures.bit_frontier(FRONTIER, **o),
    "curves": lambda **o: figures.bit_curves_figure(CURVES, **o),
    "bits": lambda **o: figures.bit_heatmap(BITS, **o),
    "confusion": lambda **o: figures.confusion(CHANGE.first, **o),
    "difference": lambda **o: figures.confusion_difference(CHANGE, **o),
    "classes": lambda **o: figures.per_class_change(CHANGE, **o),
    "empty": lambda **o: figures.sqnr_along(comparison(tensors=()), **o),
}
every_figure = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())


def shown_texts(figure: Figure) -> Iterator[Text]:
    figure.canvas.draw()
    for text in figure.findobj(Text):
        if isinstance(text, Text) and text.get_text().strip() and text.get_visible():
            yield text


def _is_plot(axes: Axes) -> bool:
    """Neither the second face of another's axis nor a colour bar."""
    return axes.get_label() != "<colorbar>"


def _has_cells(axes: Axes) -> bool:
    return any(isinstance(collection, QuadMesh) for collection in axes.collections)


@every_figure
def test_a_dark_figure_is_transparent_and_has_no_dark_ink(make: Callable[..., Figure]) -> None:
    figure = make(theme="dark")
    assert figure.get_facecolor()[3] == 0
    assert all(axes.get_facecolor()[3] == 0 for axes in figure.axes if _is_plot(axes))
    for text in shown_texts(figure):
        on_cell = text.axes is not None and text in text.axes.texts and _has_cells(text.axes)
        if not on_cell:
            assert to_hex(text.get_color()) not in (LIGHT.ink, LIGHT.faint, "#000000"), text


@every_figure
def test_a_light_figure_has_a_title_dark_ink_on_white_and_nothing_outside(
    make: Callable[..., Figure],
) -> None:
    figure = make()
    assert figure.get_facecolor() == (1, 1, 1, 1)
    assert figure.axes[0].get_title("left")
    for text in shown_texts(figure):
        assert to_hex(text.get_color()) not in (DARK.ink, DARK.faint), text
    box = figure.get_tightbbox()
    width, height = figure.get_size_inches()
    assert box.x0 > -0.01 and box.x1 < width + 0.01
    assert box.y0 > -0.01 and box.y1 < height + 0.01


def test_the_same_result_gives_the_same_picture() -> None:
    make = MAKERS["sources"]
    picture = png_bytes(make(theme="dark"))
    assert picture == png_bytes(make(theme="dark"))
    assert svg_bytes(make()) == svg_bytes(make())
    image = Image.open(BytesIO(picture))
    assert image.mode == "RGBA" and image.getpixel((1, 1))[3] == 0  # type: ignore[index]


def test_a_loop_over_all_layers_keeps_no_figure_and_no_memory() -> None:
    tensors = [replace(CONV, name=f"layer{n}.out", layer=f"layer{n}") for n in range(6)]
    made: list[weakref.ref[Figure]] = []

    def objects_after(layers: list[TensorComparison]) -> int:
        for tensor in layers:
            figure = figures.channel_error(tensor)
            made.append(weakref.ref(figure))
            png_bytes(figure)
        del figure
        gc.collect()
        return len(gc.get_objects())

    objects_after(tensors[:1])  # fonts and caches
    before = objects_after(tensors[1:2])
    after = objects_after(tensors[2:])
    assert len(made) == 6
    assert not any(figure() for figure in made)
    assert after - before < 200
    pyplot = sys.modules.get("matplotlib.pyplot")
    assert pyplot is None or not pyplot.get_fignums()


def test_names_of_a_model_are_never_taken_for_mathematics_or_undrawable() -> None:
    assert plain("a$x^2$") == r"a\$x^2\$"
    assert plain("层\n") == r"\u5c42\n"
    odd = activation("层/$b$\x1b[0m.out", sqnr_db=20.0)
    figure = figures.sqnr_along(comparison(tensors=(odd, CONV)))
    assert png_bytes(figure)
    assert np.isfinite(figure.axes[0].get_ylim()).all()


def test_the_legend_of_the_curves_keeps_its_place_without_the_title() -> None:
    """The page takes the title out, and narrows the figure."""
    figure = figures.bit_curves_figure(CURVES)
    figure.suptitle("")
    figure.set_size_inches(7.4, figure.get_figheight())
    figure.draw_without_rendering()
    (legend,) = figure.legends
    named = {curve.layer for curve in CURVES.curves}
    titles = [text for text in figure.findobj(Text) if text.get_text() in named]
    assert len(titles) == len(named)
    for text in titles:
        assert text.get_window_extent().y1 < legend.get_window_extent().y0
