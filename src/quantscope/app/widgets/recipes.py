"""Offer recipes: a note for the one that is saved, guided ones to load, and files."""

from typing import Any

import anywidget
import traitlets

from quantscope.app.widgets.base import source, style


class Recipes(anywidget.AnyWidget):
    """The recipes to load. `guided` are `{key, title, note, model}`.

    It asks with the messages `{"do": "guided", "key"}`, `{"do": "file", "name", "text"}`, `{"do":
    "fitting"}` (what can be applied of the refused one) and `{"do": "open"}` (its own model).
    `refused` is `{text, model}` for the recipe that was asked for last; `said` are lines about the
    one that was loaded.
    """

    _esm = source("recipes")
    _css = style("recipes")

    guided: traitlets.List[Any] = traitlets.List().tag(sync=True)
    note = traitlets.Unicode("").tag(sync=True)
    refused = traitlets.Dict().tag(sync=True)
    said: traitlets.List[Any] = traitlets.List().tag(sync=True)
    loaded = traitlets.Unicode("").tag(sync=True)
    """The key of the guided recipe whose edits are in force."""
