"""Place PT2E's quantizers, for what torchao's x86 quantizer does not offer.

They stand where onnxruntime puts them and integer hardware expects them: one at the input, one at
what each layer writes (after the ReLU that follows it), both inputs of a residual addition, the
pool and the logits; products of activations and the usual functions are layers too. Padding,
flattening and others that move integers share their input's parameters.
Biases stay float, as PT2E has them.
"""

import torch
from torch.fx import GraphModule, Node
from torchao.quantization.pt2e.observer import (
    HistogramObserver,
    MinMaxObserver,
    MovingAverageMinMaxObserver,
    PerChannelMinMaxObserver,
)
from torchao.quantization.pt2e.quantizer import (
    QuantizationAnnotation,
    QuantizationSpec,
    Quantizer,
    SharedQuantizationSpec,
)

from quantscope.quantize.config import LayerOverride, PtqConfig

aten = torch.ops.aten
TRANSPOSED = (aten.conv_transpose1d.default, aten.conv_transpose2d.input)
WITH_WEIGHTS = (
    aten.conv1d.default, aten.conv2d.default, aten.conv3d.default, *TRANSPOSED, aten.linear.default,
)  # fmt: skip
ADDITIONS = (aten.add.Tensor, aten.add_.Tensor)
BINARY = (
    *ADDITIONS, aten.sub.Tensor, aten.mul.Tensor, aten.mul_.Tensor, aten.matmul.default,
    aten.bmm.default,
)  # fmt: skip
POOLS = (
    aten.adaptive_avg_pool1d.default, aten.adaptive_avg_pool2d.default, aten.avg_pool2d.default,
    aten.mean.dim,
)  # fmt: skip
FUNCTIONS = (
    aten.sigmoid.default, aten.sigmoid_.default, aten.silu.default, aten.silu_.default,
    aten.hardswish.default, aten.hardswish_.default, aten.hardsigmoid.default,
    aten.leaky_relu.default, aten.leaky_relu_.default, aten.gelu.default, aten.softmax.int,
)  # fmt: skip
LAYERS = (*WITH_WEIGHTS, *BINARY, *POOLS, *FUNCTIONS)
MOVES = (
    aten.pad.default, aten.flatten.using_ints, aten.view.default, aten.reshape.default,
    aten.transpose.int, aten.permute.default, aten.squeeze.dim, aten.unsqueeze.default,
    aten.max_pool2d.default, aten.upsample_nearest2d.vec, aten.slice.Tensor, aten.select.int,
)  # fmt: skip
RELUS = (aten.relu.default, aten.relu_.default)
# The classes by which torchao's x86 quantizer finds what it quantizes.
_SOURCES = {
    "conv2d": torch.nn.Conv2d, "batch_norm": torch.nn.BatchNorm2d, "linear": torch.nn.Linear,
    "relu": torch.nn.ReLU, "relu6": torch.nn.ReLU6, "hardtanh": torch.nn.Hardtanh,
    "hardswish": torch.nn.Hardswish, "silu": torch.nn.SiLU, "gelu": torch.nn.GELU,
    "leaky_relu": torch.nn.LeakyReLU, "tanh": torch.nn.Tanh,
}  # fmt: skip

_DTYPES = {"int8": torch.int8, "uint8": torch.uint8}
_RANGES = {"int8": (-128, 127), "uint8": (0, 255)}
# Symmetric int8 without -128 and 7-bit weights from -64 to 64, as onnxruntime has them.
_WEIGHT_RANGES = {
    ("int8", False): (-127, 127),
    ("int8", True): (-64, 64),
    ("uint8", False): (0, 255),
    ("uint8", True): (0, 127),
}
_OBSERVERS = {
    "minmax": MinMaxObserver,
    "moving-average": MovingAverageMinMaxObserver,
    "histogram": HistogramObserver,
}


def layer_name(node: Node) -> str:
    """Give the name that a person knows an operator by: `stack1.conv1`, `stack1.add`, `flatten`."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    path = str(stack[-1][0]) if stack else ""
    if node.target in (*BINARY, *MOVES):
        kind = operator_name(node)
        return f"{path}.{kind}" if path else kind
    return path or node.name


def operator_name(node: Node) -> str:
    """Give the name of an operator without its overload: `add` of `aten.add_.Tensor`."""
    parts = str(node.target).split(".")
    return parts[1].rstrip("_") if node.op == "call_function" and len(parts) > 1 else ""


def name_sources(model: GraphModule) -> None:
    """Say of each operator which module it is of, for torchao's x86 quantizer.

    It looks for classes of modules and takes all operators of one module for one part. A file does
    not say which class called an operator, a function calls it without one, and a module may be
    called several times.
    """
    for node in model.graph.nodes:
        if node.op == "call_function":
            kind = _SOURCES.get(operator_name(node), operator_name(node))
            node.meta["source_fn_stack"] = [(node.name, kind)]


def layers(graph: torch.fx.Graph) -> list[str]:
    """List the layers that an override can name, in order."""
    return [layer_name(node) for node in graph.nodes if node.target in LAYERS]


class PtqQuantizer(Quantizer):  # type: ignore[misc]
    """Annotates an exported graph by a `PtqConfig`."""

    def __init__(self, config: PtqConfig):
        self.config = config
        self.overrides = {override.layer: override for override in config.overrides}

    def annotate(self, model: GraphModule) -> GraphModule:
        specs: dict[Node, QuantizationSpec] = {}
        for node in model.graph.nodes:
            if not _is_float(node):
                continue
            if node.op == "placeholder":
                specs[node] = self._activation_spec(None)
            elif node.target in LAYERS:
                self._annotate_layer(node, specs)
            elif node.target in MOVES and node.args[0] in specs:
                self._annotate_move(node, specs)
        return model

    def validate(self, model: GraphModule) -> None:
        """Check nothing: every annotation comes from a config that was checked."""

    def _annotate_layer(self, node: Node, specs: dict[Node, QuantizationSpec]) -> None:
        override = self.overrides.get(layer_name(node))
        if override and override.left_float:
            return
        inputs: dict[Node, QuantizationSpec] = {}
        for source in node.args[: 2 if node.target in BINARY else 1]:
            if isinstance(source, Node) and _is_float(source):
                # A float layer's output has no spec yet; the first that reads it gives it one.
                inputs[source] = specs.setdefault(source, self._activation_spec(None))
        if node.target in WITH_WEIGHTS:
            inputs[_node(node.args[1])] = self._weight_spec(override, node)
        last = _relu_after(node) or node
        specs[last] = self._activation_spec(override)
        if last is not node:
            last.meta["quantization_annotation"] = QuantizationAnnotation(
                output_qspec=specs[last], _annotated=True
            )
        node.meta["quantization_annotation"] = QuantizationAnnotation(
            input_qspec_map=inputs,
            output_qspec=specs[last] if last is node else None,
            _annotated=True,
        )

    def _annotate_move(self, node: Node, specs: dict[Node, QuantizationSpec]) -> None:
        source = _node(node.args[0])
        specs[node] = SharedQuantizationSpec((source, node))
        node.meta["quantization_annotation"] = QuantizationAnnotation(
            input_qspec_map={source: specs[source]}, output_qspec=specs[node], _annotated=True
        )

    def _activation_spec(self, override: LayerOverride | None) -> QuantizationSpec:
        kind = (override.activations if override else None) or self.config.activations or "uint8"
        low, high = _RANGES[kind]
        symmetric = self.config.symmetric_activations
        return QuantizationSpec(
            dtype=_DTYPES[kind],
            quant_min=low,
            quant_max=high,
            qscheme=torch.per_tensor_symmetric if symmetric else torch.per_tensor_affine,
            observer_or_fake_quant_ctr=_OBSERVERS[self.config.observer or "histogram"],
        )

    def _weight_spec(self, override: LayerOverride | None, layer: Node) -> QuantizationSpec:
        kind = (override.weights if override else None) or self.config.weights
        own = override.per_channel if override else None
        per_channel = self.config.per_channel if own is None else own
        low, high = _WEIGHT_RANGES[kind, self.config.reduce_range]
        schemes = {
            ("int8", True): torch.per_channel_symmetric,
            ("int8", False): torch.per_tensor_symmetric,
            ("uint8", True): torch.per_channel_affine,
            ("uint8", False): torch.per_tensor_affine,
        }
        observer = _OBSERVERS[self.config.weight_observer or "minmax"]
        return QuantizationSpec(
            dtype=_DTYPES[kind],
            quant_min=low,
            quant_max=high,
            qscheme=schemes[kind, per_channel],
            # The weight of a transposed convolution is [in, out, ...].
            ch_axis=(1 if layer.target in TRANSPOSED else 0) if per_channel else None,
            observer_or_fake_quant_ctr=PerChannelMinMaxObserver if per_channel else observer,
        )


def _node(value: object) -> Node:
    assert isinstance(value, Node)
    return value


def _is_float(node: Node) -> bool:
    """Tell whether a node gives a float tensor; indices, masks and lists are not quantized."""
    value = node.meta.get("val")
    return value is None or (isinstance(value, torch.Tensor) and value.dtype == torch.float32)


def _relu_after(node: Node) -> Node | None:
    """Find the ReLU that alone reads the node."""
    users = list(node.users)
    return users[0] if len(users) == 1 and users[0].target in RELUS else None
