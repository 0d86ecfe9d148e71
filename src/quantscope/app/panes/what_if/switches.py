"""Make what the widgets show of what is switched off, and of the edits in force."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from quantscope.app import edits as book
from quantscope.app.edits import Edits, channel_scales
from quantscope.app.panes.what_if.specs import Situation
from quantscope.app.place import select_layer, select_tensor
from quantscope.app.session import Session
from quantscope.arithmetic import QuantParams
from quantscope.edit import ROLES, Applied, Edit, SetScale, describe, parts_of
from quantscope.errors import BadConfigError
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


def edits_after(
    step: Mapping[str, Any], edits: Edits, tensor: QuantTensor, now: QuantParams
) -> Edits:
    """`step` is one of `QParam.edit`, `now` what the edits have made of the tensor's parameters."""
    match step["what"]:
        case "scale":
            return book.set_scale(edits, tensor, now, _number(step["value"]))
        case "zero_point":
            return book.set_zero_point(edits, tensor, now, _whole(step["value"]))
        case "range":
            return book.set_range(edits, tensor, _number(step["lo"]), _number(step["hi"]))
        case "factor":
            return book.set_factor(edits, tensor, _number(step["value"]))
        case "channel":
            return book.set_channel(
                edits, tensor, now, int(step["channel"]), _number(step["value"])
            )
        case _:
            return book.reset(edits, tensor)


def _number(given: Any) -> float:
    """Read what a slider or a field sent; a field sends what was typed."""
    try:
        return float(given)
    except (TypeError, ValueError):
        raise BadConfigError(f"{given!r} is not a number; type one such as 0.05") from None


def _whole(given: Any) -> int:
    value = _number(given)
    if not value.is_integer():
        raise BadConfigError(f"A zero-point is a whole number, not {given}")
    return int(value)
