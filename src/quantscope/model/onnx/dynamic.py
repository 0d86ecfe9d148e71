"""This module reads dynamic quantization: activations whose scale is found when the model runs.

A matrix product becomes five operators. DynamicQuantizeLinear gives integers with a scale and a
zero-point of that run; MatMulInteger or ConvInteger multiplies them; Cast and Mul give back real
numbers, by the scale of that run times the stored one of the weights; Add adds a bias. All are read
as one layer with a quantized weight, whose activation is float and quantized on the way in.

Of a file that was not prepared, onnxruntime quantizes weights in Constant nodes in the same way.
Such a weight has the same integers at each run, and is read as any other.
"""

from dataclasses import dataclass, field
from functools import partial
from math import prod

import numpy as np
import onnx_ir as ir

from quantscope.arithmetic import quantize
from quantscope.model.assemble import Draft
from quantscope.model.onnx.graph import OnnxGraph, input_names, output_names
from quantscope.model.onnx.operators import INTEGER_PRODUCTS
from quantscope.model.onnx.quant_params import (
    NotShownError,
    QuantizedValues,
    RunTimeInput,
    RunTimeProduct,
    checked_params,
    describe,
    padded_inputs,
    read_params,
    register,
)

_QUANTIZER = "DynamicQuantizeLinear"
_TAKES_RUN_TIME_SCALES = frozenset({*INTEGER_PRODUCTS, "MatMulIntegerToFloat", "QAttention"})


def add_dynamic(graph: OnnxGraph, found: QuantizedValues) -> None:
    """Merge every integer product with what makes real numbers of it, and the quantizers before."""
    quantizers = [
        node for node in graph.nodes if node.op_type == _QUANTIZER and len(node.outputs) == 3
    ]
    for node in quantizers:
        if graph.is_constant(output_names(node)[0]):
            _add_constant(graph, found, node)
    quantizers = [node for node in quantizers if not graph.is_constant(output_names(node)[0])]
    wiring = _Wiring(graph, frozenset(output_names(node)[1] for node in quantizers))
    for node in quantizers:
        integer = output_names(node)[0]
        found.run_time[integer] = RunTimeInput(input_names(node)[0], graph.type(integer).dtype)
    for node in graph.nodes:
        if node.op_type in INTEGER_PRODUCTS:
            _add_product(wiring, found, node)
    for node in quantizers:
        names = output_names(node)
        readers = [reader for name in names for reader in wiring.users.get(name, ())]
        shown = (r in found.merged or r.op_type in _TAKES_RUN_TIME_SCALES for r in readers)
        if readers and wiring.outputs.isdisjoint(names) and all(shown):
            found.merged.add(node)


class _Wiring:
    """The readers of each value; `run_scales` are the scales that are found at run time."""

    def __init__(self, graph: OnnxGraph, run_scales: frozenset[str]) -> None:
        self.graph = graph
        self.run_scales = run_scales
        self.outputs = {port.name for port in graph.file.outputs}
        self.users: dict[str, list[ir.Node]] = {}
        for node in graph.nodes:
            for name in set(input_names(node)):
                self.users.setdefault(name, []).append(node)

    def only_reader(self, value: str, *op_types: str) -> ir.Node | None:
        """Give the reader of a value that nothing else reads, if it is of one of these kinds."""
        readers = self.users.get(value, [])
        if len(readers) != 1 or value in self.outputs or readers[0].op_type not in op_types:
            return None
        return readers[0]


@dataclass
class _Chain:
    """The nodes that follow a product, its real result, and the scales that it is multiplied by."""

    value: str
    nodes: list[ir.Node]
    scales: list[str] = field(default_factory=list)


def _add_product(wiring: _Wiring, found: QuantizedValues, node: ir.Node) -> None:
    graph = wiring.graph
    chain = _follow(wiring, node)
    a, b, a_zero_point, b_zero_point = padded_inputs(node, 4)[:4]
    makers = [graph.makers.get(name) for name in (a, b)]
    needed = {output_names(m)[1] for m in makers if m is not None and m.op_type == _QUANTIZER}
    needed = {scale for scale in needed if not graph.is_constant(scale)}
    if chain is None:
        return
    stored = [name for name in chain.scales if graph.is_constant(name)]
    is_static = not needed and len(chain.scales) == 2
    if set(chain.scales) - set(stored) != needed or not (needed or is_static):
        return
    weight = graph.tensor(b)
    try:
        if is_static:
            describe(graph, found, a, stored[0], a_zero_point, axis=None)
        if weight is not None and len(stored) == 1 + is_static:
            _add_weight(graph, found, node, weight, stored[-1], b_zero_point)
    except NotShownError as reason:
        found.notes.append(f"{b} is not shown as quantized: {reason}")
    bias = _bias(wiring, chain) if node.op_type == "ConvInteger" else ""
    found.merged.update(chain.nodes)
    found.products[node] = RunTimeProduct(chain.value, bias)


def _add_constant(graph: OnnxGraph, found: QuantizedValues, node: ir.Node) -> None:
    """Add a stored constant that is quantized as the model runs, by the operator's formula."""
    source, integer = input_names(node)[0], output_names(node)[0]
    values = graph.array(source)
    if values is None or values.dtype != np.float32 or not np.isfinite(values).all():
        return
    least, most = np.float32(values.min(initial=0)), np.float32(values.max(initial=0))
    scale = (most - least) / np.float32(255) or np.float32(1)
    zero_point = np.rint(np.clip(-least / scale, 0, 255)).astype(np.uint8)
    try:
        params = checked_params(
            graph,
            tensor=source,
            scale=np.asarray(scale),
            zero_point=np.asarray(zero_point),
            dtype="uint8",
        )
    except NotShownError as reason:
        found.notes.append(f"{source} is not shown as quantized: {reason}")
        return
    draft = Draft(params, [integer], None, None, values.shape, float_name=source)
    draft.read_integers = lambda: quantize(values, params)
    register(found, draft)


def _add_weight(
    graph: OnnxGraph,
    found: QuantizedValues,
    node: ir.Node,
    weight: ir.TensorProtocol,
    scale: str,
    zero_point: str,
) -> None:
    name = input_names(node)[1]
    if name in found.by_integer:
        return
    shape = tuple(weight.shape.numpy())
    params = read_params(
        graph,
        tensor=name,
        scale=scale,
        zero_point=zero_point,
        dtype=graph.type(name).dtype,
        axis=0 if node.op_type == "ConvInteger" else len(shape) - 1,
        shape=shape,
        lies_along_axis=True,
    )
    draft = Draft(params, [name], scale, zero_point or None, shape)
    draft.read_integers = partial(graph.read, weight)
    register(found, draft)


def _follow(wiring: _Wiring, node: ir.Node) -> _Chain | None:
    """Follow a product's sums through Cast and each Mul by scales; None where they go elsewhere."""
    cast = wiring.only_reader(output_names(node)[0], "Cast")
    if cast is None:
        return None
    chain = _Chain(output_names(cast)[0], [cast])
    # Of two activations every scale is found at run time; a constant behind them is no scale.
    needs_stored = wiring.graph.is_constant(input_names(node)[1])
    while (times := wiring.only_reader(chain.value, "Mul")) is not None:
        factor = next((name for name in input_names(times) if name != chain.value), "")
        scales, makers = _scales_in(wiring, factor)
        is_stored = all(wiring.graph.is_constant(name) for name in scales)
        # A Mul by anything but the scales of the operands is the network's own.
        if wiring.run_scales.isdisjoint(scales) and not (is_stored and needs_stored):
            break
        needs_stored = needs_stored and not any(map(wiring.graph.is_constant, scales))
        chain.scales += scales
        chain.nodes += [*makers, times]
        chain.value = output_names(times)[0]
    return chain


def _scales_in(wiring: _Wiring, name: str) -> tuple[list[str], list[ir.Node]]:
    """List the scales that a factor is the product of, and the nodes that multiply them."""
    maker = wiring.graph.makers.get(name)
    is_product = maker is not None and maker.op_type == "Mul" and len(maker.inputs) == 2
    if maker is None or not is_product:
        return [name], []
    scales = list(input_names(maker))
    return (scales, [maker]) if wiring.only_reader(name, "Mul") else ([name], [])


def _bias(wiring: _Wiring, chain: _Chain) -> str:
    """Take an Add of a constant [C, 1, 1] into the chain, and give the constant's name."""
    plus = wiring.only_reader(chain.value, "Add")
    if plus is None:
        return ""
    bias = next((name for name in input_names(plus) if name != chain.value), "")
    dims = [dim for dim in wiring.graph.type(bias).shape or () if isinstance(dim, int)]
    result = wiring.graph.type(output_names(plus)[0]).shape or ()
    if not wiring.graph.is_constant(bias) or not dims or not result:
        return ""
    if prod(dims) != prod(dims[-len(result) + 1 :][:1]):
        return ""
    chain.nodes.append(plus)
    chain.value = output_names(plus)[0]
    return bias
