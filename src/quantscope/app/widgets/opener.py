"""Choose what is shown: a bundled model, or files. What is wrong with it is said right there."""

from typing import Any

import anywidget
import traitlets

from quantscope.app.widgets.base import source, style


class Opener(anywidget.AnyWidget):
    """The form. It asks with `{"do": "open", "model": ..., "float_model": ..., "data": ...}`."""

    _esm = source("opener")
    _css = style("opener")

    bundled: traitlets.List[Any] = traitlets.List().tag(sync=True)
    model_path = traitlets.Unicode("").tag(sync=True)
    error = traitlets.Unicode("").tag(sync=True)
    busy = traitlets.Bool(False).tag(sync=True)
    opened = traitlets.Int(0).tag(sync=True)
    """The number of models that were opened: the form closes when it grows."""
