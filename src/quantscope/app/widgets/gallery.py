"""Show pictures as cards. On those that show layers, a click selects the layer."""

from typing import Any

import traitlets

from quantscope.app.widgets.base import Selecting, source, style


class Gallery(Selecting):
    """The cards: `{id, title, src, caption, width, height, wide, regions, error}`.

    Without `src` a card says that it is being drawn, in the place that it will take. A region is
    `{gid, x0, x1, y0, y1}`; `places` says what each `gid` selects. They are shown under `tab` only.
    """

    _esm = source("gallery")
    _css = style("gallery")

    cards: traitlets.List[Any] = traitlets.List().tag(sync=True)
    tab = traitlets.Unicode("").tag(sync=True)
    places = traitlets.Dict().tag(sync=True)
