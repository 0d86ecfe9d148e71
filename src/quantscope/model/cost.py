"""This module counts a layer's multiply-accumulates, and the activations alive while it runs."""

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import NamedTuple

from quantscope.model.network import Shape

_CONVOLUTIONS = frozenset({"Conv", "FusedConv", "ConvInteger"})
_PRODUCTS = frozenset({"MatMul", "MatMulInteger", "FusedMatMul"})
_UNCOUNTED = frozenset(
    {
        "Attention",
        "DeformConv",
        "Einsum",
        "GRU",
        "GroupQueryAttention",
        "If",
        "LSTM",
        "Loop",
        "MultiHeadAttention",
        "QAttention",
        "RNN",
        "Scan",
    }
)


def count_macs(
    op_type: str,
    inputs: Sequence[Shape | None],
    output: Shape | None,
    attributes: Mapping[str, object],
) -> int | None:
    """Count multiply-accumulates, padding as if it were data; None if a dimension is unknown.

    It is None, too, for operators that compute in ways that are not looked into, and 0 for those
    that multiply no matrices.
    """
    if op_type in _UNCOUNTED:
        return None
    first, second = (_numbers(shape) for shape in (*inputs[:2], *[None] * (2 - len(inputs[:2]))))
    result = _numbers(output)
    if op_type in _CONVOLUTIONS:
        return None if result is None or not second else prod(result) * prod(second[1:])
    if op_type == "ConvTranspose":
        # Each input value meets all weights of its channel: [C, M/group, *kernel].
        return None if first is None or not second else prod(first) * prod(second[1:])
    if op_type in ("Gemm", "FusedGemm"):
        inner = 0 if attributes.get("transA") else -1
        return None if result is None or not first else prod(result) * first[inner]
    if op_type in _PRODUCTS:
        inner = -2 if attributes.get("transA") and first and len(first) > 1 else -1
        return None if result is None or not first else prod(result) * first[inner]
    return 0


def _numbers(shape: Shape | None) -> list[int] | None:
    if shape is None:
        return None
    dims = [dim for dim in shape if isinstance(dim, int)]
    return dims if len(dims) == len(shape) else None


class Lifetime(NamedTuple):
    """An activation from the layer that makes it to the last that reads it, by position.

    `size` is in bytes, None where unknown.
    """

    first: int
    last: int
    size: int | None


def live_bytes(lifetimes: Iterable[Lifetime], layer_count: int) -> list[int | None]:
    """Count, for each layer, the bytes of all activations that exist while it runs.

    It is None while one of unknown size does.
    """
    if layer_count == 0:
        return []
    # What comes and goes at each layer; their running sum is what is alive.
    change = [0] * (layer_count + 1)
    unknown = [0] * (layer_count + 1)
    for first, last, size in lifetimes:
        target, amount = (unknown, 1) if size is None else (change, size)
        target[first] += amount
        target[max(first, last) + 1] -= amount
    amounts: list[int | None] = []
    alive = blind = 0
    for index in range(layer_count):
        alive += change[index]
        blind += unknown[index]
        amounts.append(None if blind else alive)
    return amounts
