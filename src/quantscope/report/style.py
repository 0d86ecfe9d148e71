"""How every figure looks: one palette that colour-blind people can read, one type scale."""

import io
from typing import TYPE_CHECKING

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from matplotlib.text import Text

# Okabe and Ito's colours.
BLACK = "#000000"
ORANGE = "#E69F00"
SKY = "#56B4E9"
GREEN = "#009E73"
YELLOW = "#F0E442"
BLUE = "#0072B2"
VERMILLION = "#D55E00"
PURPLE = "#CC79A7"
SERIES = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, BLACK)
LINES = ("-", "--", ":")
MARKERS = ("o", "D", "s", "^", "v", "P", "X")

INK = "#1b1f24"
FAINT = "#6b7280"
GRID = "#e3e6ea"
CHANGE = LinearSegmentedColormap.from_list("change", [VERMILLION, "#ffffff", BLUE])
"""Loss to gain; white is no change."""

WIDTH_INCHES = 9.0
SMALL, NORMAL, TITLE = 8.0, 9.0, 11.0
DPI = 144


def new_figure(height: float, *, width: float = WIDTH_INCHES) -> Figure:
    """A figure of its own, that no global state knows of; sizes in inches."""
    figure = Figure(figsize=(width, height), layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    engine = figure.get_layout_engine()
    assert engine is not None
    engine.set(h_pad=0.12, w_pad=0.08)  # type: ignore[call-arg]
    return figure


def dress(axes: Axes, *, title: str, x: str = "", y: str = "", grid: str | None = None) -> Axes:
    """Title to the left, thin frame, and a grid along the axis that is read ("x", "y" or both)."""
    axes.set_title(title, loc="left", fontsize=TITLE, fontweight="bold", color=INK, pad=10)
    axes.set_xlabel(x, fontsize=NORMAL, color=INK)
    axes.set_ylabel(y, fontsize=NORMAL, color=INK)
    axes.tick_params(labelsize=SMALL, colors=INK, length=3, width=0.6)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(FAINT)
        spine.set_linewidth(0.6)
    if grid is not None:
        axes.grid(axis=grid, color=GRID, linewidth=0.8)  # type: ignore[arg-type]
        axes.set_axisbelow(True)
    return axes


def note(figure: Figure, text: str) -> "Text":
    """A line below everything: what the reader must know to read the figure right."""
    return figure.supxlabel(text, x=0.01, ha="left", fontsize=SMALL, color=FAINT)


def signed(value: float, form: str = "+g") -> str:
    """With its sign, a true minus, and a bare 0."""
    text = format(value, form)
    return "0" if float(text) == 0 else text.replace("-", "−")


def ink_on(value: float, limit: float) -> str:
    """Text that can be read on `CHANGE` at `value` of +-`limit`."""
    return "white" if abs(value) > 0.6 * limit else INK


def png_bytes(figure: Figure) -> bytes:
    """The figure as a PNG; the same figure gives the same bytes."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=DPI, metadata={"Software": None})
    return buffer.getvalue()
