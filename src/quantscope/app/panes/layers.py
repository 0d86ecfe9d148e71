"""Show the whole network at a glance: what its layers share, and which one stands out."""

from collections.abc import Iterator

import marimo as mo

from quantscope.app.editing import EditedFile
from quantscope.app.painter import Wanted
from quantscope.app.panes.parts import say_which_model
from quantscope.app.pictures import WHOLE
from quantscope.app.place import select_layer, select_tensor
from quantscope.app.session import Session
from quantscope.report.figures import (
    ThemeName,
    error_sources,
    scales_along,
    sensitivity_ranking,
    sqnr_along,
    weight_ranges,
)


def show(tensors: mo.ui.anywidget, edited: EditedFile | None) -> mo.Html:
    """Show `tensors`, the page's table of all tensors."""
    said = say_which_model(edited, "All of this is the model as it was opened, without {edits}.")
    return mo.Html(f'<div class="qs-layer">{said}{tensors}</div>')


def wanted(session: Session, *, theme: ThemeName) -> list[Wanted]:
    return list(_wanted(session, theme))


def places(session: Session) -> dict[str, dict[str, str]]:
    """Say what a click on each layer's bar selects."""
    network = session.opened.network
    inputs = {o.quant.name: select_tensor(o.quant).to_dict() for o in network.inputs if o.quant}
    return inputs | {layer.name: select_layer(layer).to_dict() for layer in network.layers}


def _wanted(session: Session, theme: ThemeName) -> Iterator[Wanted]:
    network, pairing = session.opened.network, session.opened.pairing
    comparison = session.comparison
    if comparison is not None:
        yield Wanted(
            ("sqnr along", comparison.images, comparison.execution, theme),
            "Signal to quantization noise along the network",
            lambda: sqnr_along(comparison, theme=theme),
            width=WHOLE,
            height=3.2,
        )
        yield Wanted(
            ("sources along", comparison.images, comparison.execution, theme),
            "Where the error comes from",
            lambda: error_sources(comparison, theme=theme),
            width=WHOLE,
            height=3.2,
        )
    if network.is_quantized:
        yield Wanted(
            ("weight ranges", theme),
            "Weights of all layers, float and quantized",
            lambda: weight_ranges(network, pairing, theme=theme),
            width=WHOLE,
            height=3.2,
        )
        yield Wanted(
            ("scales along", theme),
            "Scales along the network",
            lambda: scales_along(network, theme=theme),
            width=WHOLE,
            height=3.2,
        )
    found = session.sensitivity
    if found is not None:
        yield Wanted(
            ("sensitivity", found.images, theme),
            "Sensitivity of the layers",
            lambda: sensitivity_ranking(found, theme=theme),
            width=WHOLE,
            height=4.4,
        )
