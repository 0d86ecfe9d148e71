"""Draw results as matplotlib figures: pure functions, on the page's light or dark theme.

How it is put together
- A module draws one kind of result: `sqnr.py`, `sources.py` and `scales.py` along the layers of a
  network (on the axis of `layer_axis.py`), `channels.py`, `weights.py`, `histograms.py` and
  `feature_maps.py` inside of a tensor, `residuals.py` where branches meet, `classes.py` and
  `ranking.py` what became of the answers.
- `style.py` is how all of them look: palette, themes, type, notes, and a figure as PNG or SVG.
- This door loads matplotlib, which is slow, so `quantscope.report` does not lead here. Who needs a
  figure imports it from here, where it is needed.

How a figure is added
1. A function `NAME(result, *, theme="light") -> Figure` that begins with `new_figure(...)`, dresses
   its axes with `dress` and says with `note` what a reader must know. It computes nothing that the
   result does not have, and says with `nothing_to_show` why there is nothing to draw.
2. Its name here. `tests/report/figures/test_style.py` draws it in both themes.
"""

from quantscope.report.figures.bit_curves import bit_curves_figure
from quantscope.report.figures.bit_frontier import bit_frontier
from quantscope.report.figures.bit_map import bit_heatmap
from quantscope.report.figures.calibration import calibration_ranges
from quantscope.report.figures.channels import channel_error
from quantscope.report.figures.classes import confusion, confusion_difference, per_class_change
from quantscope.report.figures.feature_maps import feature_maps
from quantscope.report.figures.histograms import (
    activation_histogram,
    value_histogram,
    weight_histograms,
)
from quantscope.report.figures.interactions import pair_matrix, shapley_shares
from quantscope.report.figures.ranking import sensitivity_ranking
from quantscope.report.figures.residuals import residual_branches
from quantscope.report.figures.scales import scales_along, weight_ranges
from quantscope.report.figures.sources import error_sources
from quantscope.report.figures.sqnr import sqnr_along
from quantscope.report.figures.style import (
    BLUE,
    CHANGE,
    DARK,
    FAINT,
    GREEN,
    INK,
    LIGHT,
    LINES,
    MARKERS,
    ORANGE,
    PURPLE,
    SERIES,
    SMALL,
    SOURCE_NAMES,
    VERMILLION,
    ThemeName,
    dress,
    ink_on,
    new_figure,
    note,
    png_bytes,
    svg_bytes,
    theme_of,
)
from quantscope.report.figures.weights import weights_heatmap

__all__ = [
    "BLUE",
    "CHANGE",
    "DARK",
    "FAINT",
    "GREEN",
    "INK",
    "LIGHT",
    "LINES",
    "MARKERS",
    "ORANGE",
    "PURPLE",
    "SERIES",
    "SMALL",
    "SOURCE_NAMES",
    "VERMILLION",
    "ThemeName",
    "activation_histogram",
    "bit_curves_figure",
    "bit_frontier",
    "bit_heatmap",
    "calibration_ranges",
    "channel_error",
    "confusion",
    "confusion_difference",
    "dress",
    "error_sources",
    "feature_maps",
    "ink_on",
    "new_figure",
    "note",
    "pair_matrix",
    "per_class_change",
    "png_bytes",
    "residual_branches",
    "scales_along",
    "sensitivity_ranking",
    "shapley_shares",
    "sqnr_along",
    "svg_bytes",
    "theme_of",
    "value_histogram",
    "weight_histograms",
    "weight_ranges",
    "weights_heatmap",
]
