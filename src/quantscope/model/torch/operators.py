"""This module names PyTorch's operators in ONNX's words, so that one view fits both."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from quantscope.model.naming import make_unique
from quantscope.model.network import AttributeValue
from quantscope.model.torch.pt2_graph import ProgramNode, Ref

_OP_TYPES = {
    "_softmax": "Softmax", "adaptive_avg_pool2d": "AveragePool", "add": "Add", "addmm": "Gemm",
    "avg_pool1d": "AveragePool", "avg_pool2d": "AveragePool", "avg_pool3d": "AveragePool",
    "batch_norm": "BatchNormalization", "bmm": "MatMul", "cat": "Concat", "clamp": "Clip",
    "concat": "Concat", "conv1d": "Conv", "conv2d": "Conv", "conv3d": "Conv",
    "conv_transpose1d": "ConvTranspose", "conv_transpose2d": "ConvTranspose",
    "convolution": "Conv", "div": "Div", "dropout": "Dropout", "flatten": "Flatten",
    "gelu": "Gelu", "hardsigmoid": "HardSigmoid", "hardswish": "HardSwish", "hardtanh": "Clip",
    "layer_norm": "LayerNormalization", "leaky_relu": "LeakyRelu", "linear": "Gemm",
    "log_softmax": "LogSoftmax", "matmul": "MatMul", "max_pool1d": "MaxPool",
    "max_pool2d": "MaxPool", "mean": "ReduceMean", "mm": "MatMul", "mul": "Mul", "pad": "Pad",
    "constant_pad_nd": "Pad", "permute": "Transpose", "relu": "Relu", "relu6": "Clip",
    "reshape": "Reshape", "sigmoid": "Sigmoid", "silu": "Silu", "slice": "Slice",
    "softmax": "Softmax", "squeeze": "Squeeze", "sub": "Sub", "t": "Transpose", "tanh": "Tanh",
    "to": "Cast", "_to_copy": "Cast", "transpose": "Transpose", "unsqueeze": "Unsqueeze",
    "_unsafe_view": "Reshape", "view": "Reshape", "_adaptive_avg_pool2d": "AveragePool",
    "_log_softmax": "LogSoftmax", "_native_batch_norm_legit_no_training": "BatchNormalization",
    "clone": "Identity", "detach": "Identity", "alias": "Identity", "contiguous": "Identity",
}  # fmt: skip
_CONVOLUTIONS = ("Conv", "ConvTranspose")
_FROM_CONV = {"stride": "strides", "dilation": "dilations", "groups": "group"}


def op_type_of(name: str, arguments: Mapping[str, Any]) -> str:
    """Name an operator in ONNX's words, or in its own where ONNX has none.

    `name` is aten's, without namespace, overload and the underscore of in-place ones.
    """
    if name.endswith("adaptive_avg_pool2d") and list(arguments.get("output_size") or ()) == [1, 1]:
        return "GlobalAveragePool"
    if name == "convolution" and arguments.get("transposed"):
        return "ConvTranspose"
    known = _OP_TYPES.get(name)
    return known or "".join(word.capitalize() for word in name.strip("_").split("_"))


def attributes_from(
    op_type: str, arguments: Mapping[str, Any], *, weight_shape: Sequence[int] | None = None
) -> dict[str, AttributeValue]:
    """Give the numbers and texts among the arguments; convolutions and Gemm as ONNX has them."""
    found = {
        name: value for name, given in arguments.items() if (value := _plain(given)) is not None
    }
    if op_type in _CONVOLUTIONS:
        found = _convolution(found, weight_shape)
    if op_type == "Gemm" and "weight" in arguments:
        found = {"transB": 1}  # linear's weight is [out, in]
    return found


def _plain(value: Any) -> AttributeValue | None:
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int | float | str) and not isinstance(value, Ref):
        return value
    if isinstance(value, list) and value and all(type(v) in (int, float, bool) for v in value):
        return tuple(value)
    return None


def _convolution(
    found: Mapping[str, AttributeValue], weight_shape: Sequence[int] | None
) -> dict[str, AttributeValue]:
    """Give a convolution's attributes as ONNX has them, one number for each axis."""
    kernel = tuple(weight_shape[2:]) if weight_shape else ()
    rank = len(kernel) or 2
    attributes: dict[str, AttributeValue] = {"kernel_shape": kernel} if kernel else {}
    for name, onnx_name in _FROM_CONV.items():
        given = found.get(name, 1)
        attributes[onnx_name] = _per_axis(given, rank) if name != "groups" else given
    padding = found.get("padding", 0)
    if isinstance(padding, str):
        attributes["auto_pad"] = {"same": "SAME_UPPER", "valid": "VALID"}.get(padding, padding)
    else:
        attributes["pads"] = _per_axis(padding, rank) * 2
    return attributes


def _per_axis(value: AttributeValue, rank: int) -> tuple[int, ...]:
    numbers = value if isinstance(value, tuple) else (value,)
    whole = tuple(int(number) for number in numbers)
    return whole * rank if len(whole) == 1 else whole


_WITH_WEIGHTS = ("weight", "mat2")
# The bundled network's only module that its ONNX form calls otherwise.
_OUR_RESNET8 = "quantscope.zoo.torch_resnet8.ResNet8"
_OUR_NAMES = {"stem_relu": "stem.relu"}


class ModuleOp(NamedTuple):
    """An operator and the module that calls it; `path` is "" for the model itself."""

    path: str
    operator: str
    has_weights: bool


def module_layer_names(operators: Sequence[ModuleOp]) -> list[str]:
    """Name `stack1.conv1` the operator that a module is, `stack1.add` one inside a module.

    A module that holds no other is its one operator with weights, or its only operator; others
    beside it are named after what they do: `stack2.conv1.pad`.
    """
    inner: dict[str, list[int]] = {}
    for index, operator in enumerate(operators):
        inner.setdefault(operator.path, []).append(index)
    parents = {path[:end] for path in inner for end in range(len(path)) if path[end] == "."}
    names = []
    for index, (path, name, _) in enumerate(operators):
        is_leaf = bool(path) and path not in parents
        is_module = is_leaf and index == _main(operators, inner[path])
        names.append(path if is_module else ".".join(filter(None, (path, name))))
    return make_unique(names)


def program_layer_names(nodes: Sequence[ProgramNode]) -> list[str]:
    """Name the operators of a program by the modules that they were exported from."""
    operators = []
    for node in nodes:
        path = node.modules[-1][0] if node.modules else ""
        has_weights = not set(_WITH_WEIGHTS).isdisjoint(node.arguments)
        operators.append(ModuleOp(path, node.op.split(".")[1].strip("_"), has_weights))
    names = module_layer_names(operators)
    is_ours = any(kind == _OUR_RESNET8 for node in nodes for _, kind in node.modules)
    return make_unique(_OUR_NAMES.get(name, name) for name in names) if is_ours else names


def _main(operators: Sequence[ModuleOp], members: Sequence[int]) -> int | None:
    """Find the one operator that a module is; None if several could be."""
    candidates = [i for i in members if operators[i].has_weights] or members
    return candidates[0] if len(candidates) == 1 else None
