"""This module finds where branches of different scales meet, and what each loses in the sum.

An Add takes two integers of different step sizes and gives one of a third. Whatever is finer than
the output's step is rounded away, so a branch with step s that meets an output with step t > s
loses log2(t / s) of its bits. The same holds for a Concat, whose output has one scale for all.

A residual path skips a layer with weights; SiLU's x * sigmoid(x) and the sums inside of a Gelu are
one function written out, and no such path.
"""

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log2

from quantscope.model.network import Layer, Network, Operand, QuantTensor

_JOINS = frozenset({"Add", "Sub", "Concat"})
_KEEPS_SCALE = frozenset({"Relu", "Clip", "LeakyRelu", "PRelu"})


@dataclass(frozen=True)
class Branch:
    """One input of a joining layer.

    `bits_lost` is log2(output step / own step), 0 where the output is at least as fine;
    `effective_bits` what remains of the type's bits. Both are None if the output is not quantized.
    """

    tensor: str
    source: str | None
    step: float
    bits: int
    bits_lost: float | None
    effective_bits: float | None


@dataclass(frozen=True)
class Residual:
    """A layer that joins branches. `ratio` is the largest step over the smallest, at least 1."""

    layer: str
    op_type: str
    branches: tuple[Branch, ...]
    ratio: float
    output: str | None
    output_step: float | None

    @property
    def ratio_bits(self) -> float:
        """The bits, log2(ratio), by which the smaller branch's range falls short of the other's."""
        return log2(self.ratio)

    @property
    def smaller(self) -> Branch:
        """The branch with the finer step, which has the most to lose."""
        return min(self.branches, key=lambda branch: branch.step)


def residuals(network: Network) -> tuple[Residual, ...]:
    """Find every Add, Sub and Concat whose branches are all quantized with one scale each.

    Between them and where they part lies a layer with weights.
    """
    places = {layer.name: place for place, layer in enumerate(network.layers)}
    found = (
        _residual(network, layer)
        for layer in network.layers
        if layer.op_type in _JOINS and joins_past_weights(network.layers, places, layer)
    )
    return tuple(residual for residual in found if residual is not None)


def joins_past_weights(layers: Sequence[Layer], places: Mapping[str, int], layer: Layer) -> bool:
    """Tell whether a layer with weights lies between the layer's inputs and where they part.

    Branches that come from different inputs of the model part nowhere. `places` has the place of
    each layer by its name; layers come in an order in which they run.
    """
    if layer.op_type != "Concat" and not _are_of_one_shape(layer.activations):
        return False  # a mask that is added to scores
    given: dict[str, int] = {}

    def place_of(operand: Operand) -> int:
        # Inputs of the model come before all layers, each in a place of its own.
        found = places.get(operand.source or "")
        name = operand.quant.name if operand.quant else operand.name
        return given.setdefault(name, -1 - len(given)) if found is None else found

    # The walk goes back from the latest layer on; where two branches come to one place, they part.
    branches: dict[int, set[int]] = {}
    for branch, operand in enumerate(layer.activations):
        branches.setdefault(place_of(operand), set()).add(branch)
    waiting = [-place for place in branches]
    heapq.heapify(waiting)
    same = list(range(len(layer.activations)))  # branches that have met count as the first of them
    with_weights: set[int] = set()
    while waiting:
        place = -heapq.heappop(waiting)
        here = {same[branch] for branch in branches.pop(place)}
        if len(here) > 1:
            if not here.isdisjoint(with_weights):
                return True
            same = [min(here) if branch in here else branch for branch in same]
            here = {min(here)}
        if place < 0 or len(set(same)) == 1:
            continue
        if _has_weights(layers[place]):
            with_weights |= here
        for operand in layers[place].activations:
            before = place_of(operand)
            if before not in branches:
                branches[before] = set()
                heapq.heappush(waiting, -before)
            branches[before] |= here
    return False


def _are_of_one_shape(operands: Sequence[Operand]) -> bool:
    """Tell whether nothing that is known of the shapes differs."""
    shapes = [operand.shape for operand in operands if operand.shape is not None]
    if len({len(shape) for shape in shapes}) > 1:
        return False
    dims = ({dim for dim in each if isinstance(dim, int)} for each in zip(*shapes, strict=True))
    return all(len(sizes) <= 1 for sizes in dims)


def _has_weights(layer: Layer) -> bool:
    multiplies = layer.macs is None or layer.macs > 0
    return multiplies and any(operand.role == "weight" for operand in layer.inputs)


def _residual(network: Network, layer: Layer) -> Residual | None:
    tensors = [operand.quant for operand in layer.activations]
    branches = [tensor for tensor in tensors if tensor and tensor.params.is_per_tensor]
    if len(branches) < 2 or len(branches) < len(tensors):
        return None
    output = _output(network, layer)
    output_step = float(output.params.step) if output else None
    steps = [float(tensor.params.step) for tensor in branches]
    return Residual(
        layer=layer.name,
        op_type=layer.op_type,
        branches=tuple(
            _branch(tensor, operand.source, output_step)
            for tensor, operand in zip(branches, layer.activations, strict=True)
        ),
        ratio=max(steps) / min(steps),
        output=output.name if output else None,
        output_step=output_step,
    )


def _branch(tensor: QuantTensor, source: str | None, output_step: float | None) -> Branch:
    step, bits = float(tensor.params.step), tensor.params.bits
    lost = None if output_step is None else max(0.0, log2(output_step / step))
    remaining = None if lost is None else max(0.0, bits - lost)
    return Branch(tensor.name, source, step, bits, lost, remaining)


def _output(network: Network, layer: Layer) -> QuantTensor | None:
    """Find the quantizer of the sum, also behind an activation function that is its own layer."""
    for _ in network.layers:  # no chain is longer
        if not layer.outputs:
            return None
        quant = layer.outputs[0].quant
        if quant is not None:
            return quant if quant.params.is_per_tensor else None
        readers = [edge.target for edge in network.edges if edge.source == layer.name]
        if len(readers) != 1 or network.layer(readers[0]).op_type not in _KEEPS_SCALE:
            return None
        layer = network.layer(readers[0])
    return None
