"""List the edits in force, under the header: each can be taken back."""

from typing import Any

import anywidget
import traitlets

from quantscope.app.widgets.base import source, style


class EditStrip(anywidget.AnyWidget):
    """The list of edits. `items` are `{text, warning, select}`; a click on the text selects that.

    It asks with `{"do": "remove", "place": ..., "text": ...}`, `"clear"` and `"undo"`.

    `numbers` is what the edits do, as `{label, value, delta, note}`; empty while it is not known.
    """

    _esm = source("edit_strip")
    _css = style("edit_strip")

    items: traitlets.List[Any] = traitlets.List().tag(sync=True)
    numbers = traitlets.Dict().tag(sync=True)
    can_undo = traitlets.Bool(False).tag(sync=True)
