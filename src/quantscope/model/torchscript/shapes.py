"""This module works out shapes along a TorchScript graph, of which only the input's is stored."""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from quantscope.model.network import Dim, Shape

_SAME = frozenset(
    {"add", "add_relu", "batch_norm", "clamp", "contiguous", "dequantize", "detach", "dropout",
     "elu", "gelu", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "mul", "mul_relu",
     "quantize_per_channel", "quantize_per_tensor", "relu", "relu6", "sigmoid", "silu", "softmax",
     "sub", "tanh", "to"}
)  # fmt: skip
_POOLS = ("avg_pool2d", "max_pool2d")


def shape_after(
    operator: str, inputs: Sequence[Shape | None], arguments: Mapping[str, Any]
) -> Shape | None:
    """Work out the output's shape; None where it is not known. A batch is the symbol `N`."""
    if not inputs or any(shape is None for shape in inputs):
        return None
    shapes = [shape for shape in inputs if shape is not None]
    try:
        return _shape_after(operator, shapes, arguments)
    except (IndexError, KeyError, TypeError, ValueError, ZeroDivisionError):
        return None


def weighted_shape(
    shape: Shape | None, op_type: str, weight: Sequence[int], attributes: Mapping[str, Any]
) -> Shape | None:
    """Work out the shape after a convolution or a Gemm, whose weight is [out, in, ...].

    `attributes` are ONNX's; it is None for other operators and unknown sizes.
    """
    if shape is None:
        return None
    if op_type == "Gemm":
        return (*shape[:-1], weight[0])
    return _convolved(shape, list(weight), attributes) if op_type == "Conv" else None


def _convolved(shape: Shape, weight: Sequence[int], attributes: Mapping[str, Any]) -> Shape | None:
    if len(shape) != len(weight):
        return None
    kernel, rank = weight[2:], len(weight) - 2
    spatial: list[Dim] = []
    for axis, size in enumerate(shape[2:]):
        if not isinstance(size, int):
            return None
        reach = attributes["dilations"][axis] * (kernel[axis] - 1)
        padding = attributes["pads"][axis] + attributes["pads"][axis + rank]
        spatial.append((size + padding - reach - 1) // attributes["strides"][axis] + 1)
    return (shape[0], weight[0], *spatial)


def _shape_after(
    operator: str, shapes: Sequence[Shape], arguments: Mapping[str, Any]
) -> Shape | None:
    first = shapes[0]
    match operator:
        case _ if operator in _SAME:
            found: Shape | None = _broadcast(shapes)
        case "permute":
            found = tuple(first[axis] for axis in arguments["dims"])
        case "transpose":
            one, two = arguments["dim0"], arguments["dim1"]
            order = list(range(len(first)))
            order[one], order[two] = order[two], order[one]
            found = tuple(first[axis] for axis in order)
        case "pad":
            found = _padded(first, arguments["pad"])
        case "reshape" | "view":
            found = _reshaped(first, arguments.get("shape", arguments.get("size")))
        case "flatten":
            found = _flattened(first, arguments.get("start_dim", 0), arguments.get("end_dim", -1))
        case "adaptive_avg_pool2d":
            found = (*first[:-2], *arguments["output_size"])
        case "mean":
            found = _reduced(first, arguments.get("dim") or [], bool(arguments.get("keepdim")))
        case "matmul":
            found = (*first[:-1], shapes[1][-1])
        case "cat":
            axis = arguments.get("dim", 0) % len(first)
            found = (*first[:axis], sum(_int(s[axis]) for s in shapes), *first[axis + 1 :])
        case _ if operator in _POOLS:
            found = _pooled(first, arguments)
        case _:
            found = None
    return found


def _int(dim: Dim) -> int:
    if not isinstance(dim, int):
        raise TypeError("the dimension is not a number")
    return dim


def _broadcast(shapes: Sequence[Shape]) -> Shape:
    rank = max(len(shape) for shape in shapes)
    padded = [(1,) * (rank - len(shape)) + tuple(shape) for shape in shapes]
    return tuple(next((dim for dim in dims if dim != 1), 1) for dims in zip(*padded, strict=True))


def _padded(shape: Shape, pad: Sequence[int]) -> Shape:
    """Pad as PyTorch does, from the last axis on: left, right, top, bottom."""
    dims = list(shape)
    for place in range(len(pad) // 2):
        dims[-1 - place] = _int(dims[-1 - place]) + pad[2 * place] + pad[2 * place + 1]
    return tuple(dims)


def _reshaped(shape: Shape, target: Sequence[int]) -> Shape:
    """Put in what -1 stands for; None in its place where that is not known."""
    numbers = [dim for dim in shape if isinstance(dim, int)]
    known = prod(dim for dim in target if dim != -1)
    is_whole = len(numbers) == len(shape)
    if not is_whole and prod(numbers) == known:  # all but the batch: -1 is the batch
        rest: Dim = next(dim for dim in shape if not isinstance(dim, int))
    else:
        rest = prod(numbers) // known if is_whole else None
    return tuple(rest if dim == -1 else dim for dim in target)


def _flattened(shape: Shape, start: int, end: int) -> Shape:
    start, end = start % len(shape), end % len(shape)
    middle = prod(_int(dim) for dim in shape[start : end + 1])
    return (*shape[:start], middle, *shape[end + 1 :])


def _reduced(shape: Shape, axes: Sequence[int], keep: bool) -> Shape:
    gone = {axis % len(shape) for axis in axes}
    kept = [(1 if i in gone else dim) for i, dim in enumerate(shape) if keep or i not in gone]
    return tuple(kept)


def _pooled(shape: Shape, arguments: Mapping[str, Any]) -> Shape:
    def pair(name: str, default: Sequence[int]) -> Sequence[int]:
        given = arguments.get(name) or default
        return [given] * 2 if isinstance(given, int) else list(given) * (2 // len(given))

    kernel = pair("kernel_size", [1, 1])
    stride, padding = pair("stride", kernel), pair("padding", [0, 0])
    dilation = pair("dilation", [1, 1])
    up = arguments.get("ceil_mode")
    dims: list[Dim] = []
    for axis in range(2):
        room = _int(shape[axis - 2]) + 2 * padding[axis] - dilation[axis] * (kernel[axis] - 1) - 1
        dims.append((-(-room // stride[axis]) if up else room // stride[axis]) + 1)
    return (*shape[:-2], *dims)
