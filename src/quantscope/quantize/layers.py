"""Find the layers that overrides name, and the tensors that they mean."""

from collections.abc import Iterable, Mapping
from typing import Any

import onnx

from quantscope.errors import BadConfigError
from quantscope.model import weight_channel_axis
from quantscope.quantize.config import LayerOverride, PtqConfig, closest

_FOLDED = ("Relu", "Clip")


def check_layers(config: PtqConfig, layers: Iterable[str], *, model: str) -> None:
    """Raise if an override names a layer that the float model has not."""
    known = list(layers)
    for override in config.overrides:
        if override.layer not in known:
            raise BadConfigError(
                f"No layer '{override.layer}' in {model}; {closest(override.layer, known)}"
            )


def tensor_overrides(
    graph: onnx.GraphProto, config: PtqConfig, *, types: Mapping[str, Any]
) -> dict[str, list[dict[str, Any]]]:
    """Make onnxruntime's TensorQuantOverrides, which are by tensor where ours are by layer."""
    nodes = {node.name: node for node in graph.node}
    found: dict[str, list[dict[str, Any]]] = {}
    for override in config.overrides:
        if not override.changes_type:
            continue
        node = nodes.get(override.layer)
        if node is None:
            raise BadConfigError(
                f"Layer '{override.layer}' was folded into another before quantization; override "
                "that one"
            )
        if override.activations:
            found[written_tensor(graph, node)] = [{"quant_type": types[override.activations]}]
        if override.weights or override.per_channel is not None:
            found |= _weight_override(graph, node, override, config, types=types)
    return found


def written_tensor(graph: onnx.GraphProto, node: onnx.NodeProto) -> str:
    """Name what the layer writes: the output of the ReLU after it, if only that reads it."""
    output = str(node.output[0])
    readers = [reader for reader in graph.node if output in reader.input]
    if len(readers) == 1 and readers[0].op_type in _FOLDED:
        return str(readers[0].output[0])
    return output


def _weight_override(
    graph: onnx.GraphProto,
    node: onnx.NodeProto,
    override: LayerOverride,
    config: PtqConfig,
    *,
    types: Mapping[str, Any],
) -> dict[str, list[dict[str, Any]]]:
    constants = {tensor.name: tensor for tensor in graph.initializer}
    weight = constants.get(node.input[1]) if len(node.input) > 1 else None
    if weight is None:
        raise BadConfigError(
            f"Layer '{override.layer}' ({node.op_type}) has no weights; its override can only "
            "say activations or left_float"
        )
    changed: dict[str, Any] = {"quant_type": types[override.weights or config.weights]}
    per_channel = config.per_channel if override.per_channel is None else override.per_channel
    if per_channel:
        changed["axis"] = _channel_axis(node, len(weight.dims))
    return {weight.name: [changed]}


def _channel_axis(node: onnx.NodeProto, rank: int) -> int:
    transposed = node.op_type == "Gemm" and any(a.name == "transB" and a.i for a in node.attribute)
    axis = weight_channel_axis(node.op_type, rank, is_transposed=transposed)
    return rank - 1 if axis is None else axis
