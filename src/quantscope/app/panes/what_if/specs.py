"""Make what the What-if widgets show of a model with edits: plain values, no marimo."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from quantscope.app.editing import Edits, factor_of
from quantscope.app.place import Selection
from quantscope.app.session import Session
from quantscope.arithmetic import BIT_WIDTHS, QuantParams
from quantscope.edit import (
    Applied,
    Change,
    Edit,
    Editor,
    Off,
    OffRole,
    On,
    OnRole,
    Preview,
    SetBits,
    SetScale,
    parts_of,
    stays_symmetric,
)
from quantscope.errors import QuantscopeError
from quantscope.model import Layer, QuantTensor
from quantscope.run.histograms import Histogram

_BINS = 160
_NAMED = 4


@dataclass(frozen=True)
class Situation:
    """A model with edits in force, and the tensor that the controls are for."""

    session: Session
    editor: Editor
    applied: Applied
    selection: Selection

    @property
    def edits(self) -> Edits:
        return self.applied.edits

    @cached_property
    def tensor(self) -> QuantTensor | None:
        return self.named(self.selection.tensor)

    @property
    def layer(self) -> Layer | None:
        layers = self.editor.network.layers
        return next((x for x in layers if x.name == self.selection.layer), None)

    @cached_property
    def off(self) -> frozenset[str]:
        return off_in(self.applied.changes)

    @cached_property
    def locked(self) -> str:
        """Why the tensor's parameters cannot be changed; empty if they can."""
        if self.tensor is None or self.tensor.name in self.off:
            return "It is not quantized now; switch it on to change its parameters."
        try:
            self.editor.preview((SetScale(self.tensor.name, factor=1.0),))
        except QuantscopeError as error:
            return f"{error}."
        return ""

    @cached_property
    def _switched_on(self) -> Preview:
        """The edits in force, applied but for the switches."""
        kept = (e for e in self.edits if not isinstance(e, Off | OffRole | On | OnRole))
        return self.editor.preview(tuple(kept))

    def named(self, name: str | None) -> QuantTensor | None:
        return next((t for t in self.editor.network.tensors if t.name == name), None)

    def params(self, tensor: QuantTensor) -> QuantParams:
        """Give its parameters as the edits made them, whether it is switched off or not."""
        found = self._switched_on if tensor.name in self.off else self.applied
        params = {change.tensor: change.after for change in found.changes}
        return params.get(tensor.name) or tensor.params


def off_in(changes: Iterable[Change]) -> frozenset[str]:
    """The tensors that are not quantized and were."""
    return frozenset(change.tensor for change in changes if change.after is None)


def qparam_spec(at: Situation, *, seen: int, refusal: str = "") -> dict[str, Any]:
    """Give what `QParam.spec` shows."""
    tensor = at.tensor
    if tensor is None:
        return {"tensor": "", "locked": _nothing_here(at), "seen": seen, "refusal": refusal}
    params, base = at.params(tensor), tensor.params
    lo, hi = params.representable_range
    base_lo, base_hi = base.representable_range
    spec: dict[str, Any] = {
        "tensor": tensor.name,
        "dtype": base.dtype,
        "locked": at.locked,
        "channels": 0 if base.is_per_tensor else base.scale.size,
        "picks": not base.block_size,
        "zero_point": int(params.zero_point.flat[0]),
        "base_zero_point": int(base.zero_point.flat[0]),
        "zero_point_is_free": base.is_integer and base.bits <= 16,
        "qmin": params.qmin,
        "qmax": params.qmax,
        "bits": params.bits,
        "base_bits": base.bits,
        "widths": list(BIT_WIDTHS) if base.is_integer and tensor.role != "bias" else [],
        "lo": float(lo.min()),
        "hi": float(hi.max()),
        "base_lo": float(base_lo.min()),
        "base_hi": float(base_hi.max()),
        "changed": any(_names(edit, tensor) for edit in at.edits),
        "remarks": list(_remarks(at, tensor)),
        "refusal": refusal,
        "seen": seen,
    }
    if base.is_per_tensor:
        return {**spec, "scale": _shortest(params.scale), "base_scale": _shortest(base.scale)}
    return {
        **spec,
        "factor": factor_of(at.edits, tensor),
        "scales": [_shortest(scale) for scale in params.scale.ravel()],
        "base_scales": [_shortest(scale) for scale in base.scale.ravel()],
    }


def hist_data(at: Situation) -> dict[str, Any]:
    """Give what `HistRange.data` shows."""
    tensor = at.tensor
    if tensor is None:
        return {"tensor": "", "message": "", **_heading(at)}
    found = _histogram(at.session, tensor)
    if not isinstance(found, Histogram):
        return {"tensor": tensor.name, "message": found, **_heading(at)}
    shown = found.at_most(_BINS)
    counted = shown["float"] if "float" in shown else shown["quantized"]
    lo, hi = at.params(tensor).representable_range
    base_lo, base_hi = tensor.params.representable_range
    return {
        "tensor": tensor.name,
        **_heading(at),
        "edges": [float(f"{edge:.7g}") for edge in shown.edges],
        "counts": counted.counts.tolist(),
        "drawn": shown["quantized"].counts.tolist() if counted.name == "float" else [],
        "values": counted.values,
        "lo": float(lo.min()),
        "hi": float(hi.max()),
        "base_lo": float(base_lo.min()),
        "base_hi": float(base_hi.max()),
        "movable": tensor.params.is_per_tensor and not at.locked,
        "symmetric": stays_symmetric(tensor, tensor.params),
        "message": "",
        "caption": _caption(at, tensor, is_float=counted.name == "float"),
    }


def _nothing_here(at: Situation) -> str:
    if at.layer is None:
        return "Select a layer or a tensor: in the graph, in the table, or in any figure."
    return f"Nothing that {at.layer.name} makes is quantized, so there is nothing to change here."


def _names(edit: Edit, tensor: QuantTensor) -> bool:
    named = edit.target if isinstance(edit, SetBits) else getattr(edit, "tensor", None)
    return named == tensor.name


def _remarks(at: Situation, tensor: QuantTensor) -> Iterator[dict[str, str]]:
    """Say what the edits of this tensor did besides, and what a person should know of them."""
    for warning in at.applied.warnings:
        if warning.tensor == tensor.name:
            yield {"kind": "warning", "text": f"{warning.text}."}
    own = tuple(
        e for e in at.edits if _names(e, tensor) or getattr(e, "target", None) == tensor.name
    )
    if not own:
        yield from _moved_along(at, tensor)
        return
    alone = at.applied if own == at.edits else at.editor.preview(own)
    shared = [c.tensor for c in alone.changes if c.kind == "shared"]
    biases = [c.tensor for c in alone.changes if c.kind == "bias follows"]
    if shared:
        yield {"kind": "moved", "text": f"Moved along, sharing its parameters: {_list(shared)}."}
    if biases:
        yield {"kind": "moved", "text": f"Biases that follow: {_list(biases)}."}
    for note in alone.notes:
        yield {"kind": "note", "text": f"{note}."}


def _moved_along(at: Situation, tensor: QuantTensor) -> Iterator[dict[str, str]]:
    change = next((c for c in at.applied.changes if c.tensor == tensor.name), None)
    if change is not None and change.kind == "shared":
        yield {"kind": "moved", "text": "It moved along with a tensor that shares its parameters."}
    elif change is not None and change.kind == "bias follows":
        yield {"kind": "moved", "text": "It follows an edit of its input or its weights."}


def _list(names: Iterable[str]) -> str:
    names = list(names)
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _heading(at: Situation) -> dict[str, Any]:
    """Name what is being edited, and what else of the layer could be."""
    tensor, layer = at.tensor, at.layer
    title = tensor.name if tensor else (at.selection.layer or "")
    facts = []
    if tensor is not None:
        params = tensor.params
        grain = "" if params.is_per_tensor else f" × {params.scale.size:,} channels"
        facts.append(f"{tensor.role}, {params.type_text}{grain}")
        facts += ["does a ReLU's work"] if tensor.folded_relu else []
    others = parts_of(at.editor.network, layer) if layer else ()
    siblings = [
        {
            "text": other.name,
            "select": Selection(at.selection.layer, other.name).to_dict(),
            "chosen": tensor is not None and other.name == tensor.name,
        }
        for other in others
    ]
    return {"title": title, "facts": " · ".join(facts), "siblings": siblings}


def _histogram(session: Session, tensor: QuantTensor) -> Histogram | str:
    if tensor.role == "bias":
        return "A bias is stored in 32 bits, in steps that its input and weights give."
    try:
        if tensor.has_data:
            return session.weight_histogram(tensor)
        found = session.histogram(tensor)
    except QuantscopeError as error:
        return str(error)
    return found or session.not_counted or "Its values are being counted…"


def _caption(at: Situation, tensor: QuantTensor, *, is_float: bool) -> str:
    before = " before the edits" if at.edits else ""
    what = "float values" if is_float else f"quantized values{before}"
    over = f"; line: quantized{before}" if is_float else ""
    ends = "; drag the ends of the range"
    if not tensor.params.is_per_tensor:
        ends = "; each channel has a range of its own; shown is the widest"
    elif at.locked:
        ends = ""
    return f"filled: {what}{over}; heights are logarithmic{ends}"


def _shortest(scale: Any) -> float:
    """The double with the fewest digits that is this float32, so that fields read well."""
    return float(str(np.float32(scale)))
