"""Show where a tensor's values lie, and the range that its integers stand for, to be dragged."""

import anywidget
import traitlets

from quantscope.app.widgets.base import source, style


class HistRange(anywidget.AnyWidget):
    """A histogram with two handles. `data` comes from Python, `edit` from the browser.

    While a handle is dragged, data waits. Data is `{tensor, edges, counts, drawn, values, lo, hi,
    base_lo, base_hi, movable, symmetric, message}`: `counts` are of what may be clipped and are
    filled, `drawn` is an outline over them. `edit` is `{tensor, lo, hi, n}`. Without edges, the
    message says why.
    """

    _esm = source("hist_range")
    _css = style("hist_range")

    data = traitlets.Dict().tag(sync=True)
    edit = traitlets.Dict().tag(sync=True)
