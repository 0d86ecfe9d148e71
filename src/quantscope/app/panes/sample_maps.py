"""Draw the selected layer's feature maps for the picked image: float, quantized, difference."""

import numpy as np
from matplotlib.figure import Figure

from quantscope.app.accuracies import Accuracies
from quantscope.app.editing import EditedFile
from quantscope.app.painter import Wanted
from quantscope.app.pictures import WHOLE
from quantscope.app.place import Selection
from quantscope.app.session import Session
from quantscope.report.figures import ThemeName, feature_maps
from quantscope.run import capture


def why_no_maps(session: Session, selection: Selection, edited: EditedFile | None = None) -> str:
    """Say why float and quantized maps cannot stand side by side; empty where they can."""
    opened = session.opened
    if opened.is_float:
        return (
            f"{opened.path.name} is a float model; feature maps of float and quantized layers are "
            f"shown for a quantized one."
        )
    if opened.pairing is None:
        return "Feature maps are shown beside those of the float model, which is not known here."
    tensor = _activation(session, selection)
    if tensor is None:
        return f"The output of {selection.layer} is not quantized, so it has no maps to compare."
    if tensor not in opened.pairing.by_name:
        reasons = {each.name: each.reason for each in opened.pairing.unpaired}
        why = f": {reasons[tensor]}" if tensor in reasons else ""
        return f"The float model has nothing that {tensor} stands for, so there are no maps{why}."
    if edited and any(c.tensor == tensor and c.after is None for c in edited.changes):
        return f"{tensor} is switched off, so it has no quantized maps to compare."
    return ""


def wanted(
    session: Session,
    picked: tuple[Accuracies, int] | None,
    selection: Selection,
    edited: EditedFile | None = None,
    *,
    theme: ThemeName,
) -> list[Wanted]:
    """Ask for the feature maps, with the edits in force if there are any."""
    if picked is None or why_no_maps(session, selection, edited):
        return []
    opened, tensor = session.opened, _activation(session, selection)
    assert opened.pairing is not None and tensor is not None
    pair = opened.pairing.by_name[tensor]
    found, row = picked
    images, index = found.images.select(np.array([row])), int(found.images.indices[row])

    def draw() -> Figure:
        assert opened.original is not None
        quantized = capture(edited.model if edited else opened.model, images, [tensor])[tensor]
        floats = next(iter(capture(opened.original, images, [pair.float_name]).tensors.values()))
        return feature_maps(floats, quantized, theme=theme)

    key = ("feature maps", tensor, index, found.images.digest, edited and edited.of, theme)
    title = f"{tensor} of {session.noun} {index:,}" + (", edited" if edited else "")
    return [Wanted(key, title, draw, width=WHOLE, height=3.2)]


def _activation(session: Session, selection: Selection) -> str | None:
    """Name the activation that a selection stands for; None where it is not quantized."""
    network = session.opened.network
    layer = next((x for x in network.layers if x.name == selection.layer), None)
    if layer is None:
        return selection.tensor
    return next((o.quant.name for o in layer.outputs if o.quant), None)
