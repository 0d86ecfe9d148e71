"""Weights of two PyTorch programs: what rounding them to integers did, and whether they fit."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantscope.errors import BadModelError
from quantscope.model.pairing import Pairing, TensorPair
from quantscope.model.pairing_constants import Sample, weight_likeness
from quantscope.model.pairing_fit import UNLIKE
from quantscope.run.compare_results import TensorComparison, Uncompared
from quantscope.run.compare_weights import channel_axis, compared
from quantscope.run.torch_programs import Program, as_array

Values = NDArray[np.float64]


def check_weights_fit(floats: Program, quantized: Program, pairing: Pairing) -> None:
    """Most weights must be alike, or the two programs do not belong together."""
    likeness: dict[str, float] = {}
    for pair in pairing.pairs:
        if pair.role == "weight":
            both = float_constant(floats, pair), quantized.network.tensor(pair.name).values()
            like = None if both[0] is None else weight_likeness(*map(_sample, both))
            if like is not None:
                likeness[pair.layer or pair.name] = like
    unlike = [layer for layer, like in likeness.items() if like < UNLIKE]
    if len(unlike) * 2 > len(likeness):
        raise BadModelError(
            f"{floats.name} and {quantized.name} do not belong together: the layers match, but the "
            f"weights of {len(unlike)} of {len(likeness)} differ, first those of {unlike[0]} "
            f"(cosine {likeness[unlike[0]]:.2f}); give the float model that {quantized.name} was "
            f"made from"
        )


def _sample(array: Any) -> Sample:
    return Sample(array.shape, array.reshape(len(array), -1).astype(np.float64))


def compare_weights(
    floats: Program, quantized: Program, pairing: Pairing
) -> tuple[dict[str, TensorComparison], list[Uncompared]]:
    """By name; and those of which no float values are at hand."""
    found: dict[str, TensorComparison] = {}
    missing: list[Uncompared] = []
    for pair in pairing.pairs:
        if pair.role == "activation":
            continue
        result = _compare(floats, quantized, pair)
        if isinstance(result, str):
            missing.append(Uncompared(pair.name, pair.role, result))
        else:
            found[pair.name] = result
    return found, missing


def _compare(floats: Program, quantized: Program, pair: TensorPair) -> TensorComparison | str:
    if pair.through:
        folded = ", ".join(pair.through)
        return f"{folded} was folded into it: the float model does not hold what it was made from"
    tensor = quantized.network.tensor(pair.name)
    f = float_constant(floats, pair)
    if f is None or not tensor.has_data or pair.layer is None:
        return "its values are not stored in the file"
    q = tensor.values().astype(np.float64)
    if f.shape != q.shape:
        return f"its shape is {list(q.shape)}, the float one's {list(f.shape)}"
    axis = channel_axis(quantized.network.layer(pair.layer), q.ndim)
    return compared(pair, tensor, f, q, axis)


def float_constant(floats: Program, pair: TensorPair) -> Values | None:
    found = floats.constants.get(pair.float_name)
    return None if found is None else as_array(found).astype(np.float64)
