"""This module states a network as values and layers by number, with quantizers seen through."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from quantscope.model.network import Layer, Network, Operand, QuantTensor, Shape
from quantscope.model.pairing.constants import Constants
from quantscope.model.pairing.kinds import (
    ADD_CONSTANT,
    IDENTITY,
    MOVES,
    TIMES_CONSTANT,
    data_inputs,
    kind_of,
)

_NO_END = 2**31 - 1  # exporters write this, or more, for an end that is the axis's own


class Made(NamedTuple):
    """The number of the layer that makes a value, and which of its outputs it is."""

    layer: int
    output: int


class Read(NamedTuple):
    """The number of a layer that reads a value, and which of its data inputs it is."""

    layer: int
    slot: int


@dataclass(frozen=True)
class Wiring:
    """The values between layers, under the names that layers write, whatever quantizers follow.

    `data` has, for each layer, the values that it computes with, `operands` the same as operands.
    `numbers` are the layers by name, `again` the tensors that quantize a dequantized value.
    `moves` are the layers that change no number, only where it lies, times 1 and plus 0 included.
    """

    network: Network
    kinds: tuple[str, ...]
    data: tuple[tuple[str, ...], ...]
    operands: tuple[tuple[Operand, ...], ...]
    made: Mapping[str, Made]
    readers: Mapping[str, tuple[Read, ...]]
    shapes: Mapping[str, Shape | None]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    aliases: Mapping[str, str]
    numbers: Mapping[str, int]
    again: Mapping[str, tuple[QuantTensor, ...]]
    moves: frozenset[int]

    def value(self, name: str) -> str:
        """Find the value before all quantizers."""
        return _behind(name, self.aliases, self.made)

    def value_of(self, tensor: QuantTensor) -> str:
        return self.value(tensor.float_name or tensor.integer_names[0])


def wire(network: Network, constants: Constants) -> Wiring:
    aliases = _aliases(network)
    made = {
        operand.name: Made(index, place)
        for index, layer in enumerate(network.layers)
        for place, operand in enumerate(layer.outputs)
    }
    shapes: dict[str, Shape | None] = {
        operand.name: operand.shape for layer in network.layers for operand in layer.outputs
    }
    shapes |= {operand.name: operand.shape for operand in network.inputs}
    inputs = [constants.data(layer) for layer in network.layers]
    kinds = tuple(
        IDENTITY if _takes_all(layer, constants) else kind_of(layer, len(found))
        for layer, found in zip(network.layers, inputs, strict=True)
    )
    operands = tuple(data_inputs(found, kind) for found, kind in zip(inputs, kinds, strict=True))
    data = tuple(tuple(_behind(o.name, aliases, made) for o in found) for found in operands)
    readers: dict[str, list[Read]] = {}
    for index, values in enumerate(data):
        for slot, value in enumerate(values):
            readers.setdefault(value, []).append(Read(index, slot))
    return Wiring(
        network=network,
        kinds=kinds,
        data=data,
        operands=operands,
        made=made,
        readers={value: tuple(found) for value, found in readers.items()},
        shapes=shapes,
        inputs=tuple(operand.name for operand in network.inputs),
        outputs=tuple(_behind(o.name, aliases, made) for o in network.outputs),
        aliases=aliases,
        numbers={layer.name: index for index, layer in enumerate(network.layers)},
        again=_again(network),
        moves=frozenset(_moves(network, kinds, constants)),
    )


def _moves(network: Network, kinds: tuple[str, ...], constants: Constants) -> Iterator[int]:
    """List the layers that change no number, times 1 and plus 0 included."""
    for index, (layer, kind) in enumerate(zip(network.layers, kinds, strict=True)):
        if kind in MOVES:
            yield index
        elif kind in (ADD_CONSTANT, TIMES_CONSTANT) and constants.is_data(layer.inputs[0]):
            number = constants.small(layer.inputs[1])
            if number is not None and (number == (kind == TIMES_CONSTANT)).all():
                yield index


def _takes_all(layer: Layer, constants: Constants) -> bool:
    """Tell whether it is a Slice from the first to the last, which optimizers leave out."""
    if layer.op_type != "Slice" or len(layer.inputs) < 3:
        return False
    found = [constants.small(operand) for operand in (*layer.inputs[1:3], *layer.inputs[4:5])]
    if any(each is None for each in found):
        return False
    starts, ends, *steps = (each for each in found if each is not None)
    is_whole = bool((starts == 0).all() and (ends >= _NO_END).all())
    return is_whole and all((step == 1).all() for step in steps)


def _again(network: Network) -> dict[str, tuple[QuantTensor, ...]]:
    """Find the tensors that quantize a dequantized value once more, by that value."""
    found: dict[str, tuple[QuantTensor, ...]] = {}
    dequantized = {name for tensor in network.tensors for name in tensor.dequantized_names}
    for tensor in network.tensors:
        if tensor.float_name in dequantized:
            found[tensor.float_name] = (*found.get(tensor.float_name, ()), tensor)
    return found


def _aliases(network: Network) -> dict[str, str]:
    """Lead from what quantizers make to what they are given."""
    aliases: dict[str, str] = {}
    for tensor in network.tensors:
        names = [*tensor.integer_names, *tensor.dequantized_names]
        start = tensor.float_name or tensor.integer_names[0]
        aliases |= {name: start for name in names if name != start}
    return aliases


def _behind(name: str, aliases: Mapping[str, str], made: Mapping[str, Made]) -> str:
    """Find what is before any chain of Q and DQ."""
    for _ in range(len(aliases)):  # no chain is longer
        if name in made or name not in aliases:
            break
        name = aliases[name]
    return name
