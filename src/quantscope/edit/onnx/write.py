"""This module writes what edits made of the tensors into a copy of a QDQ graph.

All else in the graph keeps its bytes.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

from quantscope.arithmetic import QuantParams, storage_dtype
from quantscope.edit.biases import BiasOutcome
from quantscope.edit.clips import FoldedClip, clip_node
from quantscope.edit.onnx.bits import find_clips, set_ends, set_type
from quantscope.edit.onnx.rewrite import Rewrite
from quantscope.edit.outcome import Outcome, TensorOutcome
from quantscope.edit.subject import Clips
from quantscope.edit.wiring import Wiring
from quantscope.model import QuantTensor
from quantscope.model.onnx import MOVES_INTEGERS

Array = NDArray[Any]

_BIAS_PLACE = 2


def write_graph(wiring: Wiring, outcome: Outcome, clips: Clips, *, opset: int) -> onnx.ModelProto:
    """Make the new model; a constant that something else reads too is stored a second time."""
    rewrite = Rewrite(wiring.graph)
    for each in outcome.tensors:
        if each.params is not None:
            _set_tensor(rewrite, wiring, each, opset)
        elif each.real is not None:
            _constant_off(rewrite, wiring, each.tensor, each.real)
        else:
            _activation_off(rewrite, wiring, each.tensor, clips.get(each.tensor.name, ()), opset)
    _set_biases(rewrite, outcome.biases)
    return rewrite.finish()


def _set_tensor(rewrite: Rewrite, wiring: Wiring, outcome: TensorOutcome, opset: int) -> None:
    tensor, params = outcome.tensor, outcome.params
    assert params is not None
    quantizers = wiring.quantizers.get(tensor.name, ())
    nodes = (*quantizers, *wiring.dequantizers[tensor.name])
    has_new_type = params.dtype != tensor.params.dtype
    if has_new_type:
        set_type(rewrite, wiring, tensor, params, opset)
    if params.ends != tensor.params.ends or has_new_type:
        set_ends(rewrite, wiring, tensor, params, opset)
    if not np.array_equal(params.scale, tensor.params.scale):
        for index in nodes:
            rewrite.want(wiring.graph.node(index).input[1], (index,), params.scale)
    if has_new_type or not np.array_equal(params.zero_point, tensor.params.zero_point):
        _set_zero_point(rewrite, tensor, params, nodes)
    if outcome.integers is not None and not quantizers:
        name = tensor.integer_names[0]
        # The rows of a table are looked up, then dequantized.
        readers = wiring.graph.readers.get(name, ())
        moves = [i for i in readers if wiring.graph.node(i).op_type in MOVES_INTEGERS]
        rewrite.want(name, (*nodes, *moves), outcome.integers)
    elif outcome.integers is not None and outcome.set_by_hand:
        # The file rounds a float constant while it runs; only stored integers can be set.
        for index in quantizers:
            rewrite.drop(index)
            rewrite.store(wiring.graph.node(index).output[0], outcome.integers)


def _set_zero_point(
    rewrite: Rewrite, tensor: QuantTensor, params: QuantParams, nodes: Sequence[int]
) -> None:
    values = params.zero_point.astype(np.int32).astype(storage_dtype(params.dtype))
    added: str | None = None
    for index in nodes:
        name = (*rewrite.base.node(index).input, "")[2]
        if name:
            rewrite.want(name, (index,), values)
        else:
            added = added or rewrite.new_constant(f"{tensor.integer_names[0]}_zero_point", values)
            rewrite.set_input(index, 2, added)


def _constant_off(rewrite: Rewrite, wiring: Wiring, tensor: QuantTensor, real: Array) -> None:
    """Put the float values in the place, and under the name, of the dequantized ones."""
    graph = wiring.graph
    dequantizers = wiring.dequantizers[tensor.name]
    outputs = [graph.node(index).output[0] for index in dequantizers]
    for index in (*wiring.quantizers.get(tensor.name, ()), *dequantizers):
        rewrite.drop(index)
    if outputs:
        rewrite.store(outputs[0], real)
    name = outputs[0] if outputs else rewrite.new_constant(f"{tensor.integer_names[0]}_real", real)
    for other in (*tensor.integer_names, *outputs[1:]):
        rewrite.substitute(other, name)


def _activation_off(
    rewrite: Rewrite,
    wiring: Wiring,
    tensor: QuantTensor,
    clips: tuple[FoldedClip, ...],
    opset: int,
) -> None:
    """Let readers take the value that was quantized, or what the clips make of it."""
    graph = wiring.graph
    quantizers = wiring.quantizers.get(tensor.name, ())
    dequantizers = wiring.dequantizers[tensor.name]
    outputs = [graph.node(index).output[0] for index in dequantizers]
    real = tensor.float_name
    # Several quantizers of one value share the clips that are put back.
    if quantizers and clips and real:
        real = rewrite.clipped.get(real) or _put_back(
            rewrite, wiring, tensor, clips, opset, target=outputs[0] if outputs else None
        )
    for index in quantizers:
        rewrite.drop(index)
        rewrite.substitute(graph.node(index).output[0], str(real))
    for index in find_clips(wiring, tensor):
        rewrite.drop(index)
        rewrite.substitute(graph.node(index).output[0], str(real))
    for index in dequantizers:
        rewrite.drop(index)
        if graph.node(index).output[0] != real:
            rewrite.substitute(graph.node(index).output[0], graph.node(index).input[0])
    rewrite.retype(tensor.integer_names)


def _put_back(
    rewrite: Rewrite,
    wiring: Wiring,
    tensor: QuantTensor,
    clips: tuple[FoldedClip, ...],
    opset: int,
    target: str | None,
) -> str:
    """Put clips where the first quantizer was; give the last one's output, for the readers."""
    source = str(tensor.float_name)
    kind = tensor.params.scale.dtype
    nodes = []
    value = source
    for place, clip in enumerate(clips, start=1):
        name = rewrite.fresh(clip.name)
        output = target if target and place == len(clips) else rewrite.fresh(f"{name}.out")
        made = clip_node(
            clip,
            value,
            output,
            name=name,
            opset=opset,
            constant=lambda name, end: rewrite.new_constant(name, np.asarray(end, kind)),
        )
        nodes.append(made)
        value = output
    rewrite.put(wiring.quantizers[tensor.name][0], nodes)
    rewrite.clipped[source] = value
    return value


def _set_biases(rewrite: Rewrite, outcomes: Iterable[BiasOutcome]) -> None:
    """Change a bias in place where all its readers want the same, else make one for each."""
    graph = rewrite.base
    by_bias: dict[int, list[BiasOutcome]] = {}
    for outcome in outcomes:
        by_bias.setdefault(outcome.site.dequantize, []).append(outcome)
    for index, wanted in by_bias.items():
        output = graph.node(index).output[0]
        agree = all(_same_bias(wanted[0], other) for other in wanted[1:])
        readers = {outcome.site.node for outcome in wanted}
        if agree and readers == set(graph.readers[output]) and output not in graph.outputs:
            _set_bias(rewrite, index, wanted[0])
        else:
            for outcome in wanted:
                _own_bias(rewrite, index, outcome)
            if readers == set(graph.readers[output]) and output not in graph.outputs:
                rewrite.drop(index)


def _same_bias(one: BiasOutcome, other: BiasOutcome) -> bool:
    # Real values come from the same stored bias, so that two of them are equal.
    if one.real is not None or other.real is not None:
        return one.real is not None and other.real is not None
    return np.array_equal(one.scale, other.scale) and np.array_equal(one.integers, other.integers)  # type: ignore[arg-type]


def _set_bias(rewrite: Rewrite, index: int, outcome: BiasOutcome) -> None:
    node = rewrite.base.node(index)
    if outcome.real is not None:
        rewrite.drop(index)
        rewrite.store(node.output[0], outcome.real)
        return
    assert outcome.scale is not None and outcome.integers is not None
    stored = rewrite.base.array(node.input[1])
    rewrite.want(node.input[1], (index,), outcome.scale)
    rewrite.want(node.input[0], (index,), outcome.integers)
    if stored is not None and stored.size != outcome.scale.size:
        rewrite.make_per_channel(index)


def _own_bias(rewrite: Rewrite, index: int, outcome: BiasOutcome) -> None:
    """Give a reader whose bias differs from the other readers' a constant of its own."""
    site = outcome.site
    name = f"{rewrite.base.node(index).output[0]}_for_{site.layer}"
    if outcome.real is not None:
        rewrite.set_input(site.node, _BIAS_PLACE, rewrite.new_constant(name, outcome.real))
        return
    assert outcome.scale is not None and outcome.integers is not None
    inputs = [
        rewrite.new_constant(f"{name}_quantized", outcome.integers),
        rewrite.new_constant(f"{name}_scale", outcome.scale),
    ]
    output = rewrite.fresh(name)
    name = rewrite.fresh(f"{output}_dequantize")
    made = helper.make_node("DequantizeLinear", inputs, [output], name=name)
    if outcome.scale.ndim:
        made.attribute.append(helper.make_attribute("axis", 0))
    rewrite.put(site.node, [made])
    rewrite.set_input(site.node, _BIAS_PLACE, output)
