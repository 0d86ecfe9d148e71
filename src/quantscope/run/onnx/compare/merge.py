"""Merge two networks into one ONNX graph, and add nodes to it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper, version_converter

from quantscope.errors import BadModelError

FLOAT, QUANTIZED = "float/", "quantized/"
# The oldest whose QuantizeLinear has an axis and whose ReduceSum takes its axes as an input.
_OLDEST_OPSET = 13
# From this opset on, reductions take their axes as an input, not as an attribute.
_AXES_ARE_INPUT = 18


def prefix_names(model: onnx.ModelProto, prefix: str) -> onnx.ModelProto:
    """Copy a model so that every name of a value, node or constant starts with `prefix`."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    _prefix_graph(copy.graph, prefix)
    return copy


def _prefix_graph(graph: onnx.GraphProto, prefix: str) -> None:
    # Types and shapes of inner values would keep their old names; onnxruntime infers them anew.
    del graph.value_info[:]
    for number, node in enumerate(graph.node):
        node.name = prefix + (node.name or f"{node.op_type}:{number}")
        node.input[:] = [prefix + name if name else "" for name in node.input]
        node.output[:] = [prefix + name if name else "" for name in node.output]
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                if inner.ByteSize():
                    _prefix_graph(inner, prefix)
    for tensor in (*graph.initializer, *(s.values for s in graph.sparse_initializer)):
        tensor.name = prefix + tensor.name
    for value in (*graph.input, *graph.output):
        value.name = prefix + value.name


def same_opset(models: Sequence[onnx.ModelProto]) -> list[onnx.ModelProto]:
    """Give the models at one opset, the newest among them or 13."""
    versions = [_opset(model) for model in models]
    newest = max(*versions, _OLDEST_OPSET)
    return [
        model if version == newest else _converted(model, version, newest)
        for model, version in zip(models, versions, strict=True)
    ]


def _opset(model: onnx.ModelProto) -> int:
    return next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 1)


def _check_same_precision(float_model: onnx.ModelProto, quantized: onnx.ModelProto) -> None:
    """Refuse two precisions: the layers of one run on values of the other."""
    one, other = (_is_float16(model) for model in (float_model, quantized))
    if one != other:
        names = ("float16", "float32") if one else ("float32", "float16")
        raise BadModelError(
            f"The float model computes in {names[0]}, the quantized one between its integers in "
            f"{names[1]}; give both in the same type"
        )


def _is_float16(model: onnx.ModelProto) -> bool:
    half = onnx.TensorProto.FLOAT16
    types = {tensor.data_type for tensor in model.graph.initializer}
    return half in types | {value.type.tensor_type.elem_type for value in model.graph.input}


def _converted(model: onnx.ModelProto, version: int, wanted: int) -> onnx.ModelProto:
    try:
        return version_converter.convert_version(model, wanted)
    except Exception as error:  # the converter raises whatever its C++ half throws
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise BadModelError(
            f"The two models have different opsets and the one at {version} cannot be raised to "
            f"{wanted} ({reason}); export both at the same opset"
        ) from None


class Canvas:
    """The graph under construction. Each method gives the name of what it adds."""

    def __init__(
        self, float_model: onnx.ModelProto, quantized: onnx.ModelProto, inputs: Mapping[str, str]
    ) -> None:
        """Copy both models; they share the quantized one's inputs, and names carry prefixes.

        `inputs` leads from the quantized model's names to the float one's.
        """
        _check_same_precision(float_model, quantized)
        floats, quants = same_opset([float_model, quantized])
        self.opset = _opset(quants)
        floats, quants = prefix_names(floats, FLOAT), prefix_names(quants, QUANTIZED)
        self.model = onnx.ModelProto()
        self.model.CopyFrom(quants)
        graph = self.model.graph
        del graph.output[:]
        graph.initializer.extend(floats.graph.initializer)
        graph.sparse_initializer.extend(floats.graph.sparse_initializer)
        self.model.ir_version = max(floats.ir_version, quants.ir_version)
        for needed in floats.opset_import:
            if needed.domain not in {known.domain for known in self.model.opset_import}:
                self.model.opset_import.append(needed)
        self.model.functions.extend(floats.functions)
        self.float_nodes = tuple(floats.graph.node)
        self.quantized_nodes = tuple(quants.graph.node)
        self.inputs = {name: QUANTIZED + name for name in inputs}
        """The graph's inputs by the quantized model's names."""
        self.float_inputs = tuple(FLOAT + name for name in inputs.values())
        types = {
            value.name: value.type.tensor_type.elem_type
            for model in (floats, quants)
            for value in model.graph.input
        }
        self._count = 0
        self._constants: dict[tuple[str, bytes, tuple[int, ...]], str] = {}
        # The float half goes first: its inputs are other names of those that both share.
        nodes = list(graph.node)
        del graph.node[:]
        for mine, theirs in zip(self.inputs.values(), self.float_inputs, strict=True):
            if types[mine] == types[theirs]:
                same = helper.make_node("Identity", [mine], [theirs])
            else:
                same = helper.make_node("Cast", [mine], [theirs], to=types[theirs])
            graph.node.append(same)
        graph.node.extend([*floats.graph.node, *nodes])
        self._nodes = graph.node

    def constant(self, array: NDArray[Any]) -> str:
        """Store an array; equal ones are stored once."""
        key = (array.dtype.str, array.tobytes(), array.shape)
        if key not in self._constants:
            name = f"compare/constant{len(self._constants)}"
            self.model.graph.initializer.append(numpy_helper.from_array(array, name))
            self._constants[key] = name
        return self._constants[key]

    def add(
        self, op_type: str, inputs: Sequence[str], *, domain: str = "", **attributes: Any
    ) -> str:
        self._count += 1
        name = f"compare/{op_type}{self._count}"
        node = helper.make_node(op_type, inputs, [name], name=name, domain=domain, **attributes)
        self._nodes.append(node)
        return name

    def only_if(
        self, condition: str, sums: Callable[[], dict[str, str]], *, zeros_like: str
    ) -> dict[str, str]:
        """Compute what `sums` adds only where the condition holds; elsewhere it is zero.

        `zeros_like` has the shape of each sum; where it is not finite, a zero is NaN.
        """
        outer = self._nodes
        branches = onnx.GraphProto(name="then"), onnx.GraphProto(name="else")
        self._nodes = branches[0].node
        made = sums()
        self._nodes = branches[1].node
        zeros = [self.add("Sub", [zeros_like, zeros_like]) for _ in made]
        self._nodes = outer
        for branch, names in zip(branches, (made.values(), zeros), strict=True):
            branch.output.extend(helper.make_empty_tensor_value_info(name) for name in names)
        self._count += 1
        outputs = {name: f"compare/If{self._count}/{name}" for name in made}
        self._nodes.append(
            helper.make_node(
                "If",
                [condition],
                list(outputs.values()),
                name=f"compare/If{self._count}",
                then_branch=branches[0],
                else_branch=branches[1],
            )
        )
        return outputs

    def clone(self, node: onnx.NodeProto, renamed: dict[str, str]) -> None:
        """Add the same operator on other values; its outputs enter `renamed`."""
        self._count += 1
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        copy.name = f"compare/copy{self._count}/{node.name}"
        copy.input[:] = [renamed.get(name, name) for name in node.input]
        for place, name in enumerate(node.output):
            if name:
                renamed[name] = copy.output[place] = f"compare/copy{self._count}/{name}"
        self._nodes.append(copy)

    def reduce(self, op_type: str, value: str, over: Sequence[int] | None) -> str:
        """Reduce over these axes, which stay with length 1; None leaves a single number."""
        if over is None:
            return self.add(op_type, [value], keepdims=0)
        if self.opset >= _AXES_ARE_INPUT or op_type == "ReduceSum":
            axes = self.constant(np.array(over, np.int64))
            return self.add(op_type, [value, axes], keepdims=1)
        return self.add(op_type, [value], axes=list(over), keepdims=1)

    def output(self, name: str, elem_type: int | None = onnx.TensorProto.FLOAT) -> None:
        """Make a value an output; `elem_type` None means whatever the networks compute in."""
        if name in {value.name for value in self.model.graph.output}:
            return
        if elem_type is None:
            self.model.graph.output.append(helper.make_empty_tensor_value_info(name))
        else:
            self.model.graph.output.append(helper.make_tensor_value_info(name, elem_type, None))
