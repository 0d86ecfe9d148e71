"""Show images to pick from: filters, a page of small pictures, and the one that is picked."""

from typing import Any

import anywidget
import traitlets

from quantscope.app.widgets.base import source, style


class Thumbnails(anywidget.AnyWidget):
    """The pictures: `items` are `{index, src, label, float, quantized}`, those of the page.

    `filters` are `{key, label, count}`. `filter`, `page` and `chosen` (an index in the full set)
    are set on both sides.
    """

    _esm = source("thumbnails")
    _css = style("thumbnails")

    filters: traitlets.List[Any] = traitlets.List().tag(sync=True)
    filter = traitlets.Unicode("all").tag(sync=True)
    items: traitlets.List[Any] = traitlets.List().tag(sync=True)
    page = traitlets.Int(0).tag(sync=True)
    pages = traitlets.Int(1).tag(sync=True)
    chosen = traitlets.Int(-1).tag(sync=True)
