"""Show the bar of tabs. Panes are cells of the notebook; the bar only says which one is wanted."""

from typing import Any

import anywidget
import traitlets

from quantscope.app.widgets.base import source, style


class Tabs(anywidget.AnyWidget):
    """The bar. `tab` is the name that was clicked last."""

    _esm = source("tabs")
    _css = style("tabs")

    names: traitlets.List[Any] = traitlets.List().tag(sync=True)
    tab = traitlets.Unicode("").tag(sync=True)
