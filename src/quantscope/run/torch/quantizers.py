"""The quantizers of a PT2E program, as functions from real numbers to real numbers.

What a program writes as integers and reads back stays in floats here: the same numbers by a third
of the operations, since integers of few bits are exact in float32.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from quantscope.model import QuantTensor

if TYPE_CHECKING:
    import torch
    from torch.fx import Node


Ends = NDArray[np.float64]


Apply = Callable[["torch.Tensor"], "torch.Tensor"]
"""A function from real numbers to real numbers, which leaves what it is given as it is."""


QUANTIZE = ("quantize_per_tensor", "quantize_per_channel")
# Integers of so few bits, and their differences from a zero-point, are exact in float32.
_MOST_BITS = 16


def operator_of(node: "Node") -> str:
    """Name the operator, such as `quantized_decomposed.quantize_per_tensor`, without overload."""
    packet = getattr(node.target, "overloadpacket", None)
    return str(packet) if packet is not None else str(node.target)


def is_quantize(node: "Node") -> bool:
    return operator_of(node).split(".")[-1] in QUANTIZE


@dataclass(frozen=True, eq=False)
class ProgramQuantizer:
    """One quantized activation: `node` writes its integers, None where a layer only moves them.

    `low` and `high` are the ends of what it can represent, computed as it dequantizes, of the
    scale's shape. `is_plain`: one scale, given as a number, and integers that nothing reads but its
    own dequantizers, which `dequantized` names.
    """

    tensor: QuantTensor
    node: "Node | None"
    apply: "Apply"
    low: Ends
    high: Ends
    is_plain: bool
    dequantized: tuple[str, ...]

    @property
    def reads(self) -> str | None:
        return None if self.node is None else str(self.node.args[0])

    @property
    def numbers(self) -> tuple[Any, ...]:
        """The scale, zero-point, limits and type, as its node has them."""
        return () if self.node is None else (*self.node.args[1:], dict(self.node.kwargs))


def no_quantizer(tensor: QuantTensor, value: str) -> ProgramQuantizer:
    """Stand in for the quantizer of a tensor that is left as computed, under the name `value`."""

    def apply(value: "torch.Tensor") -> "torch.Tensor":
        return value.clone()  # what it gives may be written over

    ends = np.array(-np.inf), np.array(np.inf)
    return ProgramQuantizer(tensor, None, apply, *ends, False, (value,))


def quantizer_of(
    tensor: QuantTensor,
    nodes: "Mapping[str, Node]",
    constants: Mapping[str, Any],
    outputs: Sequence[str],
) -> ProgramQuantizer:
    """Find a tensor's quantizer; in floats where its integers are exact there."""
    made_by = [nodes[name] for name in tensor.integer_names if name in nodes]
    node = next((each for each in made_by if is_quantize(each)), None)
    ends = _ends(tensor, node)
    if node is None or not tensor.params.is_per_tensor or tensor.params.bits > _MOST_BITS:
        return ProgramQuantizer(
            tensor,
            node,
            _as_stated(tensor, node, constants),
            *ends,
            False,
            tensor.dequantized_names,
        )
    step = node.args[1]
    is_plain = isinstance(step, float) and _is_only_dequantized(tensor, made_by, outputs)
    scale = step if isinstance(step, float) else float(tensor.params.scale)
    zero_point = int(tensor.params.zero_point)
    low, high = _limits(tensor, node)
    return ProgramQuantizer(
        tensor,
        node,
        _in_floats(scale, low - zero_point, high - zero_point),
        *ends,
        is_plain,
        tensor.dequantized_names,
    )


def _in_floats(scale: float, lowest: int, highest: int) -> Apply:
    inverse = 1.0 / scale  # quantized_decomposed multiplies by the reciprocal

    def apply(value: "torch.Tensor") -> "torch.Tensor":
        scaled = value.float() * inverse  # in float32, as quantized_decomposed does
        return scaled.round_().clamp_(lowest, highest).mul_(scale)

    return apply


def _as_stated(tensor: QuantTensor, node: "Node | None", constants: Mapping[str, Any]) -> Apply:
    """Use the program's own operators, or, for integers that a layer moves, the numbers."""
    params = tensor.params
    if node is None and params.is_per_tensor:
        scale, zero_point = float(params.scale), int(params.zero_point)
        return _in_floats(scale, int(params.qmin) - zero_point, int(params.qmax) - zero_point)

    def apply(value: "torch.Tensor") -> "torch.Tensor":
        import torch
        from torch.fx.node import map_arg

        assert node is not None
        given: Any = map_arg(node.args[1:], lambda each: constants[each.name])
        integers = node.target(value, *given)  # type: ignore[operator]
        name = operator_of(node).split(".")[-1].replace("quantize", "dequantize")
        overload = getattr(node.target, "_overloadname", "default")
        back = getattr(getattr(torch.ops.quantized_decomposed, name), overload)
        found: torch.Tensor = back(integers, *given)
        return found

    return apply


def _limits(tensor: QuantTensor, node: "Node | None") -> tuple[int, int]:
    """Give the least and largest integer in use; the type may have more."""
    given = () if node is None else node.args
    place = 3 if tensor.params.is_per_tensor else 4
    low, high = given[place : place + 2] if len(given) >= place + 2 else (None, None)
    if isinstance(low, int) and isinstance(high, int):
        return low, high
    return int(tensor.params.qmin), int(tensor.params.qmax)


def _ends(tensor: QuantTensor, node: "Node | None") -> tuple[Ends, Ends]:
    params = tensor.params
    scale = params.scale.astype(np.float32)
    limits = _limits(tensor, node)
    ends = [scale * (np.float32(q) - params.zero_point).astype(np.float32) for q in limits]
    low, high = np.minimum(*ends), np.maximum(*ends)
    return np.asarray(low, np.float64), np.asarray(high, np.float64)


def _is_only_dequantized(
    tensor: QuantTensor, made_by: "Sequence[Node]", outputs: Sequence[str]
) -> bool:
    """Say whether nothing but dequantizers with the very same numbers reads the integers."""
    for node in made_by:
        if not is_quantize(node) or node.name in outputs or node.args[1:] != made_by[0].args[1:]:
            return False
        for user in node.users:
            if user.name not in tensor.dequantized_names or user.args[1:] != node.args[1:]:
                return False
            if user.kwargs:
                return False
    return True
