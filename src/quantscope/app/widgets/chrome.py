"""What belongs to the whole page: explanations on hover, the theme, links into the help."""

import anywidget
import traitlets

from quantscope.app.widgets.base import source


class Chrome(anywidget.AnyWidget):
    """Any element with `data-word` gets its explanation; `theme` is "light" or "dark".

    `topic` is the word whose page was asked for, as `{word, n}`: `n` tells two clicks apart.
    """

    _esm = source("chrome")

    words = traitlets.Dict().tag(sync=True)
    theme = traitlets.Unicode("").tag(sync=True)
    topic = traitlets.Dict().tag(sync=True)
