"""This module finds the module that a layer's constants are named after, as PyTorch names them.

A weight keeps its module's path where its node has lost it: a convolution with a BatchNormalization
folded into it takes that one's name, and optimizers make nodes without any.
"""

import re
from typing import NamedTuple

import onnx_ir as ir

from quantscope.model.onnx.graph import OnnxGraph, input_names, output_names
from quantscope.model.onnx.operators import DEFAULT_DOMAINS, QDQ_OPS

_QUANTIZERS_ADD = re.compile(
    r"(_quantized|_transposed|_bias_reshape_output|_DequantizeLinear_Output|_Q[248]|_merged_\d+)+$"
)
_FUSIONS_ADD = re.compile(r"^(Conv(Bn|Mul|Add)Fusion_(BN_B|Add_B|Mul_B|Add|Mul|W|B)_)+")
_WEIGHT = re.compile(
    r"(?P<owner>.+?)(\.weight(_[ih]h\w*)?|\.w_0|/kernel|/depthwise_kernel|/gamma|\.gamma)"
)
_BIAS = re.compile(r"(?P<owner>.+?)(\.bias|\.b_0|/bias)")
# On the way from a stored constant to the layer that reads it.
_PASSED = frozenset({*QDQ_OPS, "Cast", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"})
_OWNS = frozenset(
    {
        *("BatchNormalization", "Conv", "ConvInteger", "ConvTranspose", "DynamicQuantizeLSTM"),
        *("DynamicQuantizeMatMul", "FusedConv", "FusedGemm", "GRU", "Gather", "Gemm"),
        *("GatherBlockQuantized", "GroupNormalization", "InstanceNormalization", "LSTM"),
        *("LayerNormalization", "MatMul", "MatMulInteger", "MatMulIntegerToFloat", "MatMulNBits"),
        *("PRelu", "QGemm", "QLinearConv", "QLinearMatMul", "RNN"),
    }
)
_PLUS = frozenset({"Add", "QLinearAdd"})


class Owner(NamedTuple):
    """The modules that a node's weight and bias are named after, "" for none that is its alone."""

    of_weight: str = ""
    of_bias: str = ""
    has_weight: bool = False


class Owners:
    """Finds owners; which constants several nodes read is found once for a graph."""

    def __init__(self, graph: OnnxGraph) -> None:
        self._graph = graph
        self._readers: dict[str, list[ir.Node]] = {}
        self._uses: dict[str, set[ir.Node]] = {}
        for node in graph.nodes:
            for name in set(input_names(node)):
                self._readers.setdefault(name, []).append(node)
        for node in graph.nodes:
            if node.op_type not in _PASSED:
                for name in self._roots(node):
                    self._uses.setdefault(name, set()).add(node)

    def of(self, node: ir.Node) -> Owner:
        """Find the owner of a node's constants; a MatMul's may be that of the bias added to it."""
        roots = self._roots(node)
        if node.op_type in _PLUS:
            return Owner(of_bias=self._named(roots, _BIAS))
        if node.op_type not in _OWNS or not roots:
            return Owner()
        of_weight = self._named(roots, _WEIGHT)
        of_bias = "" if of_weight else self._named(roots, _BIAS) or self._bias_behind(node)
        return Owner(of_weight, of_bias, has_weight=True)

    def _bias_behind(self, node: ir.Node) -> str:
        """Look for a bias that is added to what the node gives, past quantizers alone."""
        value = output_names(node)[0]
        for _ in range(4):  # QuantizeLinear, DequantizeLinear and what dynamic products end in
            readers = self._readers.get(value, [])
            if len(readers) != 1:
                return ""
            if readers[0].op_type in _PLUS:
                return self._named(self._roots(readers[0]), _BIAS)
            if readers[0].op_type not in (*QDQ_OPS, "Cast", "Mul"):
                return ""
            value = output_names(readers[0])[0]
        return ""

    def _named(self, roots: list[str], form: re.Pattern[str]) -> str:
        for name in roots:
            plain = _FUSIONS_ADD.sub("", _QUANTIZERS_ADD.sub("", name))
            found = form.fullmatch(plain)
            if found is not None and len(self._uses[name]) == 1:
                return found["owner"].removeprefix("module.").replace("/", ".")
        return ""

    def _roots(self, node: ir.Node) -> list[str]:
        """List the stored constants of more than one number that a node reads, or what they were.

        A quantizer's scales are not among them.
        """
        found = []
        for given in input_names(node):
            name = given
            while (maker := self._graph.makers.get(name)) is not None and maker.op_type in _PASSED:
                if maker.domain not in DEFAULT_DOMAINS and maker.op_type not in QDQ_OPS:
                    break
                name = input_names(maker)[0]
            stored = self._graph.tensor(name)
            if stored is not None and stored.size > 1:
                found.append(name)
        return found
