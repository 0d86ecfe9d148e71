"""Offer every choice of a quantization as a form; what is wrong is said below it."""

from typing import Any

import anywidget
import traitlets

from quantscope.app.widgets.base import source, style


class PtqForm(anywidget.AnyWidget):
    """The form. It asks with `{"do": "try" | "sizes" | "methods", "values": ...}`.

    `fields` are `{key, label, word, kind, options, value, framework}`; `kind` is "choice",
    "number", "check" or "text", and a field with a `framework` is shown for that one only.
    """

    _esm = source("ptq_form")
    _css = style("ptq_form")

    fields: traitlets.List[Any] = traitlets.List().tag(sync=True)
    error = traitlets.Unicode("").tag(sync=True)
    busy = traitlets.Bool(False).tag(sync=True)
