"""Build ResNet8's weights into an ONNX model, node by node so that every name reads well."""

from typing import Any

import onnx
from onnx import helper, numpy_helper

from quantscope.zoo.architecture import STACKS, STEM, ConvSpec, Weights, check_weights

OPSET = 20
IR_VERSION = 9


class _Graph:
    """The nodes so far, in order; each output is named after the node that makes it."""

    def __init__(self, weights: Weights):
        self.weights = weights
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []

    def node(self, name: str, op: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        output = output or f"{name}.out"
        self.nodes.append(helper.make_node(op, list(inputs), [output], name=name, **attributes))
        return output

    def parameters(self, name: str) -> tuple[str, str]:
        keys = f"{name}.weight", f"{name}.bias"
        self.initializers += [numpy_helper.from_array(self.weights[key], key) for key in keys]
        return keys

    def conv(self, spec: ConvSpec, x: str) -> str:
        return self.node(
            spec.name,
            "Conv",
            x,
            *self.parameters(spec.name),
            kernel_shape=[spec.kernel] * 2,
            strides=[spec.stride] * 2,
            pads=list(spec.pads),
        )


def build_onnx(weights: Weights) -> onnx.ModelProto:
    """Build the network from `input` [N,3,32,32], raw pixels 0..255, to `logits` [N,10]."""
    check_weights(weights, source="the given set of weights")
    graph = _Graph(weights)
    x = graph.node("stem.relu", "Relu", graph.conv(STEM, "input"))
    for number, (conv1, conv2, shortcut) in enumerate(STACKS, start=1):
        stack = f"stack{number}"
        y = graph.node(f"{stack}.relu1", "Relu", graph.conv(conv1, x))
        y = graph.conv(conv2, y)
        x = graph.conv(shortcut, x) if shortcut else x
        x = graph.node(f"{stack}.add", "Add", x, y)
        x = graph.node(f"{stack}.relu2", "Relu", x)
    x = graph.node("flatten", "Flatten", graph.node("pool", "GlobalAveragePool", x), axis=1)
    graph.node("head", "Gemm", x, *graph.parameters("head"), output="logits", transB=1)

    def value(name: str, shape: list[int | str]) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)

    proto = helper.make_graph(
        graph.nodes,
        "resnet8",
        [value("input", ["N", 3, 32, 32])],
        [value("logits", ["N", 10])],
        graph.initializers,
    )
    model = helper.make_model(
        proto,
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="quantscope",
    )
    onnx.checker.check_model(model, full_check=True)
    return model
