"""Write the bits of a tensor: the type of its integers, and the ends that a Clip keeps them in."""

from collections.abc import Iterator

import numpy as np
from onnx import helper

from quantscope.arithmetic import QuantParams, storage_dtype
from quantscope.edit.onnx.rewrite import Rewrite
from quantscope.edit.wiring import Wiring
from quantscope.errors import BadModelError
from quantscope.model import QuantTensor
from quantscope.model.onnx import ENDS_KEY

_CLIPS_INTEGERS_OPSET = 12
_SMALL_TYPES_OPSET = 21
"""The first opset in which ONNX's own quantizers have types of 4 and 16 bits."""
_MICROSOFT = "com.microsoft"
_USUAL = ("int8", "uint8")


def set_type(
    rewrite: Rewrite, wiring: Wiring, tensor: QuantTensor, params: QuantParams, opset: int
) -> None:
    """Let the quantizers of a tensor take the type of its zero-point; refuse what cannot move."""
    graph = wiring.graph
    if not graph.outputs.isdisjoint(tensor.integer_names) or not graph.inputs.isdisjoint(
        tensor.integer_names
    ):
        raise BadModelError(
            f"{tensor.name} keeps its {tensor.params.dtype}: the model takes or gives its integers"
        )
    moving = next((op for op in _moves(wiring, tensor) if op == "MaxPool"), None)
    if moving and params.dtype not in _USUAL:
        raise BadModelError(
            f"{tensor.name} cannot be {params.dtype}: a {moving} moves its integers, which "
            f"onnxruntime does for 8 bits only"
        )
    own = "" if opset >= _SMALL_TYPES_OPSET or params.dtype in _USUAL else _MICROSOFT
    for index in (*wiring.quantizers.get(tensor.name, ()), *wiring.dequantizers[tensor.name]):
        rewrite.set_type(index, own)
    rewrite.retype(tensor.integer_names)


def _moves(wiring: Wiring, tensor: QuantTensor) -> Iterator[str]:
    graph = wiring.graph
    for name in tensor.integer_names:
        yield from (graph.node(index).op_type for index in graph.readers.get(name, ()))


def set_ends(
    rewrite: Rewrite, wiring: Wiring, tensor: QuantTensor, params: QuantParams, opset: int
) -> None:
    """Let a Clip behind each quantizer keep the integers within the ends in use.

    Stored integers lie within them by themselves, and the node that reads them states the ends. The
    Clips that the file has are used, or go.
    """
    if tensor.has_data:
        text = None if params.ends is None else f"{params.qmin},{params.qmax}"
        for index in wiring.dequantizers[tensor.name]:
            rewrite.state(index, ENDS_KEY, text)
        return
    present = find_clips(wiring, tensor)
    quantizers = wiring.quantizers.get(tensor.name, ())
    if params.ends is None:
        for index in present:
            node = wiring.graph.node(index)
            rewrite.drop(index)
            rewrite.substitute(node.output[0], node.input[0])
        return
    if opset < _CLIPS_INTEGERS_OPSET:
        raise BadModelError(
            f"{tensor.name} cannot have {params.bits} bits: integers are clipped from opset "
            f"{_CLIPS_INTEGERS_OPSET} on, and the model has {opset}"
        )
    stored = storage_dtype(params.dtype)
    ends = [
        rewrite.new_constant(f"{tensor.integer_names[0]}_{word}", np.asarray(end, stored))
        for word, end in (("lowest", params.qmin), ("highest", params.qmax))
    ]
    for index in present:
        for place, name in enumerate(ends, start=1):
            rewrite.set_input(index, place, name)
    clipped = {wiring.graph.node(index).input[0] for index in present}
    for index in quantizers:
        integer = wiring.graph.node(index).output[0]
        if integer in clipped:
            continue
        whole = rewrite.fresh(f"{integer}_unclipped")
        rewrite.set_output(index, whole)
        name = rewrite.fresh(f"{integer}_clip")
        rewrite.put_after(index, [helper.make_node("Clip", [whole, *ends], [integer], name=name)])


def find_clips(wiring: Wiring, tensor: QuantTensor) -> tuple[int, ...]:
    """Find the Clips in the file that keep the integers of a tensor within its ends."""
    graph = wiring.graph
    places = (graph.makers.get(name) for name in tensor.integer_names)
    return tuple(i for i in places if i is not None and graph.node(i).op_type == "Clip")
