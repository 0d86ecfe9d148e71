"""Show the whole network at a glance: what its layers share, and which one stands out."""

from collections.abc import Iterator

import marimo as mo

from quantscope.app.editing import EditedFile
from quantscope.app.painter import Wanted
from quantscope.app.panes.parts import line, offer, safe, say_which_model, with_minus
from quantscope.app.pictures import WHOLE
from quantscope.app.place import select_layer, select_tensor
from quantscope.app.session import Session
from quantscope.plain_text import many
from quantscope.report import pair_sentences
from quantscope.report.figures import (
    ThemeName,
    error_sources,
    pair_matrix,
    scales_along,
    sensitivity_ranking,
    sqnr_along,
    weight_ranges,
)


def show(tensors: mo.ui.anywidget, pairs: mo.ui.anywidget, edited: EditedFile | None) -> mo.Html:
    """Show `tensors`, the page's table of all tensors, and `pairs`, which holds `pairs_html`."""
    said = say_which_model(edited, "All of this is the model as it was opened, without {edits}.")
    return mo.Html(f'<div class="qs-layer">{said}{tensors}{pairs}</div>')


def pairs_html(session: Session) -> str:
    """Say which layers do not cost what they cost alone; until that is known, offer to measure."""
    found = session.interactions
    if found is not None:
        on = f"{many(found.images, found.sample_word)}, {found.execution} execution"
        told = (with_minus(safe(text.strip())) for text in pair_sentences(found))
        lines = "".join(f'<p class="qs-line">{text}</p>' for text in told)
        return (
            '<div class="qs-layer"><section class="qs-card" data-testid="pairs">'
            f"<h2>Pairs of layers</h2>{lines}"
            f'<p class="qs-line qs-faint">Every two layers quantized alone in the float network, '
            f"on {on}, against the sum of what each costs alone. The matrix is below; what is bold "
            f"in it is named here.</p></section></div>"
        )
    if not session.has_pairs or len(session.opened.network.layers) < 2:
        return ""
    ask = offer("measure what every two layers cost together", "pairs")
    why = session.failures.get("interactions", "")
    said = line(why, kind="qs-bad") if why else ""
    return f'{said}<p class="qs-line qs-next" data-testid="pairs-ask">{ask}</p>'


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
    pairs = session.interactions
    if pairs is not None:
        yield Wanted(
            ("pairs", pairs.images, theme),
            "What two layers cost together beyond alone",
            lambda: pair_matrix(pairs, theme=theme),
            width=WHOLE,
        )
