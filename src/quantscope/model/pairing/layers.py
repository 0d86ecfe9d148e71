"""This module finds which layer of the float network each layer of the quantized one is.

Layers whose weights are alike are anchors. From them and from the inputs it goes along the edges:
a layer's counterpart is of its kind and reads what its inputs stand for, past layers that a
quantizer may have folded (ReLU, BatchNormalization, a bias, padding). What remains is searched
backwards from matched readers. Choices that nothing decides fall to the order of the file, last.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from typing import Literal, NamedTuple

import numpy as np

from quantscope.model.network import Operand
from quantscope.model.pairing.constants import Array, Constants, Sample, weight_likenesses
from quantscope.model.pairing.fit import ALIKE, fit
from quantscope.model.pairing.kinds import (
    ABSORBABLE,
    ADD_CONSTANT,
    CLIP,
    COMMUTATIVE,
    IDENTITY,
    WEIGHTED,
)
from quantscope.model.pairing.wiring import Made, Wiring

FoundBy = Literal["weights", "structure", "order"]

_MARGIN = 0.02  # of cosine, by which an anchor must be better than any other
_MOST_PERMUTED = 4  # inputs; beyond it their orders are too many, and the file's own is taken
# Each is tried when the ones before it find nothing more.
_ALL_INPUTS, _SOME_INPUTS, _BY_ORDER, _OTHER_CONSTANTS = range(4)


class Match(NamedTuple):
    """The number of the float layer that a quantized one stands for, and how it was found."""

    layer: int
    found_by: FoundBy


class _Candidate(NamedTuple):
    """A float layer that may be the counterpart; the best has the largest `rank`.

    `cost` is that of the layers that would have to be folded on the way.
    """

    evidence: int
    cost: int
    differences: int
    layer: int

    @property
    def rank(self) -> tuple[int, int, int]:
        return (self.evidence, -self.cost, -self.differences)


@dataclass(eq=False)
class Alignment:
    """The matches known so far: `matches` by the quantized layer's number, `taken` the other way.

    `inputs` and `outputs` lead from values of the quantized network to those of the float one.
    """

    floats: Wiring
    quants: Wiring
    float_constants: Constants
    quant_constants: Constants
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    matches: dict[int, Match] = field(default_factory=dict)
    taken: dict[int, int] = field(default_factory=dict)

    def reach(self, start: str) -> dict[str, tuple[int, ...]]:
        """Find the float values that `start` may have become, with the layers folded on the way."""
        found: dict[str, tuple[int, ...]] = {start: ()}
        waiting = [start]
        for value in waiting:
            for read in self.floats.readers.get(value, ()):
                outputs = self.floats.network.layers[read.layer].outputs
                foldable = self.floats.kinds[read.layer] in ABSORBABLE and read.slot == 0
                # An optimizer may do on one branch without a move that another branch keeps.
                free = read.layer not in self.taken or read.layer in self.floats.moves
                if foldable and free and outputs[0].name not in found:
                    found[outputs[0].name] = (*found[value], read.layer)
                    waiting.append(outputs[0].name)
        return found

    def start(self, value: str) -> str | None:
        """Find the float value that a value here begins as, before anything folded."""
        seen = 0  # no way back is longer than the network
        while value not in self.inputs and seen <= len(self.quants.kinds):
            made = self.quants.made.get(value)
            if made is None:
                return None
            if made.layer in self.matches:
                return self.counterpart(made)
            if not self.is_extra(made.layer):
                return None
            value, seen = self.quants.data[made.layer][0], seen + 1
        return self.inputs.get(value)

    def counterpart(self, made: Made) -> str | None:
        """Give the float value that a matched layer's counterpart makes in the same place."""
        outputs = self.floats.network.layers[self.matches[made.layer].layer].outputs
        return outputs[made.output].name if made.output < len(outputs) else None

    def is_extra(self, layer: int) -> bool:
        """Tell whether only the quantized network has this layer, which changes no value."""
        if layer in self.matches or not self.quants.data[layer]:
            return False
        return layer in self.quants.moves or self.is_bias_apart(layer)

    def is_bias_apart(self, layer: int) -> bool:
        """Tell whether it adds a bias that the float network's Gemm or Conv adds itself."""
        if self.quants.kinds[layer] != ADD_CONSTANT:
            return False
        made = self.quants.made.get(self.quants.data[layer][0])
        match = self.matches.get(made.layer) if made else None
        if made is None or match is None or self.quants.kinds[made.layer] not in WEIGHTED:
            return False
        layers = (
            self.quants.network.layers[made.layer],
            self.floats.network.layers[match.layer],
        )
        here, there = (any(o.role == "bias" for o in found.inputs) for found in layers)
        return there and not here

    def accept(self, quant_layer: int, float_layer: int, found_by: FoundBy) -> None:
        self.matches[quant_layer] = Match(float_layer, found_by)
        self.taken[float_layer] = quant_layer

    def read_value(self, layer: int, slot: int) -> str | None:
        """Find the float value that a matched layer's counterpart reads in this place."""
        data = self.floats.data[self.matches[layer].layer]
        if self.quants.kinds[layer] not in COMMUTATIVE or len(data) < 2:
            return data[slot] if slot < len(data) else None
        order = self._order(layer, data)
        return data[order[slot]] if order is not None and slot < len(order) else None

    def _order(self, layer: int, data: tuple[str, ...]) -> tuple[int, ...] | None:
        """Find which way round a sum or product is written; None if nothing tells."""
        starts = [self.start(value) for value in self.quants.data[layer]]
        known = {slot: self.reach(at) for slot, at in enumerate(starts) if at is not None}
        operands = self.quants.operands[layer]
        fitting = []
        for order in _orders(len(starts)):
            if all(data[order[slot]] in found for slot, found in known.items()):
                costs = [
                    self.path_cost(operands[slot], found[data[order[slot]]])
                    for slot, found in known.items()
                ]
                fitting.append((sum(costs), order))
        fitting.sort()
        if not fitting or (len(fitting) > 1 and fitting[0][0] == fitting[1][0] and not known):
            return None
        return fitting[0][1]

    def path_cost(self, operand: Operand, path: tuple[int, ...]) -> int:
        """Count how unlikely it is that these float layers are folded before `operand`.

        A layer that has a counterpart of its own is not folded, and a ReLU is folded just where
        the quantizer clips negatives.
        """
        kinds = [self.floats.kinds[layer] for layer in path]
        cost = sum(kind != IDENTITY for kind in kinds)
        cost += 3 * sum(layer in self.taken for layer in path)
        clips = operand.quant is not None and operand.quant.clips_negatives
        folded = operand.quant is not None and operand.quant.folded_relu
        contradicts = (CLIP in kinds and not clips) or (folded and CLIP not in kinds)
        return cost + 2 * contradicts


def align(alignment: Alignment) -> None:
    """Fill in `matches`, the surest first."""
    _anchor(alignment)
    # A match may decide others, so each one found begins again with the surest level.
    level = _ALL_INPUTS
    while level <= _OTHER_CONSTANTS:
        level = _ALL_INPUTS if _advance(alignment, level) else level + 1


def _anchor(alignment: Alignment) -> None:
    """Match layers whose weights are alike, each the other's best by a margin."""
    floats, quants = (
        _samples(wiring, constants)
        for wiring, constants in (
            (alignment.floats, alignment.float_constants),
            (alignment.quants, alignment.quant_constants),
        )
    )
    found: list[tuple[float, int, int]] = []
    for group, own in quants.items():
        others = floats.get(group, {})
        if others:
            likenesses = weight_likenesses(list(own.values()), list(others.values()))
            found += _best_of_both(likenesses, list(own), list(others))
    for _, q, f in sorted(found, key=lambda pair: -pair[0]):
        alignment.accept(q, f, "weights")


def _best_of_both(
    likenesses: Array, quants: Sequence[int], floats: Sequence[int]
) -> Iterator[tuple[float, int, int]]:
    """Give the pairs that are alike, where each is the other's best by a margin."""
    known = np.nan_to_num(likenesses, nan=0.0)
    by_row, by_column = np.sort(known, axis=1), np.sort(known, axis=0)
    # Beside the best of a single candidate stands none.
    second_of_row = by_row[:, -2] if len(floats) > 1 else np.zeros(len(quants))
    second_of_column = by_column[-2] if len(quants) > 1 else np.zeros(len(floats))
    for row, column in zip(*np.nonzero(known >= ALIKE), strict=True):
        like = float(known[row, column])
        if like > max(second_of_row[row], second_of_column[column]) + _MARGIN:
            yield like, quants[row], floats[column]


def _samples(
    wiring: Wiring, constants: Constants
) -> dict[tuple[str, tuple[int, ...]], dict[int, Sample]]:
    """Sample the weights of all layers, by the layer's kind and the weight's shape."""
    found: dict[tuple[str, tuple[int, ...]], dict[int, Sample]] = {}
    for index, (layer, kind) in enumerate(zip(wiring.network.layers, wiring.kinds, strict=True)):
        if kind in WEIGHTED and (sample := constants.weight_sample(layer, kind)) is not None:
            found.setdefault((kind, sample.shape), {})[index] = sample
    return found


def _advance(alignment: Alignment, level: int) -> bool:
    """Match what this level decides, forwards and then backwards; tell whether anything was.

    Where only the order decides, one match at a time is made: it may spare the next such choice.
    """
    found = False
    count = len(alignment.quants.kinds)
    for layer in range(count):
        found |= _match(alignment, layer, level, _forward(alignment, layer, level))
        if found and level >= _BY_ORDER:
            return True
    if found or level == _ALL_INPUTS:
        return found
    for layer in reversed(range(count)):
        found |= _match(alignment, layer, level, _backward(alignment, layer))
        if found and level >= _BY_ORDER:
            return True
    return found


def _match(
    alignment: Alignment, layer: int, level: int, candidates: Iterable[tuple[int, int]]
) -> bool:
    """Accept the best of (float layer, cost), if this level may decide it."""
    if layer in alignment.matches:
        return False
    kind = alignment.quants.kinds[layer]
    if kind == IDENTITY or alignment.is_bias_apart(layer):
        return False
    ranked = []
    for float_layer, cost in candidates:
        fitting = fit(
            alignment.floats.network.layers[float_layer],
            alignment.quants.network.layers[layer],
            kind,
            alignment.float_constants,
            alignment.quant_constants,
        )
        if fitting is not None and (fitting.evidence >= 0 or level == _OTHER_CONSTANTS):
            ranked.append(_Candidate(fitting.evidence, cost, fitting.differences, float_layer))
    ranked.sort(key=lambda found: (found.rank, -found.layer))
    if not ranked:
        return False
    is_tie = len(ranked) > 1 and ranked[-1].rank == ranked[-2].rank
    if is_tie and level < _BY_ORDER:
        return False
    alignment.accept(layer, ranked[-1].layer, "order" if is_tie else "structure")
    return True


def _forward(alignment: Alignment, layer: int, level: int) -> Iterator[tuple[int, int]]:
    """Find float layers of this kind that read what its inputs stand for, each with its cost."""
    if layer in alignment.matches:
        return
    floats, quants = alignment.floats, alignment.quants
    starts = [alignment.start(value) for value in quants.data[layer]]
    known = {slot: alignment.reach(at) for slot, at in enumerate(starts) if at is not None}
    if not known or (level == _ALL_INPUTS and len(known) < len(starts)):
        return
    first = known[next(iter(known))]
    readers = {read.layer for value in first for read in floats.readers.get(value, ())}
    kind = quants.kinds[layer]
    orders = _orders(len(starts)) if kind in COMMUTATIVE else [tuple(range(len(starts)))]
    for reader in sorted(readers - set(alignment.taken)):
        data = floats.data[reader]
        if floats.kinds[reader] != kind or len(data) != len(starts):
            continue
        costs = [
            sum(
                alignment.path_cost(quants.operands[layer][slot], found[data[order[slot]]])
                for slot, found in known.items()
            )
            for order in orders
            if all(data[order[slot]] in found for slot, found in known.items())
        ]
        if costs:
            yield reader, min(costs)


def _backward(alignment: Alignment, layer: int) -> Iterator[tuple[int, int]]:
    """Find float layers of this kind that make what its matched readers read, with their cost."""
    if layer in alignment.matches:
        return
    floats, quants = alignment.floats, alignment.quants
    for output in quants.network.layers[layer].outputs[:1]:
        for value in read_as(alignment, output.name):
            found, cost = floats.made.get(value), 0
            while found is not None and found.layer not in alignment.taken:
                kind = floats.kinds[found.layer]
                if kind == quants.kinds[layer] and found.output == 0:
                    yield found.layer, cost
                if kind not in ABSORBABLE or not floats.data[found.layer]:
                    break
                cost += kind != IDENTITY
                found = floats.made.get(floats.data[found.layer][0])


def read_as(alignment: Alignment, value: str) -> set[str]:
    """Find the float values that the counterparts of a value's readers read.

    Layers that only the quantized network has are looked through.
    """
    found: set[str] = set()
    for read in alignment.quants.readers.get(value, ()):
        if read.layer in alignment.matches:
            at = alignment.read_value(read.layer, read.slot)
            found |= {at} if at is not None else set()
        elif alignment.is_extra(read.layer) and not alignment.is_bias_apart(read.layer):
            outputs = alignment.quants.network.layers[read.layer].outputs
            found |= read_as(alignment, outputs[0].name)
    if value in alignment.outputs:
        found.add(alignment.outputs[value])
    return found


def _orders(count: int) -> list[tuple[int, ...]]:
    if count > _MOST_PERMUTED:
        return [tuple(range(count))]
    return list(permutations(range(count)))
