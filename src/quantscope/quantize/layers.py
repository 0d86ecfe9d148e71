"""Find the layers that overrides name, what they became once prepared, and their tensors."""

from collections.abc import Iterable, Mapping
from typing import Any

import onnx

from quantscope.errors import BadConfigError
from quantscope.model import Network, weight_channel_axis
from quantscope.quantize.config import LayerOverride, PtqConfig, closest

FOLDED = ("Relu", "Clip")
WITH_WEIGHTS = ("Conv", "ConvTranspose", "MatMul", "Gemm")

Pieces = tuple[onnx.NodeProto, ...]
"""The nodes that a layer of the float model became; the one that writes its value is the first."""


def check_layers(config: PtqConfig, layers: Iterable[str], *, model: str) -> None:
    """Raise if an override names a layer that the float model has not."""
    known = list(layers)
    for override in config.overrides:
        if override.layer not in known:
            raise BadConfigError(
                f"No layer '{override.layer}' in {model}; {closest(override.layer, known)}"
            )


def nodes_by_layer(graph: onnx.GraphProto, network: Network) -> dict[str, onnx.NodeProto]:
    """Find each node by its own name, and by the shorter one that `inspect` shows."""
    makers = {name: node for node in graph.node for name in node.output if name}
    shown = {
        layer.name: makers[layer.outputs[0].name]
        for layer in network.layers
        if layer.outputs and layer.outputs[0].name in makers
    }
    return shown | {node.name: node for node in graph.node if node.name}


def find_pieces(
    config: PtqConfig,
    floats: Mapping[str, onnx.NodeProto],
    original: onnx.GraphProto,
    prepared: onnx.GraphProto,
) -> dict[str, Pieces]:
    """Find what became of the layers that overrides name, which may be folded, fused or split.

    `floats` has the nodes of the float model, `original`, by their layers' names.
    """
    known = {value.name for value in (*original.input, *original.initializer)}
    known.update(name for node in original.node for name in node.output)
    makers = {name: node for node in prepared.node for name in node.output if name}
    named = {node.name: node for node in prepared.node if node.name}
    found: dict[str, Pieces] = {}
    for override in config.overrides:
        node = floats[override.layer]
        end = _end(node, original, makers)
        pieces = _pieces(end, makers, known) if end else ()
        if node.name in named and named[node.name] not in pieces:
            pieces = (named[node.name], *pieces)
        if not pieces:
            raise BadConfigError(
                f"Layer '{override.layer}' ({node.op_type}) is not there any more when layers are "
                f"quantized: preparing folds it into others; name one of those"
            )
        found[override.layer] = pieces
    return found


def _end(
    node: onnx.NodeProto, original: onnx.GraphProto, makers: Mapping[str, onnx.NodeProto]
) -> str:
    """Name the value in which the layer's own ends up, empty where it is gone."""
    value = str(node.output[0])
    if value in makers or node.op_type not in WITH_WEIGHTS:
        return value if value in makers else ""
    # What is added or multiplied behind a layer with weights is folded into it.
    for _ in range(3):
        readers = [reader for reader in original.node if value in reader.input]
        if len(readers) != 1:
            break
        value = str(readers[0].output[0])
        if value in makers:
            return value if makers[value].op_type in (*WITH_WEIGHTS, "Reshape") else ""
    return ""


def _pieces(end: str, makers: Mapping[str, onnx.NodeProto], known: set[str]) -> Pieces:
    """List the nodes between the value and those values before it that the float model has."""
    pieces = [makers[end]]
    for node in pieces:  # it grows
        for name in node.input:
            maker = makers.get(name)
            if maker is not None and name not in known and maker not in pieces:
                pieces.append(maker)
    return tuple(pieces)


def tensor_overrides(
    graph: onnx.GraphProto,
    config: PtqConfig,
    pieces: Mapping[str, Pieces],
    *,
    types: Mapping[str, Any],
) -> dict[str, list[dict[str, Any]]]:
    """Make onnxruntime's TensorQuantOverrides, which are by tensor where ours are by layer."""
    found: dict[str, list[dict[str, Any]]] = {}
    for override in config.overrides:
        if not override.changes_type:
            continue
        nodes = pieces[override.layer]
        if override.activations:
            found[name_written_tensor(graph, nodes[0])] = [
                {"quant_type": types[override.activations]}
            ]
        if override.weights or override.per_channel is not None:
            node = next((node for node in nodes if node.op_type in WITH_WEIGHTS), nodes[0])
            found |= _weight_override(graph, node, override, config, types=types)
    return found


def name_written_tensor(graph: onnx.GraphProto, node: onnx.NodeProto) -> str:
    """Name what the layer writes: the output of the ReLU after it, if only that reads it."""
    output = str(node.output[0])
    readers = [reader for reader in graph.node if output in reader.input]
    if len(readers) == 1 and readers[0].op_type in FOLDED:
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
