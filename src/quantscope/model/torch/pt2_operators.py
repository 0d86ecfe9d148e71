"""The operators that a program may call; torch would look up and call anything that it names."""

import re
from typing import Any

_OPERATOR = re.compile(r"torch\.ops\.(aten|quantized_decomposed)\.([a-z][a-z0-9_]*|_\w+)\.(\w+)")
_ON_NUMBERS = (
    "add", "sub", "mul", "floordiv", "mod", "truediv", "neg", "eq", "ne", "lt", "le", "gt", "ge",
    "getitem", "and_", "or_",
)  # fmt: skip
_ON_SHAPES = frozenset(
    {
        *(f"_operator.{name}" for name in _ON_NUMBERS),
        *(f"torch.sym_{name}" for name in ("float", "int", "max", "min", "not")),
    }
)
_PRIVATE_ATEN = frozenset(
    {
        "_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "_assert_scalar",
        "_assert_tensor_metadata", "_convolution", "_log_softmax", "_native_batch_norm_legit",
        "_native_batch_norm_legit_no_training", "_prelu_kernel", "_safe_softmax",
        "_scaled_dot_product_flash_attention_for_cpu", "_softmax", "_to_copy", "_unsafe_index",
        "_unsafe_view", "_upsample_bilinear2d_aa", "_weight_norm",
    }
)  # fmt: skip
# The only aten operators that take the name of a file; both can write one.
_ON_FILES = frozenset({"from_file", "save"})
# What opens something needs a text to name it; the texts of these arguments choose a mode.
STRING_ARGUMENTS = frozenset(
    {
        "approximate", "assert_msg", "equation", "indexing", "interpolation", "mode", "norm",
        "pad_mode", "padding", "reduce", "rounding_mode", "side",
    }
)  # fmt: skip


class RefusedError(ValueError):
    """The reason why a file is not loaded, as the second half of a sentence."""


def known_operator(target: Any) -> str:
    """Give the target as it is, if it is aten's or quantized_decomposed's or works on shapes."""
    if not isinstance(target, str):
        raise RefusedError(f"the operator {target!r} has no name")
    if target in _ON_SHAPES:
        return target
    match = _OPERATOR.fullmatch(target)
    if match is None:
        kind = "which holds a program of its own" if "higher_order" in target else "not a known one"
        raise RefusedError(
            f"it calls {target[:80]!r}, {kind}; only operators of aten and quantized_decomposed "
            f"are loaded"
        )
    name = match[2]
    if name in _ON_FILES:
        raise RefusedError(f"it calls aten.{name}, which opens a file of your machine")
    if name.startswith("_") and (match[1] != "aten" or name not in _PRIVATE_ATEN):
        raise RefusedError(f"it calls {match[1]}.{name}, an internal operator of PyTorch")
    return target
