"""Serve the whole page: explanations on hover, the theme, links into the help."""

import traitlets

from quantscope.app.widgets.base import Selecting, source


class Chrome(Selecting):
    """The widget without a place of its own. Any element with `data-word` gets its explanation.

    `theme` is "light" or "dark", and empty until the browser has told it. A click on an element
    with `data-select`, a selection as JSON, selects it.

    `topic` is the page of the help that was asked for, by "more" or by a link to a .md file, as
    `{page, n}`: `n` tells two clicks apart.

    `address` is what the browser's address says of the page, by key; what is empty is left out.
    """

    _esm = source("chrome")

    words = traitlets.Dict().tag(sync=True)
    theme = traitlets.Unicode("").tag(sync=True)
    topic = traitlets.Dict().tag(sync=True)
    address = traitlets.Dict().tag(sync=True)
