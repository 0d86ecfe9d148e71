"""Which float tensor each quantized tensor stands for, once the layers are matched.

What feeds a quantizer may be a pre-activation whose ReLU the quantizer does. So the float tensor is
found from both ends: it is one that the layer's counterpart may have become by folding, and one
that the counterparts of its readers read.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from quantscope.model.network import Layer, Operand, QuantTensor
from quantscope.model.onnx_tensors import Shape
from quantscope.model.pairing_kinds import (
    ADD_CONSTANT,
    AFFINE,
    CLIP,
    IDENTITY,
    MOVES,
    NORM,
    PAD,
    TIMES_CONSTANT,
    TRANSPOSE,
    WEIGHTED,
    same_content,
    same_shape,
)
from quantscope.model.pairing_layers import Alignment, FoundBy, read_as


class Place(NamedTuple):
    """A float value, and the float layers folded between the layer's counterpart and it."""

    value: str
    path: tuple[int, ...]


class Reason(NamedTuple):
    text: str


def place_of_tensor(alignment: Alignment, tensor: QuantTensor) -> Place | Reason:
    value = alignment.quants.value_of(tensor)
    votes = _votes(alignment, tensor, value)
    return _place(alignment, value, votes, tensor.shape, clips=tensor.clips_negatives)


def place_of_output(alignment: Alignment, layer: int) -> Place | Reason:
    """Of a layer's first output, whether quantized or not."""
    operand = alignment.quants.network.layers[layer].outputs[0]
    if operand.quant is not None:
        return place_of_tensor(alignment, operand.quant)
    votes = read_as(alignment, operand.name)
    return _place(alignment, operand.name, votes, operand.shape, clips=False)


def is_reshaped(alignment: Alignment, tensor: QuantTensor, place: Place) -> bool:
    return not same_shape(tensor.shape, alignment.floats.shapes.get(place.value))


def _votes(alignment: Alignment, tensor: QuantTensor, value: str) -> set[str]:
    """What the counterparts of its own readers read, not those of the value before it."""
    quants = alignment.quants
    found: set[str] = set()
    for read in quants.readers.get(value, ()):
        quant = quants.operands[read.layer][read.slot].quant
        if quant is None or quant.name != tensor.name:
            continue
        if read.layer in alignment.matches:
            at = alignment.read_value(read.layer, read.slot)
            found |= {at} if at is not None else set()
        elif alignment.is_extra(read.layer) and not alignment.is_bias_apart(read.layer):
            found |= read_as(alignment, quants.network.layers[read.layer].outputs[0].name)
    for name, operand in zip(quants.outputs, quants.network.outputs, strict=True):
        if operand.quant is not None and operand.quant.name == tensor.name:
            found |= {alignment.outputs[name]} if name in alignment.outputs else set()
    for other in quants.network.tensors:
        if other.float_name in tensor.dequantized_names:
            found |= _votes(alignment, other, value)
    return found


def _place(
    alignment: Alignment, value: str, votes: set[str], shape: Shape | None, *, clips: bool
) -> Place | Reason:
    if any(alignment.is_bias_apart(r.layer) for r in alignment.quants.readers.get(value, ())):
        return Reason("the float network adds the bias in the same layer: it has no such tensor")
    start = alignment.start(value)
    chain = alignment.reach(start) if start is not None else {}
    common = _common(alignment, votes)
    if votes and not common:
        names = ", ".join(sorted(votes))
        return Reason(f"its readers stand for layers that read different float tensors: {names}")
    if not chain and not common:
        return Reason(_nothing(alignment, value))
    if chain and votes:
        places = [Place(found, chain[found]) for found in common if found in chain]
        if not places:
            return Reason(
                f"its layer stands for the one that makes {start}, "
                f"but its readers for some that read {', '.join(sorted(votes))}"
            )
    elif chain:
        places = [_unread(alignment, chain, clips=clips)]
    else:
        places = [Place(found, ()) for found in common]
    extra = _extra_layout(alignment, value)
    if extra:
        return Reason(
            f"only the quantized network has a {extra} here; before it the values are {start}'s"
        )
    return _best(alignment, places, shape)


def _common(alignment: Alignment, votes: set[str]) -> set[str]:
    """Values that all readers may mean, as they lie or before they are moved about."""
    common: set[str] | None = None
    for vote in votes:
        before = set(_before_moves(alignment, vote))
        common = before if common is None else common & before
    return common or set()


def _before_moves(alignment: Alignment, value: str) -> Iterator[str]:
    floats = alignment.floats
    yield value
    made = floats.made.get(value)
    while made is not None and floats.kinds[made.layer] in MOVES and floats.data[made.layer]:
        if made.layer in alignment.taken:
            return
        value = floats.data[made.layer][0]
        yield value
        made = floats.made.get(value)


def _unread(alignment: Alignment, chain: dict[str, tuple[int, ...]], *, clips: bool) -> Place:
    """Nobody reads it whose counterpart is known: only what must have been folded was."""
    place = Place(next(iter(chain)), ())
    for value, path in chain.items():
        if path and path[:-1] == place.path:
            kind = alignment.floats.kinds[path[-1]]
            if kind in (IDENTITY, NORM) or (kind == CLIP and clips):
                place = Place(value, path)
    return place


def _extra_layout(alignment: Alignment, value: str) -> str:
    """The operator of the quantized network alone that laid the values out anew."""
    quants = alignment.quants
    made = quants.made.get(value)
    while made is not None and alignment.is_extra(made.layer):
        if quants.kinds[made.layer] in (PAD, TRANSPOSE):
            return quants.network.layers[made.layer].op_type
        made = quants.made.get(quants.data[made.layer][0])
    return ""


def _best(alignment: Alignment, places: list[Place], shape: Shape | None) -> Place | Reason:
    kinds, shapes = alignment.floats.kinds, alignment.floats.shapes

    def rank(place: Place) -> tuple[bool, bool, int, str]:
        moved = any(kinds[layer] in (PAD, TRANSPOSE) for layer in place.path)
        return (same_shape(shape, shapes.get(place.value)), not moved, len(place.path), place.value)

    best = max(places, key=rank)
    if not same_content(shape, shapes.get(best.value)):
        return Reason(
            f"its shape is {_text(shape)}, that of {best.value} {_text(shapes[best.value])}"
        )
    return best


def _text(shape: Shape | None) -> str:
    return "unknown" if shape is None else "x".join("?" if d is None else str(d) for d in shape)


def _nothing(alignment: Alignment, value: str) -> str:
    made = alignment.quants.made.get(value)
    if made is None:
        return "it is neither an input of the model nor made by a layer"
    layer = alignment.quants.network.layers[made.layer]
    return f"nothing in the float network matches {layer.name} ({layer.op_type}) or its readers"


@dataclass(frozen=True)
class ConstantPlace:
    operand: Operand
    layer: Layer
    through: tuple[str, ...]
    found_by: FoundBy


def place_of_constant(
    alignment: Alignment, tensor: QuantTensor, paths: dict[int, tuple[int, ...]]
) -> ConstantPlace | Reason:
    """`paths`: the float layers folded into each quantized layer."""
    reason = Reason("no layer reads it")
    for index, layer in enumerate(alignment.quants.network.layers):
        operand = next((o for o in layer.inputs if o.quant and o.quant.name == tensor.name), None)
        if operand is None:
            continue
        found = _constant_in(alignment, index, operand, paths)
        if isinstance(found, ConstantPlace):
            return found
        reason = found
    return reason


def _constant_in(
    alignment: Alignment, index: int, operand: Operand, paths: dict[int, tuple[int, ...]]
) -> ConstantPlace | Reason:
    quants, floats = alignment.quants, alignment.floats
    layer = quants.network.layers[index]
    owner, role = index, operand.role
    if index not in alignment.matches and alignment.is_bias_apart(index):
        owner, role = quants.made[quants.data[index][0]].layer, "bias"
    if owner not in alignment.matches:
        return Reason(f"nothing in the float network matches {layer.name} ({layer.op_type})")
    float_layer = floats.network.layers[alignment.matches[owner].layer]
    found_by = alignment.matches[owner].found_by
    folded = [floats.network.layers[step] for step in paths.get(owner, ())]
    kinds = [floats.kinds[step] for step in paths.get(owner, ())]
    if quants.kinds[owner] not in WEIGHTED:
        mine = [o for o in layer.inputs if o.role != "activation"]
        theirs = [o for o in float_layer.inputs if o.role != "activation"]
        if len(mine) == len(theirs):
            return ConstantPlace(theirs[mine.index(operand)], float_layer, (), found_by)
        return Reason(f"{float_layer.name} of the float network has other constants")
    matters = AFFINE if role == "bias" else {NORM, TIMES_CONSTANT}
    through = tuple(x.op_type for x, kind in zip(folded, kinds, strict=True) if kind in matters)
    found = next((o for o in float_layer.inputs if o.role == role), None)
    if found is not None:
        return ConstantPlace(found, float_layer, through, found_by)
    for number, (added, kind) in enumerate(zip(folded, kinds, strict=True)):
        if role == "bias" and kind == ADD_CONSTANT:
            constant = next(o for o in added.inputs if o.role != "activation")
            later = kinds[number + 1 :]
            rest = folded[number + 1 :]
            more = tuple(x.op_type for x, k in zip(rest, later, strict=True) if k in AFFINE)
            return ConstantPlace(constant, added, more, found_by)
    cause = f": it comes from folding {', '.join(through)}" if through else ""
    return Reason(f"{float_layer.name} of the float network has no {role}{cause}")
