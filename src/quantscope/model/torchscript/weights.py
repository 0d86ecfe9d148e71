"""This module unpacks weights that torch packed for its quantized kernels; torch is needed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from quantscope.arithmetic import QuantParams
from quantscope.model.network import Array, AttributeValue
from quantscope.model.torch import attributes_from, op_type_of

_NAMES = {"torch.qint8": "int8", "torch.quint8": "uint8", "torch.qint32": "int32"}


@dataclass(frozen=True)
class Unpacked:
    """The unpacked weights of a layer, and its operator in ONNX's words.

    `weight` is torch's quantized tensor; `bias` is float, which is how torch keeps it.
    """

    op_type: str
    attributes: Mapping[str, AttributeValue]
    weight: Any
    bias: Any

    @property
    def params(self) -> QuantParams:
        import torch

        weight, dtype = self.weight, _NAMES[str(self.weight.dtype)]
        if weight.qscheme() in (torch.per_channel_affine, torch.per_channel_symmetric):
            return QuantParams(
                weight.q_per_channel_scales().numpy(),
                weight.q_per_channel_zero_points().numpy(),
                dtype,
                axis=weight.q_per_channel_axis(),
            )
        return QuantParams(weight.q_scale(), weight.q_zero_point(), dtype)

    def integers(self) -> Array:
        return np.asarray(self.weight.int_repr().numpy())


def is_packed(value: Any) -> bool:
    import torch

    return isinstance(value, torch.ScriptObject)


def unpack(operator: str, packed: Any) -> Unpacked:
    """Unpack weights; `operator` reads them, such as `conv2d` or `linear_dynamic`."""
    import torch

    ops = torch.ops.quantized
    kind = operator.removesuffix("_dynamic")
    weight, bias = getattr(ops, f"{kind}_unpack")(packed)
    op_type = op_type_of(kind, {})
    settings: dict[str, Any] = {"weight": None}
    if op_type == "Conv":
        for key in ("stride", "padding", "dilation"):
            settings[key] = list(getattr(ops, f"{kind}_{key}")(packed))
        settings["groups"] = int(getattr(ops, f"{kind}_groups")(packed))
    return Unpacked(
        op_type=op_type,
        attributes=attributes_from(op_type, settings, weight_shape=list(weight.shape)),
        weight=weight,
        bias=None if bias is None else bias.detach(),
    )


def quantized_constant(tensor: Any, params: QuantParams) -> Callable[[], Array]:
    """Give a way to read a float constant as torch quantizes it when the graph runs."""
    import torch

    kind = {"int8": torch.qint8, "uint8": torch.quint8, "int32": torch.qint32}[params.dtype]
    scale, zero_point = float(params.scale), int(params.zero_point)

    def read() -> Array:
        quantized = torch.quantize_per_tensor(tensor.float(), scale, zero_point, kind)
        return np.asarray(quantized.int_repr().numpy())

    return read
