"""This module finds the float constant that each quantized weight and bias was rounded from."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from quantscope.model.network import Layer, Operand, QuantTensor
from quantscope.model.pairing.constants import Array
from quantscope.model.pairing.folding import as_stored, folded_constant
from quantscope.model.pairing.kinds import ADD_CONSTANT, AFFINE, NORM, TIMES_CONSTANT, WEIGHTED
from quantscope.model.pairing.layers import Alignment, FoundBy
from quantscope.model.pairing.places import Reason


class Source(NamedTuple):
    """The float constant behind a weight or bias, and the layer that reads it.

    `through` are the operators folded into it; `read` gives the float values after that.
    """

    operand: Operand
    layer: Layer
    through: tuple[str, ...]
    found_by: FoundBy
    read: Callable[[], Array | None]


def source_of(
    alignment: Alignment, tensor: QuantTensor, paths: Mapping[int, tuple[int, ...]]
) -> Source | Reason:
    """Find what a weight or bias was rounded from, or say why not.

    `paths` has the float layers folded into each quantized layer, by its number.
    """
    reason = Reason("no layer reads it")
    for consumer in tensor.consumers:
        index = alignment.quants.numbers[consumer]
        inputs = alignment.quants.network.layers[index].inputs
        operand = next(o for o in inputs if o.quant and o.quant.name == tensor.name)
        found = _source_in(alignment, index, operand, paths)
        if isinstance(found, Source):
            return found._replace(read=partial(_in_its_layout, found.read, tensor))
        reason = found
    return reason


def _in_its_layout(read: Callable[[], Array | None], tensor: QuantTensor) -> Array | None:
    array = read()
    whole = tuple(dim for dim in tensor.shape or () if isinstance(dim, int))
    if array is None or tensor.shape is None or len(whole) < len(tensor.shape):
        return array
    return as_stored(array, whole, tensor)


def _source_in(
    alignment: Alignment, index: int, operand: Operand, paths: Mapping[int, tuple[int, ...]]
) -> Source | Reason:
    quants, floats = alignment.quants, alignment.floats
    layer = quants.network.layers[index]
    owner, role = index, operand.role
    if index not in alignment.matches and alignment.is_bias_apart(index):
        owner, role = quants.made[quants.data[index][0]].layer, "bias"
    if owner not in alignment.matches:
        return Reason(f"nothing in the float network matches {layer.name} ({layer.op_type})")
    match = alignment.matches[owner]
    float_layer = floats.network.layers[match.layer]
    constants = alignment.float_constants
    if quants.kinds[owner] not in WEIGHTED:
        mine = alignment.quant_constants.fixed(layer)
        theirs = constants.fixed(float_layer)
        if len(mine) != len(theirs):
            return Reason(f"{float_layer.name} of the float network has other constants")
        found = theirs[mine.index(operand)]
        return Source(found, float_layer, (), match.found_by, partial(constants.array, found))
    folded = [
        (floats.network.layers[step], floats.kinds[step])
        for step in paths.get(owner, ())
        # A bias of zeros changes no number, and is a bias all the same.
        if floats.kinds[step] in AFFINE and (role == "bias" or step not in floats.moves)
    ]
    read = partial(folded_constant, constants, float_layer, quants.kinds[owner], role, folded)
    matters = AFFINE if role == "bias" else {NORM, TIMES_CONSTANT}
    through = tuple(after.op_type for after, kind in folded if kind in matters)
    own = next((o for o in float_layer.inputs if o.role == role), None)
    if own is not None:
        return Source(own, float_layer, through, match.found_by, read)
    for after, kind in folded:
        if kind in (ADD_CONSTANT, NORM):
            # Without a bias of its own it has that of the first layer that adds one.
            added = constants.fixed(after)[-1 if kind != NORM else 1]
            return Source(added, after, through, match.found_by, read)
    return Reason(f"{float_layer.name} of the float network has no {role}")
