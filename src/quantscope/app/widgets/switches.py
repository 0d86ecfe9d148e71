"""Switch quantization off and on: of a tensor, its layer, chosen layers, or all of a role."""

from typing import Any

import anywidget
import traitlets

from quantscope.app.widgets.base import source, style


class Switches(anywidget.AnyWidget):
    """The switches: `main` and `layers` are `{key, kind, label, hint, state}`.

    `state` is "on", "off" or "some". It asks with the message `{"do": "switch", "kind": ..., "key":
    ..., "on": ...}`; `kind` is "tensor", "layer" or "role". `error` is the line for what was
    refused.
    """

    _esm = source("switches")
    _css = style("switches")

    main: traitlets.List[Any] = traitlets.List().tag(sync=True)
    layers: traitlets.List[Any] = traitlets.List().tag(sync=True)
    error = traitlets.Unicode("").tag(sync=True)
