"""This module finds the float tensor of each quantized activation, once the layers are matched.

What feeds a quantizer may be a pre-activation whose ReLU the quantizer does. So the float tensor is
found from both ends: it is one that the layer's counterpart may have become by folding, and one
that the counterparts of its readers read.
"""

from collections.abc import Mapping, Set
from typing import NamedTuple

from quantscope.model.network import QuantTensor, Shape
from quantscope.model.pairing.axes import (
    Order,
    Turn,
    in_order,
    moves_only_ones,
    order_after,
    order_behind,
    turn_of,
)
from quantscope.model.pairing.kinds import (
    CLIP,
    IDENTITY,
    NORM,
    PAD,
    RESHAPE,
    TRANSPOSE,
    merges_rows,
    same_content,
    same_shape,
)
from quantscope.model.pairing.layers import Alignment, read_as


class Counterpart(NamedTuple):
    """A float value, and the float layers folded between the layer's counterpart and it.

    `order` says how its axes lie in the quantized network, and is empty where they lie alike.
    """

    value: str
    path: tuple[int, ...] = ()
    order: Order = ()


class Reason(NamedTuple):
    """The reason why there is no counterpart, as a person reads it."""

    text: str


class _Origin(NamedTuple):
    """The layer that a value of the quantized network comes from, past layers that only it has.

    `order` is that of the axes behind it, `turns` are the Transposes after it that only this
    network has, `padded` says that only this network pads, `reshapes` that only this one reshapes
    after it, `reshaped` that the shape may differ for that or for what came before.
    """

    layer: int | None
    order: Order | None
    turns: tuple[Turn, ...]
    padded: bool
    reshapes: bool
    reshaped: bool


class Layouts(NamedTuple):
    """How the numbers of matched layers lie, where that is otherwise than their counterpart's.

    `orders` are those of their axes; those in `reshaped` may have another shape.
    """

    orders: Mapping[int, Order | None]
    reshaped: Set[int]


def place_of_tensor(
    alignment: Alignment, tensor: QuantTensor, layouts: Layouts
) -> Counterpart | Reason:
    """Find the float tensor of a quantized activation, or say why there is none."""
    value = alignment.quants.value_of(tensor)
    votes = _votes(alignment, tensor, value)
    return _place(alignment, value, votes, tensor.shape, layouts, clips=tensor.clips_negatives)


def place_of_output(alignment: Alignment, layer: int, layouts: Layouts) -> Counterpart | Reason:
    """Find the float tensor of a layer's first output, whether quantized or not."""
    operand = alignment.quants.network.layers[layer].outputs[0]
    if operand.quant is not None:
        return place_of_tensor(alignment, operand.quant, layouts)
    votes = read_as(alignment, operand.name)
    return _place(alignment, operand.name, votes, operand.shape, layouts, clips=False)


def layouts_of(alignment: Alignment) -> Layouts:
    """Find where values lie otherwise: an optimizer may move a Transpose past other layers.

    Each Transpose that only one of the two networks has on the way, or that both have with other
    axes, turns the values or turns them back.
    """
    floats, quants = alignment.floats, alignment.quants
    orders: dict[int, Order | None] = {}
    reshaped: set[int] = set()
    so_far = Layouts(orders, reshaped)
    for layer in sorted(alignment.matches):
        kind, match = quants.kinds[layer], alignment.matches[layer]
        shapes, came = [], []
        for slot, value in enumerate(quants.data[layer]):
            start, read = alignment.start(value), alignment.read_value(layer, slot)
            path = alignment.reach(start).get(read or "", ()) if start is not None else ()
            origin = _origin(alignment, value, so_far)
            shapes.append(origin.reshaped or _has(alignment, path, RESHAPE))
            here = quants.operands[layer][slot].shape
            came.append(_order_along(alignment, path, origin, start or "", here))
        orders[layer] = order_after(
            kind,
            (quants.network.layers[layer], floats.network.layers[match.layer]),
            (alignment.quant_constants, alignment.float_constants),
            quants.operands[layer],
            came,
        )
        if kind in ("Conv", "ConvTranspose"):  # these leave no choice
            continue
        if shapes and all(shapes) and kind not in (RESHAPE, "MatMul"):
            reshaped.add(layer)
    return so_far


def origin_layer(alignment: Alignment, tensor: QuantTensor) -> int | None:
    """Find the layer that computes it, past those that only move it and have no counterpart."""
    value = alignment.quants.value_of(tensor)
    return _origin(alignment, value, Layouts({}, frozenset())).layer


def is_reshaped(
    alignment: Alignment, tensor: QuantTensor, place: Counterpart, layouts: Layouts
) -> bool:
    """Tell whether the shapes differ, or may, where one network alone reshapes."""
    there = alignment.floats.shapes.get(place.value)
    shapes = tensor.shape, in_order(there, place.order)
    origin = _origin(alignment, alignment.quants.value_of(tensor), layouts)
    if origin.reshaped or _has(alignment, place.path, RESHAPE):
        return None in shapes or shapes[0] != shapes[1]
    return not same_shape(*shapes)


def _origin(alignment: Alignment, value: str, layouts: Layouts) -> _Origin:
    quants = alignment.quants
    padded = reshapes = False
    turns = []
    made = quants.made.get(value)
    while made is not None and alignment.is_extra(made.layer):
        kind = quants.kinds[made.layer]
        if kind == TRANSPOSE:
            turns.append(turn_of(quants.network.layers[made.layer]))
        padded |= kind == PAD
        reshapes |= kind == RESHAPE
        made = quants.made.get(quants.data[made.layer][0])
    if made is None:
        return _Origin(None, (), tuple(turns[::-1]), padded, reshapes, reshapes)
    order = layouts.orders.get(made.layer, ())
    reshaped = reshapes or made.layer in layouts.reshaped
    return _Origin(made.layer, order, tuple(turns[::-1]), padded, reshapes, reshaped)


def _order_along(
    alignment: Alignment, path: tuple[int, ...], origin: _Origin, start: str, here: Shape | None
) -> Order | None:
    """Give the order behind the layers that only one of the networks has, `path` the float one's.

    They begin at the float value `start`; `here` is the quantized network's shape behind its own.
    """
    floats = alignment.floats
    layers = [floats.network.layers[layer] for layer in path]
    turns = [floats.network.layers[at] for at in path if floats.kinds[at] == TRANSPOSE]
    end = floats.shapes.get(layers[-1].outputs[0].name if layers else start)
    return order_behind(
        origin.order,
        floats.shapes.get(start),
        turns=origin.turns,
        float_turns=[turn_of(layer) for layer in turns],
        ends=(here, end),
        reshaped=origin.reshapes or _has(alignment, path, RESHAPE),
    )


def _has(alignment: Alignment, path: tuple[int, ...], kind: str) -> bool:
    return any(alignment.floats.kinds[layer] == kind for layer in path)


def _votes(alignment: Alignment, tensor: QuantTensor, value: str) -> set[str]:
    """Find what the counterparts of its own readers read, not those of the value before it."""
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
    for name in tensor.dequantized_names:
        for other in quants.again.get(name, ()):
            found |= _votes(alignment, other, value)
    return found


def _place(
    alignment: Alignment,
    value: str,
    votes: set[str],
    shape: Shape | None,
    layouts: Layouts,
    *,
    clips: bool,
) -> Counterpart | Reason:
    """Find the float value that its own layer may have become and that its readers vote for."""
    if any(alignment.is_bias_apart(r.layer) for r in alignment.quants.readers.get(value, ())):
        return Reason("the float network adds the bias in the same layer: it has no such tensor")
    start = alignment.start(value)
    meant = _meant(alignment, votes)
    if votes and not meant:
        names = ", ".join(sorted(votes))
        return Reason(f"its readers stand for layers that read different float tensors: {names}")
    if start is None and not meant:
        return Reason(_nothing(alignment, value))
    if start is None:
        return _fitting(alignment, [Counterpart(min(meant, key=lambda found: meant[found]))], shape)
    chain = alignment.reach(start)
    places = [Counterpart(found, chain[found]) for found in meant if found in chain]
    if not votes:
        places = [_unread(alignment, chain, clips=clips)]
    if not places:
        return Reason(
            f"its layer stands for the one that makes {start}, "
            f"but its readers for some that read {', '.join(sorted(votes))}"
        )
    return _laid_out_alike(alignment, places, _origin(alignment, value, layouts), start, shape)


def _laid_out_alike(
    alignment: Alignment,
    places: list[Counterpart],
    origin: _Origin,
    start: str,
    shape: Shape | None,
) -> Counterpart | Reason:
    before = min(places, key=lambda place: len(place.path)).value
    if origin.padded:
        return Reason(f"only the quantized network has a Pad here, after what is {before}")
    turned = []
    for place in places:
        order = _order_along(alignment, place.path, origin, start, shape)
        if order and moves_only_ones(order, alignment.floats.shapes.get(place.value)):
            order = ()
        if order is not None:
            turned.append(place._replace(order=order))
    straight = [place for place in turned if not place.order] or turned
    if not straight:
        return Reason(
            f"its axes are in another order than those of {before}: "
            "a Transpose stands elsewhere in the float network"
        )
    return _fitting(alignment, straight, shape)


def _meant(alignment: Alignment, votes: set[str]) -> dict[str, int]:
    """Find the values that all readers may mean, with how far each lies before the readers.

    A reader may mean the value as it lies, or as it is before it is moved about.
    """
    common: dict[str, int] | None = None
    for vote in votes:
        before = _before_moves(alignment, vote)
        if common is None:
            common = before
        else:
            common = {value: common[value] + before[value] for value in common.keys() & before}
    return common or {}


def _before_moves(alignment: Alignment, value: str) -> dict[str, int]:
    floats = alignment.floats
    found = {value: 0}
    made = floats.made.get(value)
    while made is not None and made.layer in floats.moves and floats.data[made.layer]:
        value = floats.data[made.layer][0]
        found[value] = len(found)
        made = floats.made.get(value)
    return found


def _unread(
    alignment: Alignment, chain: Mapping[str, tuple[int, ...]], *, clips: bool
) -> Counterpart:
    """Place a value that no matched layer reads: only what must have been folded was."""
    place = Counterpart(next(iter(chain)))
    for value, path in chain.items():
        if path and path[:-1] == place.path and path[-1] not in alignment.taken:
            kind = alignment.floats.kinds[path[-1]]
            if kind in (IDENTITY, NORM) or (kind == CLIP and clips):
                place = Counterpart(value, path)
    return place


def _fitting(
    alignment: Alignment, places: list[Counterpart], shape: Shape | None
) -> Counterpart | Reason:
    """Choose the place of this shape that is nearest to the readers; say why if none is."""
    kinds, shapes = alignment.floats.kinds, alignment.floats.shapes

    def rank(place: Counterpart) -> tuple[bool, bool, bool, int]:
        padded = any(kinds[layer] == PAD for layer in place.path)
        kept = any(layer in alignment.taken for layer in place.path)
        fits = same_shape(shape, in_order(shapes.get(place.value), place.order))
        return (fits, not kept, not padded, len(place.path))

    best = max(sorted(places), key=rank)
    there = in_order(shapes.get(best.value), best.order)
    if not same_content(shape, there) and not merges_rows(shape, there):
        return Reason(
            f"its shape is {shape_text(shape)}, that of {best.value} is {shape_text(there)}"
        )
    return best


def shape_text(shape: Shape | None) -> str:
    return "unknown" if shape is None else "x".join("?" if d is None else str(d) for d in shape)


def _nothing(alignment: Alignment, value: str) -> str:
    made = alignment.quants.made.get(value)
    if made is None:
        return "it is neither an input of the model nor made by a layer"
    layer = alignment.quants.network.layers[made.layer]
    return f"nothing in the float network matches {layer.name} ({layer.op_type}) or its readers"
