"""Offer one of a few: a row of buttons."""

from typing import Any

import anywidget
import traitlets

from quantscope.app.widgets.base import source, style


class Choice(anywidget.AnyWidget):
    """A row of buttons. `options` are `{key, label, word}`; `value` is the chosen key."""

    _esm = source("choice")
    _css = style("choice")

    label = traitlets.Unicode("").tag(sync=True)
    options: traitlets.List[Any] = traitlets.List().tag(sync=True)
    value = traitlets.Unicode("").tag(sync=True)
