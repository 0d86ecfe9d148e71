"""This module checks that the code in a TorchScript archive does no more than compute.

torch compiles it, and runs the `__setstate__` methods among it while it loads the archive. It is
not Python, but it can write files (torch.save, torch.from_file) and make any object that a library
registered. So only what quantized networks are made of is let through.
"""

import ast
import operator
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from quantscope.model.syntax import parse_module
from quantscope.model.torch import RefusedError

_MOST_CODE_BYTES = 16 << 20
# Operators on tensors and numbers, as functions of torch or as methods.
_FUNCTIONS = frozenset(
    {
        "Bool", "Float", "Int", "__and__", "__contains__", "__derive_index", "__getitem__",
        "__is__", "__isnot__", "__not__", "__or__", "__range_length", "abs",
        "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_max_pool2d", "add", "addmm",
        "all", "amax", "amin", "any", "append", "arange", "argmax", "avg_pool1d", "avg_pool2d",
        "batch_norm", "bmm", "cat", "ceil", "channel_shuffle", "chunk", "clamp", "clamp_max",
        "clamp_min", "clone", "constant_pad_nd", "contiguous", "conv1d", "conv2d", "conv3d",
        "conv_transpose1d", "conv_transpose2d", "copy_", "dequantize", "detach", "device", "dim",
        "div", "dropout", "dropout_", "dtype", "elu", "empty", "eq", "exp", "expand",
        "expand_as", "extend", "feature_dropout", "fill_", "flatten", "float", "floor",
        "floor_divide", "floordiv", "format", "full", "full_like", "ge", "gelu", "group_norm",
        "gt", "hardsigmoid", "hardswish", "hardswish_", "hardtanh", "hardtanh_", "insert",
        "instance_norm", "int", "int_repr", "interpolate", "is_floating_point", "item",
        "layer_norm", "le", "leaky_relu", "len", "linear", "list", "log", "log_softmax",
        "logical_and", "logical_not", "logical_or", "lt", "matmul", "max_pool1d", "max_pool2d",
        "maximum", "mean", "minimum", "mm", "mul", "narrow", "ne", "neg", "numel", "ones",
        "ones_like", "pad", "permute", "pixel_shuffle", "pow", "prelu", "q_scale",
        "q_zero_point", "quantize_per_channel", "quantize_per_tensor", "relu", "relu6", "relu_",
        "remainder", "repeat", "reshape", "reverse", "round", "rsqrt", "select", "sigmoid",
        "silu", "silu_", "size", "slice", "softmax", "split", "sqrt", "squeeze", "stack", "sub",
        "sum", "t", "tanh", "tensor", "to", "transpose", "type_as", "unsqueeze",
        "upsample_bilinear2d", "upsample_nearest2d", "view", "warn", "zeros", "zeros_like",
    }
)  # fmt: skip
_BUILTINS = frozenset(
    {
        "annotate", "bool", "float", "getattr", "int", "isinstance", "len", "list", "max", "min",
        "range", "str", "unchecked_cast", "uninitialized", "unwrap_optional",
    }
)  # fmt: skip
_PACKED = ("unpack", "bias", "weight", "stride", "padding", "output_padding", "dilation", "groups",
           "transpose")  # fmt: skip
_ON_FILES = frozenset({"save", "from_file", "load"})
_ALIAS = re.compile(r"_\d+")
_STATEMENTS = (
    ast.ClassDef, ast.FunctionDef, ast.AnnAssign, ast.Assign, ast.AugAssign, ast.Return, ast.If,
    ast.For, ast.Expr, ast.Pass, ast.Raise, ast.Assert,
)  # fmt: skip
_PRIM = frozenset(
    {"NumToTensor", "RaiseException", "data", "device", "dtype", "is_cuda", "shape",
     "unchecked_cast"}
)  # fmt: skip


def check_code(sources: dict[str, str]) -> None:
    """Raise `RefusedError` for code that does more than compute; `sources` has it by member."""
    if sum(len(text) for text in sources.values()) > _MOST_CODE_BYTES:
        raise RefusedError("its code is of an absurd size")
    trees = {name: _parse(name, text) for name, text in sources.items()}
    own = {
        node.name
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
    }
    for name, tree in trees.items():
        for why in _objections(tree, own):
            raise RefusedError(f"its code {why} ({name}), which no quantized network needs")


def _parse(name: str, text: str) -> ast.Module:
    try:
        return parse_module(text)
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise RefusedError(f"its code is not readable ({name}: {error})") from None


def _objections(tree: ast.Module, own: set[str]) -> Iterator[str]:
    """Say what in the code is not let through; `own` are the names that the archive defines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt) and not isinstance(node, _STATEMENTS):
            yield f"has a statement of the kind {type(node).__name__}"
        elif isinstance(node, ast.Attribute):
            path = ast.unparse(node)
            if node.attr in _ON_FILES:
                yield f"names {path[:60]}, which opens files"
            # Named is as good as called: it may be called by another name.
            if path.startswith(("torch.", "ops.")) and not _is_operator(path):
                yield f"names {path[:60]}"
            if "torch.classes." in path and "torch.classes.quantized" not in path:
                yield f"makes an object of {path[:60]}"
        elif isinstance(node, ast.Call) and not _is_known(node.func, own):
            yield f"calls {ast.unparse(node.func)[:60]}"


def _is_operator(path: str) -> bool:
    match path.split("."):
        case ["torch", name] | ["ops", "aten", name]:
            return name in _FUNCTIONS
        case ["ops", "prim", name]:
            return name in _PRIM
        case ["ops", "quantized", _] | ["ops", "quantized" | "prim" | "aten"]:
            return True
    return False


def _is_known(function: ast.expr, own: set[str]) -> bool:
    if isinstance(function, ast.Name):
        return function.id in _BUILTINS or _ALIAS.fullmatch(function.id) is not None
    if not isinstance(function, ast.Attribute):
        return False
    if ast.unparse(function).startswith(("torch.", "ops.")):
        return True  # looked at as a name
    return function.attr in own or function.attr in _FUNCTIONS or function.attr in _PACKED


_ON_NUMBERS: dict[str, Callable[..., Any]] = {
    "aten::eq": operator.eq,
    "aten::ne": operator.ne,
    "aten::lt": operator.lt,
    "aten::le": operator.le,
    "aten::gt": operator.gt,
    "aten::ge": operator.ge,
    "aten::add": operator.add,
    "aten::sub": operator.sub,
    "aten::mul": operator.mul,
    "aten::floordiv": operator.floordiv,
    "aten::len": len,
    "aten::__getitem__": operator.getitem,
    "aten::__is__": operator.is_,
    "aten::__isnot__": operator.is_not,
    "aten::__not__": operator.not_,
}
_SHAPES = ("aten::size", "aten::dim")
_KNOWN_TYPES = (bool, int, float, str, list, tuple)


class Known(NamedTuple):
    """A value that is no tensor; None if it depends on what is not known here."""

    value: Any


def graph_of(module: Any) -> Any:
    """Give the module's graph; where it calls functions, they and its modules are put in place."""
    graph = module.graph
    calls = graph.findAllNodes("prim::CallFunction", True)
    return module.inlined_graph if calls else graph


def computed(kind: str, values: Sequence[Any]) -> Known | None:
    """Compute what an operator on numbers gives; None if it is one on tensors, a layer."""
    shape = getattr(values[0], "shape", None) if values else None
    if kind in _SHAPES and not isinstance(values[0], _KNOWN_TYPES):
        sizes = None if shape is None else list(shape)
        return Known(sizes if kind == "aten::size" or sizes is None else len(sizes))
    if kind not in _ON_NUMBERS or any(hasattr(value, "name") for value in values):
        return None
    is_identity = kind in ("aten::__is__", "aten::__isnot__")
    if not is_identity and not all(isinstance(value, _KNOWN_TYPES) for value in values):
        return Known(None)
    try:
        return Known(_ON_NUMBERS[kind](*values))
    except (TypeError, ValueError, IndexError, ZeroDivisionError):
        return Known(None)


def branch_of(node: Any, condition: Any) -> Any:
    """Choose the way that a condition takes, or, if it is not known, one that does not raise."""
    yes, no = node.blocks()
    if isinstance(condition, bool):
        return yes if condition else no
    return no if _raises(yes) else yes


def _raises(block: Any) -> bool:
    return any(node.kind() == "prim::RaiseException" for node in block.nodes())
