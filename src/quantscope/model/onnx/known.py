"""This module gives a graph's constants, and the values that its shapes decide: sizes, places.

Exporters write them as operators (`Shape`, `Gather`, `Div`), which optimizers replace by constants.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from quantscope.errors import BadModelError
from quantscope.model.onnx.graph import OnnxGraph, input_names, output_names
from quantscope.model.stored import MOST_NUMBERS

Array = NDArray[Any]
_Attributes = Mapping[str, Any]

# What does not change when the unknown sizes do, is known.
_SIZES = (11, 13)


@dataclass(frozen=True, eq=False)
class OnnxConstants:
    """The constants of a graph, and the values that follow from them and from fixed shapes."""

    graph: OnnxGraph

    @cached_property
    def known(self) -> Mapping[str, Array]:
        return known_values(self.graph)

    def laid_out(self, name: str, stored: Array | None = None) -> Array | None:
        """Follow a constant through Transpose and Reshape, from `stored` where that is given."""
        graph = self.graph
        found = graph.array(name) if stored is None else None
        if found is not None:
            return found
        node = graph.makers.get(name)
        if node is None or node.op_type not in ("Transpose", "Reshape", "Unsqueeze", "Squeeze"):
            return stored
        before = self.laid_out(input_names(node)[0], stored)
        if before is None or node.op_type == "Transpose":
            perm = node.attributes.get("perm")
            return None if before is None else before.transpose(perm.value if perm else None)
        shape = graph.type(name).shape or ()
        whole = [dim for dim in shape if isinstance(dim, int)]
        fits = len(whole) == len(shape) and np.prod(whole) == before.size
        return before.reshape(whole) if fits else before


def known_values(graph: OnnxGraph) -> dict[str, Array]:
    """Give the values that follow from constants and from shapes that the file fixes, by name."""
    worlds: list[dict[str, Array]] = [{} for _ in _SIZES]
    for node in graph.nodes:
        if node.op_type in ("Shape", "Size"):
            name, made = input_names(node)[0], output_names(node)[0]
            shape = graph.type(name).shape
            if shape is not None:
                for size, values in zip(_SIZES, worlds, strict=True):
                    values[made] = _shape_of(node, shape, size)
        elif node.op_type in _COMPUTE and len(node.outputs) == 1:
            for values in worlds:
                found = _computed(graph, node, values)
                if found is not None:
                    values[output_names(node)[0]] = found
    one, other = worlds
    return {
        name: value
        for name, value in one.items()
        if name in other and np.array_equal(value, other[name])
    }


def _shape_of(node: ir.Node, shape: Sequence[int | str | None], size: int) -> Array:
    whole = np.array([dim if isinstance(dim, int) else size for dim in shape], np.int64)
    if node.op_type == "Size":
        return np.asarray(whole.prod())
    attributes = _attributes(node)
    return whole[slice(attributes.get("start"), attributes.get("end"))]


def _computed(graph: OnnxGraph, node: ir.Node, values: Mapping[str, Array]) -> Array | None:
    """Run one node; None where an input is not known, or the node is not as it should be."""
    inputs: list[Array | None] = []
    for name in input_names(node):
        value = values.get(name)
        if value is None and name:
            stored = graph.tensor(name)
            if stored is None or stored.size > MOST_NUMBERS:
                return None
            value = graph.read(stored)
        inputs.append(value)
    if any(value is not None and value.dtype.kind not in "biuf" for value in inputs):
        return None
    try:
        with np.errstate(all="ignore"):
            found = np.asarray(_COMPUTE[node.op_type](_attributes(node), *inputs))
    except (ArithmeticError, BadModelError, IndexError, KeyError, TypeError, ValueError):
        return None  # the node breaks the rules of its operator; onnxruntime says how
    return found if found.size <= MOST_NUMBERS else None


def _attributes(node: ir.Node) -> dict[str, Any]:
    return {name: attribute.value for name, attribute in node.attributes.items()}


def _axes(attributes: _Attributes, given: Array | None) -> tuple[int, ...] | None:
    if given is None:
        axes = attributes.get("axes")
        return None if axes is None else tuple(axes)
    return tuple(int(axis) for axis in np.ravel(given))


def _small(count: int) -> int:
    if count > MOST_NUMBERS:
        raise ValueError(f"{count} numbers are too many")
    return count


def _cast(attributes: _Attributes, x: Array) -> Array:
    return x.astype(ir.DataType(attributes["to"]).numpy())


def _constant_of_shape(attributes: _Attributes, shape: Array) -> Array:
    value = attributes.get("value")
    filling = np.zeros(1, np.float32) if value is None else value.numpy()
    _small(prod(shape.tolist()))
    return np.full(shape.tolist(), np.ravel(filling)[0])


def _divide(_: _Attributes, a: Array, b: Array) -> Array:
    # Whole numbers are cut off, not rounded down.
    return a / b if a.dtype.kind == "f" else np.trunc(a / b).astype(a.dtype)


def _expand(_: _Attributes, x: Array, shape: Array) -> Array:
    whole = np.broadcast_shapes(x.shape, tuple(shape.tolist()))
    _small(prod(whole))
    return np.broadcast_to(x, whole)


def _gather(attributes: _Attributes, x: Array, places: Array) -> Array:
    return np.take(x, places, axis=attributes.get("axis", 0))


def _range(_: _Attributes, start: Array, stop: Array, step: Array) -> Array:
    _small(int(np.ceil(abs((stop - start) / step))))
    return np.arange(start.item(), stop.item(), step.item(), dtype=start.dtype)


def _reshape(_: _Attributes, x: Array, shape: Array) -> Array:
    return x.reshape([x.shape[at] if dim == 0 else dim for at, dim in enumerate(shape.tolist())])


def _slice(
    attributes: _Attributes,
    x: Array,
    starts: Array | None = None,
    ends: Array | None = None,
    axes: Array | None = None,
    steps: Array | None = None,
) -> Array:
    first = attributes["starts"] if starts is None else starts.tolist()
    last = attributes["ends"] if ends is None else ends.tolist()
    over = _axes(attributes, axes) or tuple(range(len(first)))
    by = [1] * len(first) if steps is None else steps.tolist()
    chosen: list[slice] = [slice(None)] * x.ndim
    for axis, start, end, step in zip(over, first, last, by, strict=True):
        # An end before the first element cannot be written as a place.
        chosen[axis] = slice(start, None if step < 0 and end < -x.shape[axis] else end, step)
    return x[tuple(chosen)]


def _squeeze(attributes: _Attributes, x: Array, axes: Array | None = None) -> Array:
    return np.squeeze(x, _axes(attributes, axes))


def _unsqueeze(attributes: _Attributes, x: Array, axes: Array | None = None) -> Array:
    return np.expand_dims(x, _axes(attributes, axes) or ())


def _elementwise(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda _, *inputs: function(*inputs)


_COMPUTE: dict[str, Callable[..., Any]] = {
    "Abs": _elementwise(np.abs),
    "Add": _elementwise(np.add),
    "Cast": _cast,
    "Ceil": _elementwise(np.ceil),
    "Concat": lambda attributes, *inputs: np.concatenate(inputs, axis=attributes["axis"]),
    "ConstantOfShape": _constant_of_shape,
    "Div": _divide,
    "Equal": _elementwise(np.equal),
    "Expand": _expand,
    "Floor": _elementwise(np.floor),
    "Gather": _gather,
    "Greater": _elementwise(np.greater),
    "Identity": _elementwise(np.asarray),
    "Less": _elementwise(np.less),
    "Max": _elementwise(np.maximum),
    "Min": _elementwise(np.minimum),
    "Mod": _elementwise(np.mod),
    "Mul": _elementwise(np.multiply),
    "Neg": _elementwise(np.negative),
    "Pow": _elementwise(np.power),
    "Range": _range,
    "Reciprocal": _elementwise(np.reciprocal),
    "ReduceProd": lambda attributes, x, axes=None: np.prod(
        x, axis=_axes(attributes, axes), keepdims=bool(attributes.get("keepdims", 1))
    ),
    "Reshape": _reshape,
    "Slice": _slice,
    "Sqrt": _elementwise(np.sqrt),
    "Squeeze": _squeeze,
    "Sub": _elementwise(np.subtract),
    "Transpose": lambda attributes, x: np.transpose(x, attributes.get("perm")),
    "Unsqueeze": _unsqueeze,
    "Where": _elementwise(np.where),
}
