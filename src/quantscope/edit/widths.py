"""This module gives tensors other bits, and the ranges that go with them."""

from collections.abc import Mapping, Sequence

from quantscope.arithmetic import (
    QuantParams,
    type_for,
    with_bits,
)
from quantscope.edit.edits import RANGE_RULES, RangeRule, SetBits, SetRange
from quantscope.edit.settings import ALL, ROLES, checked, find_target, with_range
from quantscope.edit.values import Array, FloatValues
from quantscope.errors import BadConfigError
from quantscope.model import Network, QuantTensor

PACKED_BITS = 4
"""The bits of stored integers that have a type of their own in ONNX, which onnxruntime runs."""

MANY = (ALL, *ROLES)
"""The targets that mean tensors by their role."""


def with_width(
    tensor: QuantTensor, params: QuantParams, bits: int, *, packs: bool = True
) -> QuantParams:
    """Give the parameters with other bits: stored integers of 4 bits in a type of 4 bits.

    Where no such type `packs` them, they lie in one of 8.
    """
    packed = {"int8": "int4", "uint8": "uint4", "int4": "int4", "uint4": "uint4"}

    def make() -> QuantParams:
        held = type_for(params, bits)
        is_packed = packs and bits == PACKED_BITS and tensor.has_data
        return with_bits(params, bits, dtype=packed[held] if is_packed else held)

    return checked(tensor, make)


def tensors_with_bits(network: Network, target: str) -> list[QuantTensor]:
    """Give the tensors of a target of `SetBits` that may have bits of their own: no biases."""
    if target not in MANY:
        return [tensor for tensor in find_target(network, target) if tensor.role != "bias"]
    roles = [role for name in ROLES if target in (ALL, name) for role in ROLES[name]]
    return [t for t in network.tensors if t.role in roles and t.role != "bias"]


def check_range_rule(edit: SetBits, chosen: Sequence[QuantTensor]) -> None:
    """Refuse a rule that nobody knows, and one that these tensors cannot follow."""
    if isinstance(edit.range, tuple):
        if len(chosen) > 1:
            names = ", ".join(tensor.name for tensor in chosen[:3])
            raise BadConfigError(
                f"{edit.target} is {len(chosen)} tensors, and the range "
                f"[{edit.range[0]:g}, {edit.range[1]:g}] is of one; name it: {names}"
                f"{', ...' * (len(chosen) > 3)}"
            )
        return
    if edit.range not in RANGE_RULES:
        raise BadConfigError(
            f"No rule for a range is called {edit.range!r}; there are: {', '.join(RANGE_RULES)}"
        )
    if edit.range == "keep":
        return
    computed = next((tensor for tensor in chosen if not tensor.has_data), None)
    if computed is not None:
        raise BadConfigError(
            f"{computed.name} is computed when the model runs, so its {edit.range} range needs "
            f"samples: quantscope.run.settle_ranges finds it, as whatif --bits does"
        )


def with_rule(
    tensor: QuantTensor,
    params: QuantParams,
    rule: RangeRule | tuple[float, float],
    floats: FloatValues,
    factors: Mapping[str, Array],
) -> QuantParams:
    """Give the parameters over another range: two ends, or a rule for stored values.

    `factors` are those that float values are multiplied with before.
    """
    if isinstance(rule, tuple):
        return with_range(tensor, params, SetRange(tensor.name, *rule))
    if rule == "keep":
        return params
    return checked(tensor, lambda: floats.ranged(tensor, params, factors, best=rule == "best"))
