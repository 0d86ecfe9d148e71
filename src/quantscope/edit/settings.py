"""This module makes new parameters for a quantized tensor, or raises one line that says why not."""

import math
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from quantscope.arithmetic import QuantParams, params_from_range
from quantscope.edit.edits import SetRange, SetScale, SetZeroPoint
from quantscope.errors import BadConfigError, BadModelError
from quantscope.files import as_argument
from quantscope.model import Layer, Network, QuantTensor, Role

Array = NDArray[Any]


def with_scale(tensor: QuantTensor, params: QuantParams, edit: SetScale) -> QuantParams:
    """Give the parameters with the scale that the edit names, or the present one times a factor."""
    if (edit.scale is None) == (edit.factor is None):
        raise BadConfigError(
            f"The scale of {tensor.name} is to be set to a scale and by a factor; give one of them"
            if edit.factor is not None
            else f"No scale is given for {tensor.name}; give a scale or a factor"
        )
    if edit.factor is not None:
        if not (math.isfinite(edit.factor) and edit.factor > 0):
            raise BadConfigError(
                f"The factor {edit.factor:g} for the scale of {tensor.name} is not a positive "
                f"number; give one such as 2 or 0.5"
            )
        with np.errstate(over="ignore", under="ignore"):
            wanted = params.scale.astype(np.float64) * edit.factor
    else:
        wanted = _spread(tensor, params, edit.scale, "scale")
    return change_params(tensor, params, scale=wanted)


def with_zero_point(tensor: QuantTensor, params: QuantParams, edit: SetZeroPoint) -> QuantParams:
    return change_params(
        tensor, params, zero_point=_spread(tensor, params, edit.zero_point, "zero-point")
    )


def with_range(tensor: QuantTensor, params: QuantParams, edit: SetRange) -> QuantParams:
    """Give the parameters for a range by onnxruntime's rule for calibrated ranges.

    They are symmetric where the zero-point has to stay 0, and the same for all channels.
    """
    shown = f"[{edit.lo:g}, {edit.hi:g}]"
    if math.isfinite(edit.lo) and math.isfinite(edit.hi):
        if not edit.lo <= 0 <= edit.hi and edit.lo <= edit.hi:
            raise BadConfigError(
                f"The range {shown} for {tensor.name} does not hold 0, which {params.dtype} must "
                f"represent exactly; give a low end of 0 or less and a high end of 0 or more"
            )
        if edit.lo == edit.hi:
            raise BadConfigError(
                f"The range {shown} for {tensor.name} is empty, so its scale would be 0; "
                f"give two ends that differ"
            )
    with np.errstate(over="ignore"):
        found = checked(
            tensor,
            lambda: params_from_range(
                edit.lo,
                edit.hi,
                params.dtype,
                symmetric=stays_symmetric(tensor, params),
                ends=params.ends,
            ),
        )
    if edit.hi - edit.lo < float(found.scale) == 1:  # the rule's way out of denormals
        raise BadConfigError(
            f"The range {shown} for {tensor.name} is too narrow: its scale would be denormal"
        )
    shape = params.scale.shape
    return change_params(
        tensor,
        params,
        scale=np.broadcast_to(found.scale, shape),
        zero_point=np.broadcast_to(found.zero_point, shape),
    )


def stays_symmetric(tensor: QuantTensor, params: QuantParams) -> bool:
    """Tell whether a zero-point has to stay 0: integer kernels count on it for signed weights."""
    return tensor.role != "activation" and params.qmin < 0 and not params.zero_point.any()


def change_params(
    tensor: QuantTensor,
    params: QuantParams,
    *,
    scale: Array | None = None,
    zero_point: Array | None = None,
) -> QuantParams:
    """Give the same parameters with another scale or zero-point, in the scale's own type."""
    kind = params.scale.dtype
    if scale is not None:
        _check_positive(tensor, np.asarray(scale, np.float64), kind)
        with np.errstate(over="ignore", under="ignore"):
            scale = np.asarray(scale, np.float64).astype(np.float32).astype(kind)
    return checked(
        tensor,
        lambda: params.changed(scale=scale, zero_point=zero_point),
    )


def _spread(tensor: QuantTensor, params: QuantParams, given: Any, what: str) -> Array:
    """Spread one number, or one for each channel, over the shape of the scale; give a copy."""
    values = np.asarray(given)
    count = params.scale.size
    if values.dtype.kind == "O" and all(isinstance(value, int) for value in values.flat):
        if what == "zero-point":  # 64 bits and more
            raise BadConfigError(
                f"{tensor.name}: zero-point {max(values.flat, key=abs)} does not fit "
                f"{params.dtype}; give one from {params.qmin} to {params.qmax}"
            )
        values = values.astype(np.float64)
    if values.dtype.kind not in ("iu" if what == "zero-point" else "iuf"):
        kind = "whole number" if what == "zero-point" else "number"
        raise BadConfigError(f"The {what} {given!r} for {tensor.name} is not a {kind}")
    if values.ndim and values.size != count:
        needed = "one" if count == 1 else f"{count}, one per channel"
        raise BadConfigError(
            f"{values.size} {what}s are given for {tensor.name}, which has {needed}"
        )
    return np.array(np.broadcast_to(values.reshape(-1), (count,)).reshape(params.scale.shape))


def _check_positive(tensor: QuantTensor, scale: Array, kind: np.dtype[Any]) -> None:
    info = ml_dtypes.finfo(kind)  # type: ignore[no-untyped-call]
    smallest, largest = float(info.smallest_normal), float(info.max)
    values = scale.ravel()
    with np.errstate(over="ignore", under="ignore"):
        stored = values.astype(kind).astype(np.float64)
    bad = ~np.isfinite(stored) | (stored < smallest) | (values <= 0)
    if not bad.any():
        return
    where = int(np.argmax(bad))
    value = float(values[where])
    why = "is too small (denormal)"
    if not math.isfinite(value):
        why = "is not finite"
    elif value <= 0:
        why = "is not positive"
    elif value > 1:
        why = "is too large"
    place = f" (channel {where})" if values.size > 1 else ""
    raise BadConfigError(
        f"The scale {value:g}{place} for {tensor.name} {why}; "
        f"give a number from {smallest:.2g} to {largest:.2g}"
    )


def checked(tensor: QuantTensor, make: Any) -> QuantParams:
    """Make parameters; begin the line of an error with the tensor's name."""
    try:
        found: QuantParams = make()
    except BadConfigError as error:
        text = str(error).removesuffix(".")
        raise BadConfigError(f"{tensor.name}: {text[0].lower()}{text[1:]}") from None
    return found


ALL = "all"
"""The name for all that is quantized, where an edit takes one."""

ROLES: dict[str, tuple[Role, ...]] = {
    "weights": ("weight", "bias"),
    "activations": ("activation",),
}
"""The roles of the tensors that a person means by all weights, and by all activations."""

_PARTS = (".out", ".weight", ".bias")


def find_tensor(network: Network, name: str) -> QuantTensor:
    """Find a tensor by its name here or in the file; say so if it is there but not quantized.

    A model lifted to QDQ is asked by the names of the file that it was lifted from.
    """
    for tensor in network.tensors:
        if tensor.name == name:
            return tensor
    for tensor in network.tensors:
        if name in (tensor.float_name, *tensor.integer_names, *tensor.dequantized_names):
            return tensor
    file = network.path.name
    layer = _layer(network, name)
    if layer is not None:
        parts = ", ".join(part.name for part in parts_of(network, layer)) or "none is quantized"
        raise BadModelError(f"{name!r} is a layer of {file}; name one of its tensors: {parts}")
    if _is_plain(network, name):
        raise BadModelError(
            f"{name!r} is not quantized in {file}, so it has no scale to change. "
            f"List the quantized tensors with: quantscope inspect {as_argument(network.path)}"
        )
    raise network.missing("quantized tensor", name, [t.name for t in network.tensors])


def find_target(network: Network, name: str) -> tuple[QuantTensor, ...]:
    """Find the tensors that `Off` and `On` speak of; a name of ours goes before one of the file."""
    own = [tensor for tensor in network.tensors if tensor.name == name]
    if own:
        return (own[0],)
    layer = _layer(network, name)
    if layer is not None:
        parts = parts_of(network, layer)
        if not parts:
            raise BadModelError(
                f"Layer {name!r} of {network.path.name} has no quantized weight, bias or output"
            )
        return parts
    if any(name in (t.float_name, *t.integer_names, *t.dequantized_names) for t in network.tensors):
        return (find_tensor(network, name),)
    if _is_plain(network, name):
        return (find_tensor(network, name),)  # raises, and says that it is not quantized
    known = [t.name for t in network.tensors] + [x.name for x in network.layers]
    raise network.missing("layer or quantized tensor", name, known)


def parts_of(network: Network, layer: Layer) -> tuple[QuantTensor, ...]:
    """Give the quantized constants that a layer reads and the quantized tensors that it makes."""
    constants = [o.quant for o in layer.inputs if o.quant and o.quant.role != "activation"]
    made = network.activations_by_layer.get(layer.name, ())
    return tuple(dict.fromkeys([*constants, *made]))


def _layer(network: Network, name: str) -> Layer | None:
    for layer in network.layers:
        if layer.name == name:
            return layer
    return next((layer for layer in network.layers if layer.node_name == name != ""), None)


def _is_plain(network: Network, name: str) -> bool:
    """Tell whether a value has this name in the file, or as layer.out, .weight or .bias."""
    operands = [o for layer in network.layers for o in (*layer.inputs, *layer.outputs)]
    if any(operand.name == name for operand in (*operands, *network.inputs)):
        return True
    for part in _PARTS:
        layer = _layer(network, name.removesuffix(part)) if name.endswith(part) else None
        if layer is not None:
            roles = {"activation"} if part == ".out" else {part.removeprefix(".")}
            there = layer.outputs if part == ".out" else layer.inputs
            return any(operand.role in roles for operand in there)
    return False
