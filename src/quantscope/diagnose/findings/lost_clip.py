"""A quantizer that stands for a ReLU or Clip, and lets values through that it should cut."""

from collections.abc import Iterator
from math import inf

import numpy as np

from quantscope.diagnose.evidence import Evidence, range_of
from quantscope.diagnose.results import Finding, Place, Remedy
from quantscope.edit import SetRange
from quantscope.model import Layer
from quantscope.model.pairing import Constants, constants_of
from quantscope.plain_text import many

KIND = "lost-clip"
WHY = (
    "The float network cuts these values off; here only the end of the range does, so what lies "
    "within the range gets through."
)
_CLIPS = frozenset({"Relu", "Clip"})


def find(evidence: Evidence) -> Iterator[Finding]:
    """Hold the values that came out against the ends of the float model's ReLU or Clip."""
    original, pairing = evidence.editor.against
    makers = {o.name: layer for layer in original.network.layers for o in layer.outputs}
    quantized = {layer.name: layer for layer in evidence.network.layers}
    constants = constants_of(original)
    places: list[Place] = []
    edits: list[SetRange] = []
    for tensor, row in evidence.activations:
        pair, values = pairing.by_name.get(tensor.name), row.quantized_values
        maker = None if pair is None else makers.get(pair.float_name)
        own = quantized.get(tensor.producer or "")
        if maker is None or maker.op_type not in _CLIPS or values is None:
            continue
        if own is None or own.op_type in _CLIPS:
            continue  # the quantized network still has the operator
        low, high = clip_ends(maker, constants)
        step = float(np.max(tensor.params.scale))
        through_low, through_high = low - values.min > step / 2, values.max - high > step / 2
        if not (through_low or through_high):
            continue
        ends = f"{low:g} to {high:g}" if high < inf else f"{low:g} and more"
        places.append(
            Place(
                tensor.name,
                f"its range is [{range_of(tensor)[0]:.4g}, {range_of(tensor)[1]:.4g}] and its "
                f"values reach from {values.min:.4g} to {values.max:.4g}, where the float "
                f"{maker.op_type} lets through {ends}",
                {
                    "range": list(range_of(tensor)),
                    "values": [values.min, values.max],
                    "clip": [low if low > -inf else None, high if high < inf else None],
                },
            )
        )
        edits.append(
            SetRange(tensor.name, max(low, range_of(tensor)[0]), min(high, range_of(tensor)[1]))
        )
    if places:
        yield Finding(
            KIND,
            f"A folded ReLU or Clip no longer clips in {many(len(places), 'tensor')}",
            WHY,
            tuple(places),
            (Remedy(f"end {many(len(edits), 'range')} where the float model clips", tuple(edits)),),
            tensors=tuple(place.where for place in places),
        )


def clip_ends(layer: Layer, constants: Constants) -> tuple[float, float]:
    """Read what a ReLU or Clip lets through; an end that is not known is infinite."""
    if layer.op_type == "Relu":
        return 0.0, inf
    found = [-inf, inf]
    for place, name in enumerate(("min", "max")):
        given = layer.attributes.get(name)
        if isinstance(given, int | float):
            found[place] = float(given)
        elif len(layer.inputs) > place + 1:
            array = constants.array(layer.inputs[place + 1])
            if array is not None and array.size == 1:
                found[place] = float(array.reshape(-1)[0])
    return found[0], found[1]
