"""This module says when two layers, or shapes, are the same in a float and a quantized network."""

from math import prod

from quantscope.model.network import Layer, Operand, Shape

# Kinds that a quantizer or an optimizer may leave out, fold into a neighbour, or put in.
IDENTITY, RESHAPE, TRANSPOSE, PAD = "identity", "reshape", "transpose", "pad"
CLIP, NORM, ADD_CONSTANT, TIMES_CONSTANT = "clip", "norm", "add constant", "times constant"
MOVES = frozenset({IDENTITY, RESHAPE, TRANSPOSE, PAD})
AFFINE = frozenset({NORM, ADD_CONSTANT, TIMES_CONSTANT})
ABSORBABLE = MOVES | AFFINE | {CLIP}

LINEAR = "linear"
WEIGHTED = frozenset({"Conv", "ConvTranspose", LINEAR})
COMMUTATIVE = frozenset({"Add", "Mul", "Max", "Min", "Sum"})

_KINDS = {
    "BatchNormalization": NORM,
    "Cast": IDENTITY,
    "Clip": CLIP,
    "Dropout": IDENTITY,
    "Flatten": RESHAPE,
    "FusedConv": "Conv",
    "GlobalAveragePool": "mean",
    "Identity": IDENTITY,
    "Pad": PAD,
    "ReduceMean": "mean",
    "Relu": CLIP,
    "Reshape": RESHAPE,
    "Squeeze": RESHAPE,
    "Transpose": TRANSPOSE,
    "Unsqueeze": RESHAPE,
    "Upsample": "Resize",
}
_MATRIX_PRODUCTS = frozenset({"Gemm", "MatMul", "FusedGemm", "FusedMatMul"})
_WITH_CONSTANT = {
    "Add": ADD_CONSTANT,
    "Sub": ADD_CONSTANT,
    "Mul": TIMES_CONSTANT,
    "Div": TIMES_CONSTANT,
}
# Their further inputs say how, not what; some files compute them, others store them.
_FIRST_INPUT_ONLY = frozenset({CLIP, NORM, *MOVES, "Expand", "Resize", "Slice", "Tile", "mean"})


def kind_of(layer: Layer, activations: int) -> str:
    """Name the operator as both networks may write it: `linear` is a Gemm or MatMul by a constant.

    An operator without a name for its kind is its own kind. `activations` are its inputs that are
    no constants.
    """
    op_type = layer.op_type
    if op_type in _MATRIX_PRODUCTS and activations == 1:
        return LINEAR
    if op_type in _WITH_CONSTANT and activations == 1 and len(layer.inputs) == 2:
        return _WITH_CONSTANT[op_type]
    if op_type == "AveragePool" and _is_one_pixel(layer.outputs[0].shape if layer.outputs else ()):
        return "mean"
    return _KINDS.get(op_type, op_type)


def data_inputs(activations: tuple[Operand, ...], kind: str) -> tuple[Operand, ...]:
    """Give those that a layer of this kind computes with, without computed axes and limits."""
    return activations[:1] if kind in _FIRST_INPUT_ONLY else activations


def same_shape(a: Shape | None, b: Shape | None) -> bool:
    """Tell whether nothing that is known of them differs; the batch, which is first, may."""
    if a is None or b is None:
        return True
    if len(a) != len(b):
        return False
    pairs = zip(a[1:], b[1:], strict=True)
    return all(x == y for x, y in pairs if isinstance(x, int) and isinstance(y, int))


def same_content(a: Shape | None, b: Shape | None) -> bool:
    """Tell whether one may be the other reshaped: alike but for 1s, or as many numbers a row."""
    if same_shape(a, b):
        return True
    assert a is not None and b is not None
    sizes = [[dim for dim in shape[1:] if dim != 1] for shape in (a, b)]
    if len(sizes[0]) == len(sizes[1]):
        return same_shape((None, *sizes[0]), (None, *sizes[1]))
    return same_size(a, b)


def merges_rows(flat: Shape | None, apart: Shape | None) -> bool:
    """Tell whether one is the other with the batch and the axes after it made one.

    onnxruntime does so to a batch of sequences before a Gemm: Nx6x20 becomes 6Nx20.
    """
    if flat is None or apart is None or not 2 <= len(flat) < len(apart):
        return False
    if flat[1:] != apart[-len(flat) + 1 :] or not all(isinstance(dim, int) for dim in flat[1:]):
        return False
    ahead = apart[: len(apart) - len(flat) + 1]
    known = [dim for dim in ahead if isinstance(dim, int)]
    return len(known) < len(ahead) or not isinstance(flat[0], int) or flat[0] == prod(known)


def same_size(a: Shape | None, b: Shape | None) -> bool:
    """Tell whether one may be the other with axes turned: as many numbers a row, or unknown.

    Where the first axis counts no rows, it may be turned too: as many numbers in all.
    """
    if a is not None and b is not None and _is_known(a) and _is_known(b) and _count(a) == _count(b):
        return True
    sizes = [shape[1:] if shape is not None else (None,) for shape in (a, b)]
    known = [[dim for dim in size if isinstance(dim, int)] for size in sizes]
    is_known = all(len(k) == len(size) for k, size in zip(known, sizes, strict=True))
    return not is_known or prod(known[0]) == prod(known[1])


def _is_known(shape: Shape) -> bool:
    return all(isinstance(dim, int) for dim in shape)


def _count(shape: Shape) -> int:
    return prod(dim for dim in shape if isinstance(dim, int))


def _is_one_pixel(shape: Shape | None) -> bool:
    return shape is not None and len(shape) > 2 and all(dim == 1 for dim in shape[2:])
