"""List configurations that were tried, as rows to sort; each can become the page's model."""

from typing import Any

import anywidget
import traitlets

from quantscope.app.widgets.base import source, style


class TrialTable(anywidget.AnyWidget):
    """The rows: `{key, cells, sort, note, opened}`. It asks with `{"do": "open", "key": ...}`.

    `columns` are `{label, word, right}`. A row without a `key` could not be had and cannot be
    opened.
    """

    _esm = source("trials")
    _css = style("trials")

    columns: traitlets.List[Any] = traitlets.List().tag(sync=True)
    rows: traitlets.List[Any] = traitlets.List().tag(sync=True)
