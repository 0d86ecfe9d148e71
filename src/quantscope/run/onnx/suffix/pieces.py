"""Decide whether a batch may be run in pieces, one a thread, with the bits that it has whole.

A piece on one thread stays in the processor's cache, but a sum of many products is added up in
blocks whose size onnxruntime chooses by the shape that one thread gets. So pieces are for models
whose images do not meet, which is tried, and whose sums are known to be the same for any number of
images and threads. All others run in whole batches, with the threads of a whole run.

In `benchmarks/speed_paths.py`, 1,000 images, the first answer takes 1.33 times less in pieces and
a later one 1.5 times less; of CPU time both take 1.7 times less.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from quantscope.model.onnx import DEFAULT_DOMAINS
from quantscope.run.onnx.suffix.graph import ValueGraph

Array = NDArray[Any]
Values = Mapping[str, Array]

# What these make of one number, or of the numbers of one image, takes no note of what is beside it.
# Functions that are approximated (Exp, Sigmoid) are not among them: they do the last few numbers of
# a thread's share in another way.
_ALONE = frozenset(
    (
        *("QuantizeLinear", "DequantizeLinear", "Relu", "LeakyRelu", "PRelu", "Clip", "Cast"),
        *("Add", "Sub", "Mul", "Div", "Max", "Min", "Neg", "Abs", "Identity", "Dropout"),
        *("Flatten", "Reshape", "Squeeze", "Unsqueeze", "Transpose", "Concat", "Slice", "Split"),
        *("Pad", "Shape", "Gather", "MaxPool", "AveragePool", "GlobalAveragePool"),
        *("GlobalMaxPool", "ReduceMean", "BatchNormalization", "Softmax"),
    )
)
# Images to try, whole and in two parts of different sizes.
_PROBE = 5
_PARTS = ((0, 2), (2, 5))
# Of onnxruntime's matrix products (MLAS), as measured: see tests/run/test_suffix_pieces.py.
_ONE_BLOCK = 128
_NARROW = 16
_PRODUCTS_A_THREAD = 1 << 16


def may_split(
    graph: ValueGraph,
    opened: Callable[[Sequence[str]], Callable[[int, int], Values]],
    *,
    batches: Collection[int],
    threads: int,
) -> bool:
    """Decide for a model as its file states it, in batches of these sizes on so many threads.

    What `opened` makes gives those values for the images from one place to before another, where
    they can be given out as arrays.
    """
    dependent = frozenset(graph.dependent)
    nodes = [node for node in graph.proto.graph.node if not dependent.isdisjoint(node.output)]
    if min(batches) < 2 or not all(map(_is_known, nodes)):
        return False
    products = [node for node in nodes if node.op_type in _PRODUCTS]
    weights = dict.fromkeys(node.input[1] for node in products)
    if not dependent.isdisjoint(weights):
        return False
    made = [name for name in weights if name in graph.makers]
    values = opened([*graph.dependent, *made])
    whole = values(0, _PROBE)
    if not _are_alone(graph, whole, [values(*part) for part in _PARTS]):
        return False
    shapes = {name: value.shape for name, value in whole.items() if value.dtype == np.float32}
    shapes |= {t.name: tuple(t.dims) for t in graph.proto.graph.initializer}
    return all(
        _PRODUCTS[node.op_type](node, shapes, batch, threads)
        for node in products
        for batch in batches
    )


def _are_alone(graph: ValueGraph, whole: Values, parts: list[Values]) -> bool:
    """Say whether each value of all images is that of the first, followed by that of the rest."""
    for name in graph.dependent:
        if name not in whole or (whole[name].dtype == np.int64 and whole[name].ndim < 2):
            continue  # sizes for a Reshape are those of the batch; what it gives is looked at
        pieces = [part[name] for part in parts]
        if any(piece.ndim == 0 for piece in pieces) or len(whole[name]) != _PROBE:
            return False
        if any(piece.shape[1:] != whole[name].shape[1:] for piece in pieces):
            return False
        if np.concatenate(pieces).tobytes() != whole[name].tobytes():
            return False
    return True


Shapes = Mapping[str, tuple[int, ...]]


def _conv_is_steady(node: onnx.NodeProto, shapes: Shapes, batch: int, threads: int) -> bool:
    """Say whether sums keep their order; threads share images unless filters outnumber places."""
    del batch
    weight, made = shapes.get(node.input[1]), shapes.get(node.output[0])
    if weight is None or made is None:
        return False
    groups = next((a.i for a in node.attribute if a.name == "group"), 1)
    filters, places = weight[0] // groups, prod(made[2:])
    return places > 1 and (places >= filters or filters >= 2 * threads)


def _gemm_is_steady(node: onnx.NodeProto, shapes: Shapes, batch: int, threads: int) -> bool:
    """Say whether sums keep their order: in one block, or with too few columns to share out.

    No thread may get a single row, which another kernel computes.
    """
    weight, read = shapes.get(node.input[1]), shapes.get(node.input[0])
    if weight is None or read is None or len(weight) != 2 or node.output[0] not in shapes:
        return False
    settings = {attribute.name: attribute.i for attribute in node.attribute}
    if settings.get("transA"):
        return False
    terms, columns = weight[::-1] if settings.get("transB") else weight
    rows = batch * prod(read[1:-1])
    used = min(threads, rows * columns * terms // _PRODUCTS_A_THREAD + 1)
    return (terms <= _ONE_BLOCK or columns <= _NARROW) and rows >= 2 * used


_PRODUCTS = {"Conv": _conv_is_steady, "Gemm": _gemm_is_steady, "MatMul": _gemm_is_steady}


def _is_known(node: onnx.NodeProto) -> bool:
    return node.domain in DEFAULT_DOMAINS and node.op_type in _ALONE | _PRODUCTS.keys()
