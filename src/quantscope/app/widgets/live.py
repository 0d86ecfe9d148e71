"""Show a piece of HTML that is written from any thread, without running a cell."""

import anywidget
import traitlets

from quantscope.app.widgets.base import source


class Live(anywidget.AnyWidget):
    """A piece of HTML. It is trusted: what comes from a model or a person was escaped before."""

    _esm = source("live")

    html = traitlets.Unicode("").tag(sync=True)
    busy = traitlets.Bool(False).tag(sync=True)
    """Whether something newer is on its way."""
