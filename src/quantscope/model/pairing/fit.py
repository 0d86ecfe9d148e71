"""This module judges how well one layer can stand for another, by what the two alone say."""

from typing import NamedTuple

import numpy as np

from quantscope.model.network import Layer, Operand, Shape
from quantscope.model.pairing.constants import (
    Constants,
    as_plus_or_times,
    same_constants,
    weight_likeness,
)
from quantscope.model.pairing.kinds import (
    ADD_CONSTANT,
    LINEAR,
    MOVES,
    NORM,
    RESHAPE,
    TIMES_CONSTANT,
    WEIGHTED,
    same_shape,
    same_size,
)

ALIKE = 0.9
"""The cosine of weights from which on they are taken for the same."""
UNLIKE = 0.6
"""The cosine of weights below which they are taken for others; between the two nothing is said."""

_AXES_OF_SLICE = 3  # the input


class Fit(NamedTuple):
    """The evidence of the constants (1 the same, 0 unknown, -1 others) and other differences.

    `differences` counts attributes that are not equal, and an output of another shape.
    """

    evidence: int
    differences: int


def fit(
    float_layer: Layer,
    quant_layer: Layer,
    kind: str,
    float_constants: Constants,
    quant_constants: Constants,
) -> Fit | None:
    """Judge two layers of one kind; None if their shapes rule it out."""
    evidence = 0
    if kind in WEIGHTED:
        samples = (
            float_constants.weight_sample(float_layer, kind),
            quant_constants.weight_sample(quant_layer, kind),
        )
        if not _same_weight_shape(float_layer, quant_layer, kind):
            return None
        if samples[0] and samples[1]:
            if samples[0].shape != samples[1].shape:
                return None
            evidence = _verdict(weight_likeness(samples[0], samples[1]))
    elif kind not in MOVES and kind != NORM:
        evidence = _settings_agree(float_layer, quant_layer, kind, float_constants, quant_constants)
    shapes = _output_shape(float_layer), _output_shape(quant_layer)
    if kind != LINEAR and not same_size(*shapes):
        return None
    if kind == RESHAPE and not same_shape(*shapes):
        return None  # one that an optimizer put in is not one that somebody wrote
    differences = int(_other_axes(float_layer, quant_layer, float_constants, quant_constants))
    differences += _different_attributes(float_layer, quant_layer) + (not same_shape(*shapes))
    return Fit(evidence, differences)


def _verdict(likeness: float | None) -> int:
    if likeness is None:
        return 0
    return (likeness >= ALIKE) - (likeness < UNLIKE)


def _output_shape(layer: Layer) -> Shape | None:
    return layer.outputs[0].shape if layer.outputs else None


def _same_weight_shape(a: Layer, b: Layer, kind: str) -> bool:
    """Tell whether the weights may be the same; a matrix product's may lie transposed."""
    shapes = [next((o.shape for o in x.inputs if o.role == "weight"), None) for x in (a, b)]
    if kind == LINEAR or shapes[0] is None or shapes[1] is None:
        return True
    return shapes[0] == shapes[1]


def _settings_agree(
    a: Layer, b: Layer, kind: str, a_constants: Constants, b_constants: Constants
) -> int:
    """Compare the small constants of two layers: 1 the same, 0 unknown, -1 others."""
    if len(a.inputs) != len(b.inputs):
        return 0
    if a.op_type != b.op_type and kind not in (ADD_CONSTANT, TIMES_CONSTANT):
        return 0
    verdicts = []
    sides = _settings(a, a_constants), _settings(b, b_constants)
    for x, y in zip(*sides, strict=False):
        one, two = a_constants.small(x), b_constants.small(y)
        if one is not None and two is not None:
            one = as_plus_or_times(a_constants, a, one)
            two = as_plus_or_times(b_constants, b, two)
            verdicts.append(same_constants(one, two))
    if False in verdicts:
        return -1
    return 1 if True in verdicts else 0


def _settings(layer: Layer, constants: Constants) -> list[Operand]:
    """Give its constants but for a Slice's axes: a Transpose moved past it changes them."""
    axes = _AXES_OF_SLICE if layer.op_type == "Slice" else None
    inputs = enumerate(layer.inputs)
    return [o for place, o in inputs if place != axes and not constants.is_data(o)]


def _other_axes(a: Layer, b: Layer, a_constants: Constants, b_constants: Constants) -> bool:
    """Tell whether two Slices are known to cut along different axes."""
    if a.op_type != "Slice" or min(len(a.inputs), len(b.inputs)) <= _AXES_OF_SLICE:
        return False
    one, two = (
        constants.small(layer.inputs[_AXES_OF_SLICE])
        for layer, constants in ((a, a_constants), (b, b_constants))
    )
    return one is not None and two is not None and not np.array_equal(one, two)


def _different_attributes(a: Layer, b: Layer) -> int:
    if a.op_type != b.op_type:
        return 0
    return sum(
        b.attributes[name] != value for name, value in a.attributes.items() if name in b.attributes
    )
