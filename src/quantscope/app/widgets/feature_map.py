"""Draw one channel of a layer's output as pixels; clicks or arrow keys choose a place in it."""

from typing import Any

import anywidget
import traitlets

from quantscope.app.widgets.base import source, style


class FeatureMap(anywidget.AnyWidget):
    """The pixels. `values` are rows of integers; `low` and `high` the range that they can have.

    `place` is `[channel, y, x]`; another channel is a new `place`, answered with new `values`.
    """

    _esm = source("feature_map")
    _css = style("feature_map")

    values: traitlets.List[Any] = traitlets.List().tag(sync=True)
    low = traitlets.Int(0).tag(sync=True)
    high = traitlets.Int(255).tag(sync=True)
    channels = traitlets.Int(1).tag(sync=True)
    place: traitlets.List[int] = traitlets.List([0, 0, 0]).tag(sync=True)
    title = traitlets.Unicode("").tag(sync=True)
