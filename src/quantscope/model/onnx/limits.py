"""This module refuses models that are right but want more memory or time than anybody has.

What only the numbers in a run decide cannot be told here: how often a loop repeats whose end is
computed, or a shape that is.
"""

from collections.abc import Iterator, Mapping
from math import inf, prod
from pathlib import Path

import numpy as np
import onnx
from onnx import inliner, numpy_helper

from quantscope.errors import BadModelError
from quantscope.model.onnx.shapes import infer_shapes
from quantscope.model.onnx.tensors import element_bits, is_external, shape_of, subgraphs

_MOST_BYTES = 2**30
"""The bytes of the largest value computed for an image: full HD in 128 channels just fits."""

_MOST_TURNS = 1_000_000
"""The most turns of a loop; loops over the samples of a recording have thousands."""

_MOST_UNFOLDED = 1_000_000
"""The most operators; networks have thousands, functions that call functions can make billions."""

Constants = Mapping[str, float]
"""The single numbers that are known, by their names."""


def check_functions(path: Path, proto: onnx.ModelProto) -> None:
    """Raise if the model's own functions call each other in a circle, or without measure.

    onnx's checker and shape inference would follow every call.
    """
    functions = {(f.domain, f.name, f.overload): f for f in proto.functions}
    sizes: dict[tuple[str, str, str], float] = {}

    def unfolded(nodes: Iterator[onnx.NodeProto]) -> float:
        total = 0.0
        for node in nodes:
            key = node.domain, node.op_type, node.overload
            if key in functions and key not in sizes:
                sizes[key] = inf  # where it is met again before it is known, it calls itself
                sizes[key] = unfolded(_nodes(functions[key].node))
            total += 1 + sizes.get(key, 0)
        return total

    try:
        count = unfolded(_nodes(proto.graph.node)) if functions else 0
    except RecursionError:
        count = inf
    if count > _MOST_UNFOLDED:
        often = "without an end" if count == inf else f"to {count:,.0f} operators"
        raise BadModelError(f"{path} is not read: its functions unfold {often}")


def check_affordable(path: Path, proto: onnx.ModelProto) -> None:
    """Raise if a value of known shape does not fit into memory, or a loop does not end."""
    whole = inliner.inline_local_functions(proto) if proto.functions else proto
    _check_values(path, infer_shapes(whole, batch=1).graph)
    turns = _turns_in(whole.graph, {})
    if turns > _MOST_TURNS:
        often = "without an end" if turns == inf else f"{turns:,.0f} times"
        raise BadModelError(f"{path.name} is not run: a loop in it repeats {often}")


def _check_values(path: Path, graph: onnx.GraphProto) -> None:
    makers = {name: node.op_type for node in graph.node for name in node.output}
    for value in (*graph.value_info, *graph.output):
        shape, kind = shape_of(value.type), value.type.tensor_type.elem_type
        if shape is None or value.name not in makers:
            continue
        bits = (element_bits(kind) if kind else None) or 32  # of an unknown type, as if float32
        size = prod(dim for dim in shape if isinstance(dim, int)) * bits // 8
        if size > _MOST_BYTES:
            raise BadModelError(
                f"{path.name} is not run: its value {value.name!r} ({makers[value.name]}) takes "
                f"{size / 1e9:,.1f} GB for one image; at most {_MOST_BYTES / 1e9:.1f} GB are run"
            )
    for attribute in (attribute for node in graph.node for attribute in node.attribute):
        for inner in subgraphs(attribute):
            _check_values(path, inner)


def _nodes(nodes: Iterator[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for inner in subgraphs(attribute):
                yield from _nodes(inner.node)


def _turns_in(graph: onnx.GraphProto, outer: Constants) -> float:
    """Count how often what is innermost repeats, as far as constants alone say it."""
    known = {**outer, **_constants(graph)}
    most = 1.0
    for node in graph.node:
        inside = max(
            (_turns_in(inner, known) for a in node.attribute for inner in subgraphs(a)), default=1.0
        )
        most = max(most, inside * (_turns(node, known) if node.op_type == "Loop" else 1))
    return most


def _turns(loop: onnx.NodeProto, known: Constants) -> float:
    """Count how often a loop repeats where nothing in it can end it, else 1; inf has no end."""
    body = next((a.g for a in loop.attribute if a.name == "body"), None)
    count, condition = (*loop.input, "", "")[:2]
    if body is None or not _goes_on(body, known) or known.get(condition, 1.0) == 0:
        return 1
    return max(known.get(count, 1.0), 1.0) if count else inf


def _goes_on(body: onnx.GraphProto, outer: Constants) -> bool:
    """Tell whether a loop's condition is only passed on, or constant."""
    makers = {name: node for node in body.node for name in node.output}
    name = body.output[0].name if body.output else ""
    for _ in range(len(makers)):
        node = makers.get(name)
        if node is None or node.op_type != "Identity" or not node.input:
            break
        name = node.input[0]
    is_passed_on = len(body.input) > 1 and name == body.input[1].name
    return is_passed_on or bool({**outer, **_constants(body)}.get(name))


def _constants(graph: onnx.GraphProto) -> dict[str, float]:
    """Give the single numbers that a graph holds, by their names."""
    found = {t.name: number for t in graph.initializer if (number := _number(t)) is not None}
    for node in graph.node:
        if node.op_type == "Constant" and node.output:
            for attribute in node.attribute:
                number = _number(attribute.t) if attribute.name == "value" else None
                if attribute.name in ("value_int", "value_float"):
                    number = float(attribute.i or attribute.f)
                if number is not None:
                    found[node.output[0]] = number
        elif node.op_type in ("Identity", "Cast") and set(node.input[:1]) & found.keys():
            found.update(dict.fromkeys(node.output, found[node.input[0]]))
    return found


def _number(tensor: onnx.TensorProto) -> float | None:
    is_number = tensor.data_type not in (onnx.TensorProto.UNDEFINED, onnx.TensorProto.STRING)
    if not is_number or is_external(tensor) or prod(tensor.dims) != 1:
        return None
    return float(np.real(numpy_helper.to_array(tensor).ravel()[0]))
