"""The images that an edit put into another class, as pictures."""

from typing import Any

import anywidget
import traitlets

from quantscope.app.widgets.base import source, style


class Flips(anywidget.AnyWidget):
    """`groups` are `{key, title, count, images}`, an image `{index, src, label, before, after}`.

    A group may hold fewer images than its count.
    """

    _esm = source("flips")
    _css = style("flips")

    groups: traitlets.List[Any] = traitlets.List().tag(sync=True)
    busy = traitlets.Bool(False).tag(sync=True)
