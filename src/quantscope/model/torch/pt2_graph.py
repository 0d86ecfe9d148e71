"""This module gives the graph of a checked torch.export program: operators, tensors and types."""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from quantscope.errors import BadModelError
from quantscope.model.network import Dim, Shape
from quantscope.model.syntax import parse_expression
from quantscope.model.torch.file import Pt2File
from quantscope.model.torch.pt2_program import DTYPES


class Ref(str):
    """The name of a value, as an argument; elsewhere names are plain strings."""

    __slots__ = ()


@dataclass(frozen=True)
class TensorType:
    """The element type and shape of a value, dynamic dimensions as symbols."""

    dtype: str
    shape: Shape


@dataclass(frozen=True)
class ProgramNode:
    """An operator of a program, with its arguments by name; values among them are `Ref`s.

    `op` is such as `aten.conv2d.default`; `modules` are path and class, outermost first.
    """

    name: str
    op: str
    arguments: Mapping[str, Any]
    outputs: tuple[str, ...]
    modules: tuple[tuple[str, str], ...]

    @property
    def reads(self) -> tuple[str, ...]:
        """The names of all values among the arguments, those in lists too."""
        return tuple(map(str, _refs(list(self.arguments.values()))))


@dataclass(frozen=True)
class ProgramGraph:
    """The operators of a program in the order in which they run.

    `constants` lead from names of values to the weights' names. `limits` are the ranges of symbols,
    None for an open end.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    constants: Mapping[str, str]
    nodes: tuple[ProgramNode, ...]
    types: Mapping[str, TensorType]
    limits: Mapping[str, tuple[int | None, int | None]]


def program_graph(file: Pt2File) -> ProgramGraph:
    """Read the graph of a checked file; raise if a value has no type or no maker."""
    module = file.program["graph_module"]
    graph = module["graph"]
    inputs: list[str] = []
    constants: dict[str, str] = {}
    for spec in module["signature"]["input_specs"]:
        ((kind, content),) = spec.items()
        if kind == "user_input":
            inputs += _names(content["arg"])
        else:
            constants[content["arg"]["name"]] = content[f"{kind}_name"]
    found = ProgramGraph(
        inputs=tuple(inputs),
        outputs=tuple(name for value in graph["outputs"] for name in _names(value)),
        constants=constants,
        nodes=tuple(_node(node) for node in graph["nodes"]),
        types={
            name: TensorType(DTYPES[meta["dtype"]], tuple(_dim(size) for size in meta["sizes"]))
            for name, meta in graph["tensor_values"].items()
        },
        limits={
            name: (limits["min_val"], limits["max_val"])
            for name, limits in file.program["range_constraints"].items()
        },
    )
    numbers = {name for kind in ("int", "float", "bool") for name in graph[f"sym_{kind}_values"]}
    _check_flow(file, found, numbers)
    return found


def _check_flow(file: Pt2File, graph: ProgramGraph, numbers: set[str]) -> None:
    """Raise unless every value is made once, before it is read, and has a type."""
    known = {*graph.inputs, *graph.constants}
    for node in graph.nodes:
        for name in (*node.reads, *node.outputs):
            if name not in graph.types and name not in numbers:
                raise BadModelError(f"{file.path.name}: {name} of {node.name} has no type")
        for name in node.reads:
            if name not in known:
                raise BadModelError(
                    f"{file.path.name}: {node.name} reads {name}, which nothing makes before it"
                )
        for name in node.outputs:
            if name in known:
                raise BadModelError(f"{file.path.name}: {name} is made twice")
        known.update(node.outputs)
    for name in (*graph.inputs, *graph.constants, *graph.outputs):
        if name not in graph.types or name not in known:
            raise BadModelError(f"{file.path.name}: its input or output {name} is not in its graph")


def _node(node: Any) -> ProgramNode:
    outputs = tuple(name for value in node["outputs"] for name in _names(value))
    return ProgramNode(
        name=node["name"] or (outputs[0] if outputs else ""),
        op=node["target"].removeprefix("torch.ops."),
        arguments={given["name"]: _value(given["arg"]) for given in node["inputs"]},
        outputs=outputs,
        modules=tuple(_modules(node["metadata"].get("nn_module_stack", ""))),
    )


def _modules(stack: str) -> Iterator[tuple[str, str]]:
    for entry in filter(None, stack.split(";")):
        _, path, kind = entry.split(",")
        yield path, kind


def _names(argument: Any) -> tuple[str, ...]:
    """Name the tensors in an argument; numbers that a program takes or gives are left out."""
    value = _value(argument)
    return tuple(map(str, _refs(value if isinstance(value, list) else [value])))


def _refs(values: list[Any]) -> Iterator[Ref]:
    for value in values:
        if isinstance(value, Ref):
            yield value
        elif isinstance(value, list):
            yield from _refs(value)


def _value(argument: Any) -> Any:
    """Read an argument of the file's JSON as a plain value; names of values become `Ref`s."""
    ((kind, value),) = argument.items()
    found: Any
    match kind:
        case "as_none":
            found = None
        case "as_tensor":
            found = Ref(value["name"])
        case "as_name":
            found = Ref(value)
        case "as_float":
            found = float(value)  # also of the texts NaN and Infinity
        case "as_floats":
            found = [float(each) for each in value]
        case "as_tensors":
            found = [Ref(each["name"]) for each in value]
        case "as_scalar_type":
            found = DTYPES.get(value, "unknown")
        case "as_device":
            found = value["type"]
        case "as_optional_tensors" | "as_sym_ints" | "as_sym_floats" | "as_sym_bools":
            found = [_value(each) for each in value]
        case "as_optional_tensor" | "as_sym_int" | "as_sym_float" | "as_sym_bool":
            found = _value(value)
        case _:
            found = value
    return found


def _dim(size: Any) -> Dim:
    ((kind, value),) = size.items()
    return int(value) if kind == "as_int" else _readable(value["expr_str"])


def _readable(text: str) -> str:
    """Shorten `Symbol('s77', integer=True)` to `s77`; functions of it keep their names."""

    class Short(ast.NodeTransformer):
        def visit_Call(self, node: ast.Call) -> ast.expr:
            self.generic_visit(node)
            name = node.func.id if isinstance(node.func, ast.Name) else ""
            if name == "Integer":
                return node.args[0]
            if name == "Symbol" and isinstance(node.args[0], ast.Constant):
                return ast.Name(str(node.args[0].value))
            return node

    return ast.unparse(Short().visit(parse_expression(text)))
