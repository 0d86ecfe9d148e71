"""Find layers whose biases onnxruntime's quantizer would store wrong, without a word.

It takes away a Gemm's beta and not its effect on the bias; in the operator format it forgets alpha
as well, and stores a bias that several layers add once, in the steps of one of them. Such layers
stay float.
"""

from collections.abc import Iterator

import onnx

_BIASED = frozenset({"Conv", "ConvTranspose", "Gemm"})


def lost_biases(graph: onnx.GraphProto, *, is_qoperator: bool) -> Iterator[tuple[str, str]]:
    """Give the names of such layers, each with what is the matter with its bias."""
    stored = {tensor.name for tensor in graph.initializer}
    readers: dict[str, str] = {}
    for node in graph.node:
        bias = node.input[2] if node.op_type in _BIASED and len(node.input) > 2 else ""
        if bias not in stored:
            continue
        first = readers.setdefault(bias, node.name)
        factors = {a.name: a.f for a in node.attribute if node.op_type == "Gemm"}
        alpha, beta = factors.get("alpha", 1.0), factors.get("beta", 1.0)
        if beta != 1:
            yield node.name, f"it multiplies its bias by a beta of {beta:g}"
        elif is_qoperator and alpha != 1:
            yield node.name, f"it multiplies its products by an alpha of {alpha:g}, not its bias"
        elif is_qoperator and first != node.name:
            yield node.name, f"it adds the same bias as '{first}'"
