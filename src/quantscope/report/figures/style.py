"""Decide how every figure looks: one palette that colour-blind people can read, one type scale."""

import io
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import matplotlib as mpl
from matplotlib import font_manager
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import Colormap, LinearSegmentedColormap, to_rgb
from matplotlib.figure import Figure
from matplotlib.legend import Legend

from quantscope.plain_text import elide, printable

if TYPE_CHECKING:
    from matplotlib.text import Text

ThemeName = Literal["light", "dark"]

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
LIGHT_INK = "#e6e8eb"

# The same quantity has the same colour in every figure. These have a contrast of 3 or more on
# white and on the dark page, so both themes share them.
FLOAT = "#7a8594"
QUANTIZED = BLUE
EDITED = GREEN
ERROR = VERMILLION
WEIGHTS = PURPLE
GAIN, LOSS = BLUE, VERMILLION
_SOURCES = {"inherited": "#a9b2bd", "weights": WEIGHTS, "rounding": SKY, "clipping": ORANGE}
SOURCE_NAMES = {
    "inherited": "inherited",
    "weights": "weights and bias",
    "rounding": "rounding",
    "clipping": "clipping",
    "kernel": "kernel",
}
"""The sources of an error, in the order in which they arise."""

CHANGE = LinearSegmentedColormap.from_list("change", [VERMILLION, "#ffffff", BLUE])
"""The colours from loss to gain; white is no change."""


@dataclass(frozen=True)
class Theme:
    """The colours that depend on the page behind.

    `paper` is the page's colour, for what covers ink; `background` fills a figure, "none" where the
    page shines through.
    """

    ink: str
    faint: str
    grid: str
    paper: str
    background: str
    sources: Mapping[str, str]
    change: Colormap
    """The colours from loss through none to gain."""
    amount: Colormap
    """The colours from nothing to much."""


LIGHT = Theme(
    ink=INK,
    faint=FAINT,
    grid=GRID,
    paper="#ffffff",
    background="#ffffff",
    sources={**_SOURCES, "kernel": INK},
    change=CHANGE,
    amount=LinearSegmentedColormap.from_list("amount", ["#ffffff", "#9cc8e6", BLUE, "#003a5c"]),
)
DARK = Theme(
    ink=LIGHT_INK,
    faint="#9aa3ad",
    grid="#30363d",
    paper="#15181c",
    background="none",
    sources={**_SOURCES, "inherited": "#58616d", "kernel": LIGHT_INK},
    change=LinearSegmentedColormap.from_list("change_dark", [VERMILLION, "#22262c", BLUE]),
    amount=LinearSegmentedColormap.from_list(
        "amount_dark", ["#1d2126", "#0b4f78", BLUE, "#1c7fbe"]
    ),
)
_THEMES: dict[ThemeName, Theme] = {"light": LIGHT, "dark": DARK}

WIDTH_INCHES = 9.0
SMALL, NORMAL, TITLE = 8.0, 9.0, 11.0
DPI = 144
_NOTE_CHARACTERS_AN_INCH = 17


class ThemedFigure(Figure):
    """A figure that knows its theme, so that nothing drawn on it has to be told."""

    theme: Theme = LIGHT


def theme_of(artist: Artist) -> Theme:
    """Find the theme of an artist's figure; the light one for figures that were not made here."""
    figure = artist if isinstance(artist, Figure) else artist.get_figure()
    found = getattr(figure, "theme", LIGHT)
    assert isinstance(found, Theme)
    return found


def new_figure(
    height: float, *, width: float = WIDTH_INCHES, theme: ThemeName = "light"
) -> ThemedFigure:
    """Make a figure that no global state knows of; sizes are in inches."""
    chosen = _THEMES[theme]
    figure = ThemedFigure(
        figsize=(width, height), layout="constrained", facecolor=chosen.background
    )
    figure.theme = chosen
    # It attaches itself to the figure, which can then be drawn without pyplot.
    FigureCanvasAgg(figure)
    engine = figure.get_layout_engine()
    assert engine is not None
    engine.set(h_pad=0.12, w_pad=0.08)  # type: ignore[call-arg]
    return figure


def dress(axes: Axes, *, title: str, x: str = "", y: str = "", grid: str | None = None) -> Axes:
    """Give axes a title, a thin frame, and a grid along the axis that is read.

    That is "x", "y" or "both"; None is no grid.
    """
    theme = theme_of(axes)
    axes.set_facecolor(theme.background)
    axes.set_title(title, loc="left", fontsize=TITLE, fontweight="bold", color=theme.ink, pad=10)
    axes.set_xlabel(x, fontsize=NORMAL, color=theme.ink)
    axes.set_ylabel(y, fontsize=NORMAL, color=theme.ink)
    axes.tick_params(which="both", labelsize=SMALL, colors=theme.ink, length=3, width=0.6)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(theme.faint)
        spine.set_linewidth(0.6)
    if grid is not None:
        axes.grid(axis=grid, color=theme.grid, linewidth=0.8)  # type: ignore[arg-type]
        axes.set_axisbelow(True)
    return axes


def legend(axes: Axes, *, columns: int, **options: Any) -> Legend:
    """Place a legend above the axes at the right, on the title's line, without a frame."""
    settings: dict[str, Any] = {
        "loc": "lower right",
        "bbox_to_anchor": (1.0, 1.0),
        "borderaxespad": 0.5,
        "borderpad": 0.1,
        "ncols": columns,
        "columnspacing": 1.4,
        "handlelength": 1.3,
        "handletextpad": 0.5,
        "fontsize": SMALL,
        "frameon": False,
        "labelcolor": theme_of(axes).ink,
        **options,
    }
    return axes.legend(**settings)


def note(figure: Figure, text: str) -> "Text":
    """Write below everything what the reader must know to read the figure right."""
    folded = textwrap.fill(text, round(figure.get_figwidth() * _NOTE_CHARACTERS_AN_INCH))
    faint = theme_of(figure).faint
    return figure.supxlabel(folded, x=0.01, ha="left", fontsize=SMALL, color=faint)


def nothing_to_show(title: str, why: str, *, theme: ThemeName = "light") -> Figure:
    """Make a figure that says why it is empty."""
    figure = new_figure(1.2, theme=theme)
    axes = dress(figure.add_subplot(), title=title)
    axes.set_axis_off()
    axes.text(0, 0.8, textwrap.fill(why, 130), fontsize=NORMAL, color=figure.theme.faint, va="top")
    return figure


def plain(name: str, most: int = 28) -> str:
    """Make a name text of a figure: no mathematics, nothing that the font cannot draw."""
    shown = "".join(
        c if ord(c) in _drawable() else c.encode("unicode_escape").decode() for c in printable(name)
    )
    # Between two dollar signs matplotlib would read mathematics.
    return elide(shown, most).replace("$", r"\$")


@cache
def _drawable() -> frozenset[int]:
    """Read the code points that the figures' font has."""
    return frozenset(font_manager.get_font(font_manager.findfont("DejaVu Sans")).get_charmap())


def ink_on(value: float, limit: float, theme: Theme = LIGHT) -> str:
    """Choose ink that can be read on `change` at `value` of +-`limit`."""
    return ink_over(theme.change(0.5 + 0.5 * value / limit))


def ink_over(colour: Any) -> str:
    """Choose dark or white, whichever has the higher contrast on the colour (WCAG's formula)."""
    parts = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour))
    luminance = sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), parts, strict=True))
    # At 0.208 our ink and white have the same contrast.
    return INK if luminance > 0.208 else "#ffffff"


def png_bytes(figure: Figure) -> bytes:
    """Write the figure as a PNG; the same figure gives the same bytes."""
    buffer = io.BytesIO()
    # matplotlib would write its own version into the file.
    figure.savefig(buffer, format="png", dpi=DPI, metadata={"Software": None})
    return buffer.getvalue()


def svg_bytes(figure: Figure) -> bytes:
    """Write the figure as an SVG that needs no font; the same figure gives the same bytes."""
    buffer = io.BytesIO()
    # Without a salt the ids are random, and the date is the present one.
    with mpl.rc_context({"svg.fonttype": "path", "svg.hashsalt": "quantscope"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return buffer.getvalue()
