"""Compare the weights of two PyTorch programs: what rounding did, and whether they fit."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from quantscope.errors import BadModelError
from quantscope.model import compared_channel_axis
from quantscope.model.pairing import UNLIKE, Pairing, Sample, TensorPair, weight_likeness
from quantscope.run.compare import TensorComparison, Uncompared, compare_arrays
from quantscope.run.torch.nodes import as_array, names_read
from quantscope.run.torch.quantizers import operator_of

if TYPE_CHECKING:
    from quantscope.run.torch.program import ProgramRunnable

Values = NDArray[np.float64]


def check_weights_fit(
    floats: "ProgramRunnable", quantized: "ProgramRunnable", pairing: Pairing
) -> None:
    """Refuse two programs most of whose weights are unlike: they do not belong together."""
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
    floats: "ProgramRunnable", quantized: "ProgramRunnable", pairing: Pairing
) -> tuple[dict[str, TensorComparison], list[Uncompared]]:
    """Compare every weight and bias; give them by name, and those without float values at hand."""
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


def _compare(
    floats: "ProgramRunnable", quantized: "ProgramRunnable", pair: TensorPair
) -> TensorComparison | str:
    tensor = quantized.network.tensor(pair.name)
    f = float_values(floats, pair)
    if f is None and pair.through:
        folded = ", ".join(pair.through)
        return f"{folded} was folded into it; what it was rounded from is not computed here"
    if f is None or not tensor.has_data or pair.layer is None:
        return "its values are not stored in the file"
    q = tensor.values().astype(np.float64)
    if f.shape != q.shape:
        return f"its shape is {list(q.shape)}, the float one's {list(f.shape)}"
    axis = compared_channel_axis(quantized.network.layer(pair.layer), q.ndim)
    return compare_arrays(pair, tensor, f, q, axis)


def float_constant(floats: "ProgramRunnable", pair: TensorPair) -> Values | None:
    found = floats.constants.get(pair.float_name)
    return None if found is None else as_array(found).astype(np.float64)


def float_values(floats: "ProgramRunnable", pair: TensorPair) -> Values | None:
    """Give what it was rounded from, with a BatchNorm folded in; None where more is folded."""
    found = float_constant(floats, pair)
    if found is None or not pair.through:
        return found
    if pair.through != ("BatchNormalization",) or pair.role != "weight" or not pair.float_layer:
        return None
    factor = _batch_norm_factor(floats, pair.float_name)
    axis = compared_channel_axis(floats.network.layer(pair.float_layer), found.ndim)
    if factor is None or factor.shape != (found.shape[axis],):
        return None
    return found * factor.reshape([-1 if at == axis else 1 for at in range(found.ndim)])


def _batch_norm_factor(floats: "ProgramRunnable", weight: str) -> Values | None:
    """Give the factor of each channel, of the BatchNorm that alone reads the weight's layer."""
    layers = [node for node in floats.nodes if weight in names_read(node)]
    users = list(layers[0].users) if len(layers) == 1 else []
    if len(users) != 1 or "batch_norm" not in operator_of(users[0]):
        return None
    (norm,) = users
    names = [each.name for each in norm.target._schema.arguments]  # type: ignore[union-attr]
    given: dict[str, Any] = {**dict(zip(names, norm.args, strict=False)), **norm.kwargs}
    parts = [str(given.get(key)) for key in ("weight", "running_var")]
    if not floats.constants.keys() >= set(parts) or given.get("training"):
        return None
    scale, variance = (as_array(floats.constants[part]).astype(np.float64) for part in parts)
    return np.asarray(scale / np.sqrt(variance + given["eps"]))
