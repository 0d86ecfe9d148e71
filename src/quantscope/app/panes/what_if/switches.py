"""Make what the widgets show of what is switched off, and of the edits in force."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from quantscope.app.editing import channel_scales
from quantscope.app.panes.what_if.specs import Situation
from quantscope.app.place import select_layer, select_tensor
from quantscope.app.session import Session
from quantscope.edit import ROLES, Applied, Edit, SetScale, describe, parts_of
from quantscope.model import QuantTensor


def switch_items(at: Situation) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    """Give the rows of `Switches.main` and `Switches.layers`."""
    network, off = at.editor.network, at.off
    main = []
    if at.tensor is not None:
        state = _state([at.tensor], off)
        main.append(_item("tensor", at.tensor.name, at.tensor.name, "this tensor alone", state))
    if at.layer is not None and (parts := parts_of(network, at.layer)):
        names = ", ".join(part.name for part in parts)
        label = f"layer {at.layer.name}"
        main.append(_item("layer", at.layer.name, label, names, _state(parts, off)))
    for role, kinds in ROLES.items():
        parts = tuple(t for t in network.tensors if t.role in kinds)
        if parts:
            hint = f"{len(parts)} tensors"
            main.append(_item("role", role, f"all {role}", hint, _state(parts, off)))
    layers = [
        _item("layer", layer.name, layer.name, "", _state(parts, off))
        for layer in network.layers
        if (parts := parts_of(network, layer))
    ]
    return main, layers


def parts_for(at: Situation, kind: str, key: str) -> tuple[str, ...]:
    """The tensors that a switch is for."""
    network = at.editor.network
    if kind == "role":
        return tuple(t.name for t in network.tensors if t.role in ROLES[key])
    if kind == "layer":
        layer = next((x for x in network.layers if x.name == key), None)
        return tuple(part.name for part in parts_of(network, layer)) if layer else ()
    return (key,)


def edit_items(session: Session, applied: Applied) -> list[dict[str, Any]]:
    """Give the rows of `EditStrip.items`."""
    warnings = {warning.tensor: warning.text for warning in applied.warnings}
    tensors = {t.name: t for t in session.opened.network.tensors}
    layers = {x.name: x for x in session.opened.network.layers}
    items = []
    for edit in applied.edits:
        name = str(getattr(edit, "tensor", None) or getattr(edit, "target", ""))
        place = None
        if name in tensors:
            place = select_tensor(tensors[name]).to_dict()
        elif name in layers:
            place = select_layer(layers[name]).to_dict()
        text = edit_text(edit, tensors.get(name))
        items.append({"text": text, "warning": warnings.get(name, ""), "select": place})
    return items


def edit_text(edit: Edit, tensor: QuantTensor | None) -> str:
    """Describe an edit; scales of channels are told by those that differ from the model's."""
    if not (isinstance(edit, SetScale) and isinstance(edit.scale, tuple) and tensor is not None):
        return describe(edit)
    given = np.asarray(channel_scales((edit,), tensor), np.float32)
    moved = np.flatnonzero(given != tensor.params.scale.ravel())
    if len(moved) == 1:
        return f"scale of channel {moved[0]} of {tensor.name} = {given[moved[0]]:.4g}"
    return f"scales of {len(moved)} channels of {tensor.name}"


def _item(kind: str, key: str, label: str, hint: str, state: str) -> dict[str, str]:
    return {"kind": kind, "key": key, "label": label, "hint": hint, "state": state}


def _state(parts: Sequence[QuantTensor], off: frozenset[str]) -> str:
    gone = [part.name in off for part in parts]
    return "off" if all(gone) else "some" if any(gone) else "on"
