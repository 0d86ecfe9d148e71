"""This module decides which tensors an edit may touch; a refusal is one line that says why not."""

import numpy as np

from quantscope.edit.edits import SetChannel, SetInteger
from quantscope.edit.values import IntegerEdit
from quantscope.edit.wiring import QdqGraph, Wiring
from quantscope.errors import BadConfigError, BadModelError
from quantscope.model import Network, QuantTensor
from quantscope.model.channels import edited_channel_axis
from quantscope.model.onnx import MOVES_INTEGERS

_QDQ = ("QuantizeLinear", "DequantizeLinear", "Constant")


def check_editable(wiring: Wiring, tensor: QuantTensor) -> QuantTensor:
    """Give the tensor back; raise if its parameters are not a QDQ pair's own to change."""
    graph = wiring.graph
    for name in tensor.integer_names:
        nodes = [graph.node(index) for index in graph.readers.get(name, ())]
        maker = graph.maker(name)
        for node in (*nodes, *([] if maker is None else [maker])):
            if node.op_type not in _QDQ and node.op_type not in MOVES_INTEGERS:
                raise BadModelError(
                    f"{tensor.name} cannot be edited: {node.op_type} "
                    f"{node.name!r} computes with its integers and has no form in QDQ"
                )
    if not any(
        _has_source(wiring, name) for name in (tensor.name, *wiring.value_mates[tensor.name])
    ):
        raise BadModelError(
            f"{tensor.name} cannot be edited: its integers are looked up in a table that the file "
            "stores, and are not quantized where they are read"
        )
    for index in wiring.dequantizers[tensor.name]:
        if _reads_otherwise(graph, index, tensor):
            raise BadModelError(
                f"{tensor.name} cannot be edited: it is written with one scale or zero-point and "
                "read with another"
            )
    return tensor


def _has_source(wiring: Wiring, name: str) -> bool:
    """Tell whether its integers are made by a quantizer, stored as such, or the model's input."""
    tensor, given = wiring.tensors[name], wiring.graph.inputs
    is_bias = name not in wiring.quantizers
    return (
        is_bias
        or bool(wiring.quantizers[name])
        or tensor.has_data
        or not given.isdisjoint(tensor.integer_names)
    )


def _reads_otherwise(graph: QdqGraph, index: int, tensor: QuantTensor) -> bool:
    """Tell whether a DequantizeLinear has another scale or zero-point than the tensor."""
    _, scale, zero_point = (*graph.node(index).input, "")[:3]
    scales, zeros = graph.array(scale), graph.array(zero_point) if zero_point else None
    params = tensor.params
    if scales is None:
        return False
    same_zeros = (
        not params.zero_point.any()
        if zeros is None
        else bool((zeros.astype(np.int64).ravel() == params.zero_point.ravel()).all())
    )
    return not (np.array_equal(scales.ravel(), params.scale.ravel()) and same_zeros)


def check_can_be_off(wiring: Wiring, tensor: QuantTensor) -> None:
    """Raise if the model gives or takes the tensor's integers, which would then not be there."""
    graph = wiring.graph
    check_editable(wiring, tensor)
    if any(name in graph.outputs for name in tensor.integer_names):
        raise BadModelError(
            f"{tensor.name} cannot be switched off: the model gives its integers as an output"
        )
    # Before IR version 4, initializers were listed among the inputs too.
    given = graph.inputs - graph.initializers.keys()
    if not given.isdisjoint(tensor.integer_names):
        raise BadModelError(
            f"{tensor.name} cannot be switched off: it comes into the model as "
            f"{tensor.params.dtype}"
        )


def check_integer_edit(network: Network, tensor: QuantTensor, edit: IntegerEdit) -> None:
    """Raise if the tensor stores no integers, or not this element, channel, value or bit."""
    if not tensor.has_data or tensor.shape is None:
        raise BadConfigError(
            f"{tensor.name} has no stored integers to set: it is computed when the model runs"
        )
    shape = tuple(int(dim) for dim in tensor.shape if isinstance(dim, int))
    if isinstance(edit, SetChannel):
        axis = edited_channel_axis(network, tensor)
        if not 0 <= edit.channel < shape[axis]:
            raise BadConfigError(
                f"{tensor.name} has no channel {edit.channel}; give one from 0 to {shape[axis] - 1}"
            )
        size = int(np.prod(shape)) // shape[axis]
        values = edit.values if isinstance(edit.values, tuple) else (edit.values,)
        if isinstance(edit.values, tuple) and len(values) != size:
            raise BadConfigError(
                f"{len(values)} integers are given for channel {edit.channel} of {tensor.name}, "
                f"which has {size}"
            )
        for value in values:
            _check_fits(tensor, value)
        return
    in_range = (0 <= place < size for place, size in zip(edit.index, shape, strict=False))
    if len(edit.index) != len(shape) or not all(in_range):
        raise BadConfigError(
            f"{tensor.name} has no element {list(edit.index)}; its shape is {list(shape)}"
        )
    if isinstance(edit, SetInteger):
        _check_fits(tensor, edit.value)
    elif not 0 <= edit.bit < tensor.params.bits or not tensor.params.is_integer:
        raise BadConfigError(
            f"{tensor.params.dtype} of {tensor.name} has no bit {edit.bit}; "
            f"give one from 0 to {tensor.params.bits - 1}"
        )


def _check_fits(tensor: QuantTensor, value: int) -> None:
    params = tensor.params
    if not params.qmin <= value <= params.qmax:
        raise BadConfigError(
            f"{value} does not fit {params.dtype} of {tensor.name}; "
            f"give an integer from {params.qmin} to {params.qmax}"
        )
