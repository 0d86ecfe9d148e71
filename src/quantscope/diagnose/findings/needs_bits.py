"""Inputs of functions that need finer steps than 8 bits give them."""

from collections.abc import Iterator

import numpy as np

from quantscope.diagnose.evidence import Evidence, range_of
from quantscope.diagnose.results import Finding, Place, Remedy
from quantscope.edit import Off, SetBits
from quantscope.plain_text import many
from quantscope.run import TensorComparison

KIND = "needs-bits"
WHY = (
    "These functions turn a difference of inputs into a ratio of outputs, so a coarse step at "
    "their input is a large error behind them, however wide the range."
)
# Half a step of 0.25 changes e^x by an eighth.
_STEP = 0.25
_OF_DEVIATION = frozenset({"InstanceNormalization", "LayerNormalization", "RMSNormalization"})
_ABSOLUTE = frozenset({"LogSoftmax", "Sigmoid", "Softmax", "Tanh"})


def coarse_inputs(evidence: Evidence) -> dict[str, tuple[str, str, float]]:
    """Give, by tensor, the layer and operator that reads it, and its step in what matters there."""
    layers = {layer.name: layer for layer in evidence.network.layers}
    found: dict[str, tuple[str, str, float]] = {}
    for tensor, row in evidence.activations:
        step = float(np.max(tensor.params.scale))
        for name in tensor.consumers:
            op_type = layers[name].op_type if name in layers else ""
            unit = _unit(op_type, row)
            if unit is not None and unit > 0 and step / unit > _STEP:
                found.setdefault(tensor.name, (name, op_type, step / unit))
    return found


def _unit(op_type: str, row: TensorComparison) -> float | None:
    if op_type in _ABSOLUTE:
        return 1.0
    if op_type in _OF_DEVIATION and row.float_values is not None:
        return row.float_values.std
    return None


def find(evidence: Evidence) -> Iterator[Finding]:
    """Hold the step of each input against what the function that reads it can tell apart."""
    rows = {tensor.name: tensor for tensor, _ in evidence.activations}
    places: list[Place] = []
    for name, (layer, op_type, step) in coarse_inputs(evidence).items():
        low, high = range_of(rows[name])
        unit = " standard deviations" if op_type in _OF_DEVIATION else ""
        places.append(
            Place(
                name,
                f"its steps over [{low:.4g}, {high:.4g}] are {step:.3g}{unit} each, and {layer} "
                f"({op_type}) tells {_STEP}{unit} apart",
                {"range": [low, high], "step": step, "layer": layer, "op_type": op_type},
            )
        )
    if places:
        names = tuple(place.where for place in places)
        inputs = many(len(names), "input")
        yield Finding(
            KIND,
            f"Functions that need finer steps read {many(len(places), 'tensor')}",
            WHY,
            tuple(places),
            (
                Remedy(f"leave {inputs} float", tuple(Off(name) for name in names)),
                Remedy(f"give {inputs} 16 bits", tuple(SetBits(name, 16) for name in names)),
            ),
            tensors=names,
        )
