"""This module follows the order of axes: an optimizer may move a Transpose past other layers.

Between two places a value then has its axes in another order than the float network's. An `Order`
names, for each axis of the quantized network's value, the float value's axis that it is; it is
empty where they lie alike, and None where the order is not known.
"""

from collections.abc import Sequence
from itertools import permutations
from math import prod
from typing import NamedTuple

import numpy as np

from quantscope.model.network import Layer, Operand, Shape
from quantscope.model.pairing.constants import Constants
from quantscope.model.pairing.kinds import LINEAR, RESHAPE, TRANSPOSE

Order = tuple[int, ...]

_MOST_PLACES, _MOST_AXES = 1 << 22, 6
_FEW = 64  # places that are compared before all are
_OPEN = 3  # the size that open dimensions are given

_NO_CHOICE = frozenset({"Conv", "ConvTranspose", "GRU", "LSTM", "RNN"})
"""Kinds whose operators prescribe where each axis lies."""


class Turn(NamedTuple):
    """A Transpose: the shape of what it is given, and its axes; None where they are not known."""

    shape: Shape | None
    axes: Order | None


def turn_of(layer: Layer) -> Turn:
    """Read a Transpose; without axes of its own it reverses them."""
    shape, perm = layer.inputs[0].shape, layer.attributes.get("perm")
    if isinstance(perm, Sequence) and not isinstance(perm, str):
        return Turn(shape, tuple(int(str(axis)) for axis in perm))
    return Turn(shape, None if shape is None else tuple(reversed(range(len(shape)))))


def order_behind(
    order: Order | None,
    shape: Shape | None,
    *,
    turns: Sequence[Turn],
    float_turns: Sequence[Turn],
    ends: tuple[Shape | None, Shape | None],
    reshaped: bool = False,
) -> Order | None:
    """Give the order behind the Transposes of either network, with any Reshapes between them.

    It was `order` where the float value had this `shape`; at the end the shapes are `ends`, the
    quantized network's first. `reshaped` says that a Reshape is among them, past which nothing can
    be followed where a size is not known.
    """
    if not order and not turns and not float_turns:
        return order
    if order is None or any(each.axes is None for each in (*turns, *float_turns)):
        return None
    try:
        return _by_places(order, shape, turns, float_turns, ends)
    except ValueError:  # a size is not known, so that something does not fit
        return None if reshaped else _by_axes(order, turns, float_turns, ends)


def _by_places(
    order: Order,
    shape: Shape | None,
    turns: Sequence[Turn],
    float_turns: Sequence[Turn],
    ends: tuple[Shape | None, Shape | None],
) -> Order | None:
    """Number the places of a value, move them as either network does, and see where they are."""
    start = _sizes(shape)
    if prod(start) > _MOST_PLACES:
        raise ValueError("too many places to be numbered")
    there = np.arange(prod(start), dtype=np.int32).reshape(start)
    here = there.transpose(order) if order else there
    for turn in turns:
        here = here.reshape(_sizes(turn.shape)).transpose(turn.axes)
    for turn in float_turns:
        there = there.reshape(_sizes(turn.shape)).transpose(turn.axes)
    there = there.reshape(_sizes(ends[1]))
    flat, few = here.ravel(), here.ravel()[:_FEW]
    if there.ndim > _MOST_AXES:
        return () if np.array_equal(there.ravel(), flat) else None
    found = [
        axes
        for axes in permutations(range(there.ndim))
        if np.array_equal(there.transpose(axes).ravel()[:_FEW], few)
        and np.array_equal(there.transpose(axes).ravel(), flat)
    ]
    if ends[0] is None:
        return _plain(found[0]) if found else None
    # Axes of length 1 may lie anywhere: where they are in the quantized network is best.
    found.sort(key=lambda axes: there.transpose(axes).shape != _sizes(ends[0]))
    return _plain(found[0]) if found else None


def _by_axes(
    order: Order,
    turns: Sequence[Turn],
    float_turns: Sequence[Turn],
    ends: tuple[Shape | None, Shape | None],
) -> Order | None:
    """Put the Transposes together where nothing is reshaped between them."""
    axes = [turn.axes for turn in (*turns, *float_turns) if turn.axes is not None]
    ranks = {len(each) for each in (order, *axes, *ends) if each}
    if len(ranks) != 1:
        return None
    found = order or tuple(range(ranks.pop()))
    for each in axes[: len(turns)]:
        found = tuple(found[axis] for axis in each)
    for each in axes[len(turns) :]:
        back = sorted(range(len(each)), key=each.__getitem__)
        found = tuple(back[axis] for axis in found)
    return _plain(found)


def _sizes(shape: Shape | None) -> tuple[int, ...]:
    """Give a shape with a small number for open dimensions."""
    if shape is None:
        raise ValueError("the shape is not known")
    return tuple(dim if isinstance(dim, int) else _OPEN for dim in shape)


def in_order(shape: Shape | None, order: Order) -> Shape | None:
    """Give a float value's shape in the order of the quantized network's axes."""
    if shape is None or not order:
        return shape
    return tuple(shape[axis] for axis in order) if len(shape) == len(order) else None


def moves_only_ones(order: Order, shape: Shape | None) -> bool:
    """Tell whether turning a value of this shape changes nothing but its shape."""
    if shape is None or len(shape) != len(order):
        return False
    longer = [axis for axis in order if shape[axis] != 1]
    return longer == sorted(longer)


def order_after(
    kind: str,
    layers: tuple[Layer, Layer],
    constants: tuple[Constants, Constants],
    operands: Sequence[Operand],
    orders: Sequence[Order | None],
) -> Order | None:
    """Give the order of what two matched layers make, the quantized network's first.

    `orders` are those of the `operands` that the quantized one computes with.
    """
    if kind in _NO_CHOICE or (kind != TRANSPOSE and all(order == () for order in orders)):
        return ()
    first, ends = orders[0], (layers[0].outputs[0].shape, layers[1].outputs[0].shape)
    if kind in (TRANSPOSE, RESHAPE):
        turns = [turn_of(layer) for layer in layers] if kind == TRANSPOSE else []
        if not first and (not turns or turns[0].axes == turns[1].axes):
            return first
        there = layers[1].inputs[0].shape
        found = order_behind(
            first,
            there,
            turns=turns[:1],
            float_turns=turns[1:],
            ends=ends,
            reshaped=kind == RESHAPE,
        )
        return found if found is not None else _without_axes(kind, layers, constants, first)
    if kind in ("MatMul", LINEAR):
        return _after_product(orders)
    made = ends[0]
    if first and any(_takes_axes_out(*each) for each in zip(layers, constants, strict=True)):
        return _without_axes(kind, layers, constants, first)
    return _common(operands, orders, made)


def _after_product(orders: Sequence[Order | None]) -> Order | None:
    """Follow a matrix product, whose last axis, and that before, have places of their own."""
    if () in orders:
        return ()  # the other matrix lies so that the two fit
    first, count = orders[0], len(orders)
    if not first or len(set(orders)) > 1:
        return None
    return first if first[-count:] == tuple(range(len(first)))[-count:] else None


def _plain(order: Order) -> Order:
    return () if order == tuple(range(len(order))) else order


def _common(
    operands: Sequence[Operand], orders: Sequence[Order | None], made: Shape | None
) -> Order | None:
    """Give the order of the inputs that are as large as what is made; others are spread over it."""
    whole = {
        order
        for operand, order in zip(operands, orders, strict=True)
        if made is None or operand.shape is None or len(operand.shape) == len(made)
    }
    return next(iter(whole)) if len(whole) == 1 else None


def _takes_axes_out(layer: Layer, constants: Constants) -> bool:
    """Tell whether what a layer makes has fewer axes than what it reads, as far as is known."""
    before, behind = layer.inputs[0].shape, layer.outputs[0].shape
    if before is not None and behind is not None:
        return len(behind) < len(before)
    if layer.op_type == "Gather":
        stored = constants.small(layer.inputs[1])
        return stored is not None and not stored.ndim
    return layer.file_op_type == "Squeeze" or layer.attributes.get("keepdims") == 0


def _without_axes(
    kind: str,
    layers: tuple[Layer, Layer],
    constants: tuple[Constants, Constants],
    order: Order | None,
) -> Order | None:
    """Follow a layer that takes axes out."""
    pairs = tuple(zip(layers, constants, strict=True))
    if not order or not all(_takes_axes_out(*each) for each in pairs):
        return None
    found = [_own_axes(kind, *each) for each in pairs]
    if found[0] is None or found[1] is None or len(found[0]) != len(found[1]):
        return None
    here, there = (tuple(axis % len(order) for axis in axes) for axes in found if axes is not None)
    if {order[axis] for axis in here} != set(there):
        return None
    rest, left = ([a for a in range(len(order)) if a not in axes] for axes in (here, there))
    return _plain(tuple(left.index(order[axis]) for axis in rest))


def _own_axes(kind: str, layer: Layer, constants: Constants) -> tuple[int, ...] | None:
    """Give the axes that a layer takes out; None where they are not known."""
    if kind == "Gather":
        axis = layer.attributes.get("axis", 0)
        return (axis,) if isinstance(axis, int) else None
    given = layer.attributes.get("axes")
    if isinstance(given, Sequence) and not isinstance(given, str):
        return tuple(int(str(axis)) for axis in given)
    if len(layer.inputs) < 2:
        return None
    stored = constants.small(layer.inputs[1])
    return None if stored is None else tuple(int(axis) for axis in stored.ravel())
