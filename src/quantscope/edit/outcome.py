"""This module finds what a plan makes of each tensor: parameters, integers or float values."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantscope.arithmetic import QuantParams, quantize
from quantscope.edit.biases import BiasOutcome, bias_outcomes
from quantscope.edit.plan import EditPlan
from quantscope.edit.values import FloatValues, round_anew, with_edits
from quantscope.edit.wiring import Wiring
from quantscope.model import Network, QuantTensor, edited_channel_axis

Array = NDArray[Any]


@dataclass(frozen=True)
class TensorOutcome:
    """The tensor that a plan reaches, with what it becomes.

    `params` is None if it is not quantized any more. `integers` and `real` are the new values of a
    constant, None where it keeps those it has and where there is no constant. `set_by_hand` says
    that the integers are not what rounding gives.
    """

    tensor: QuantTensor
    params: QuantParams | None
    integers: Array | None = None
    real: Array | None = None
    integers_changed: int = 0
    set_by_hand: bool = False


@dataclass(frozen=True)
class Outcome:
    """All that may differ from the unedited model; biases are listed by the layer that adds them.

    A bias that two layers add is there twice, since each has an input scale of its own.
    """

    tensors: tuple[TensorOutcome, ...]
    biases: tuple[BiasOutcome, ...]
    notes: tuple[str, ...]


def resolve(plan: EditPlan, wiring: Wiring, network: Network, floats: FloatValues) -> Outcome:
    """Find parameters, integers and float values of all that a plan reaches; nothing is written."""
    notes = list(plan.notes)
    biases = tuple(bias_outcomes(plan, wiring, floats, notes.append))
    reached = {*plan.params, *plan.off, *plan.integers, *plan.factors} - wiring.derived
    tensors = tuple(
        _outcome(plan, network, floats, wiring.tensors[name], notes)
        for name in wiring.in_order(reached)
    )
    notes += floats.notes(_rounded(tensors, biases))
    return Outcome(tensors, biases, tuple(dict.fromkeys(notes)))


def _outcome(
    plan: EditPlan, network: Network, floats: FloatValues, tensor: QuantTensor, notes: list[str]
) -> TensorOutcome:
    is_off = tensor.name in plan.off
    params = plan.params_of(tensor)
    if not tensor.has_data:
        return TensorOutcome(tensor, None if is_off else params)
    if is_off:
        return TensorOutcome(tensor, None, real=floats.rescaled(tensor, plan.factors))
    old = tensor.integers()
    new = old
    is_rescaled = tensor.name in plan.factors
    if is_rescaled:
        new = quantize(floats.rescaled(tensor, plan.factors), params)
    elif params != tensor.params:
        new = round_anew(old, tensor.params, params, floats.of(tensor))
    if (is_rescaled or params != tensor.params) and (others := floats.count_unrounded(tensor)):
        notes.append(
            f"{others} integers of {tensor.name} are not the nearest to its float values in "
            "the file; where the parameters move, they are now"
        )
    if tensor.name in plan.integers:
        axis = edited_channel_axis(network, tensor)
        edits = plan.integers[tensor.name]
        new = with_edits(new, params, edits, axis=axis, note=notes.append)
    # ml_dtypes' small types are compared as integers of 32 bits.
    moved = np.count_nonzero(new.astype(np.int32) != old.astype(np.int32))
    changed = 0 if new is old else int(moved)
    return TensorOutcome(
        tensor,
        params,
        new if changed or params.dtype != tensor.params.dtype else None,
        integers_changed=changed,
        set_by_hand=tensor.name in plan.integers or is_rescaled,
    )


def _rounded(tensors: tuple[TensorOutcome, ...], biases: tuple[BiasOutcome, ...]) -> Iterator[str]:
    """Name the constants whose float values were asked for."""
    for each in tensors:
        if each.real is not None or (each.tensor.has_data and each.params != each.tensor.params):
            yield each.tensor.name
    for bias in biases:
        yield bias.site.name
