"""Share what all widgets need: their sources, and one selection that several of them keep."""

from importlib.resources import files
from typing import Any

import anywidget
import traitlets


def source(name: str) -> str:
    """Read the JS of a widget, behind the part that all of them use."""
    folder = files("quantscope.app.widgets")
    return "\n".join(
        (folder / f"{part}.js").read_text(encoding="utf-8") for part in ("common", name)
    )


def style(name: str) -> str:
    return (files("quantscope.app.widgets") / f"{name}.css").read_text(encoding="utf-8")


class Selecting(anywidget.AnyWidget):
    """A widget that shows and sets the page's selection: `{layer, tensor}`, names or empty.

    Its own mark moves at once in the browser; Python hears of it through the trait.
    """

    selection = traitlets.Dict().tag(sync=True)

    def __init__(self, **traits: Any) -> None:
        super().__init__(**traits)
