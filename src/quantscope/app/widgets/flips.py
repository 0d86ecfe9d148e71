"""Show the images that an edit put into another class, as pictures."""

from typing import Any

import anywidget
import traitlets

from quantscope.app.widgets.base import source, style


class Flips(anywidget.AnyWidget):
    """Groups of pictures: `{key, title, count, images}`.

    An image is `{index, src, label, before, after}`; a group may hold fewer images than its count.
    """

    _esm = source("flips")
    _css = style("flips")

    groups: traitlets.List[Any] = traitlets.List().tag(sync=True)
    busy = traitlets.Bool(False).tag(sync=True)
