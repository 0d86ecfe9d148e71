"""The kernel map in the names of `Network`'s layers, whatever the file calls its nodes."""

import onnx

from quantscope.model import Network, load_onnx
from quantscope.run.kernels import LayerKernel, kernel_map


def named_by_layer(proto: onnx.ModelProto, network: Network) -> onnx.ModelProto:
    """A copy whose nodes carry their layers' names; what is no layer gets a name of its own."""
    named = onnx.ModelProto()
    named.CopyFrom(proto)
    layers = {operand.name: layer.name for layer in network.layers for operand in layer.outputs}
    for number, node in enumerate(named.graph.node):
        known = (layers[name] for name in node.output if name in layers)
        node.name = next(known, f"{node.op_type}:{number}")
    return named


def layer_kernels(network: Network, *, int8_kernels: bool | None = None) -> dict[str, LayerKernel]:
    """What onnxruntime's optimizer makes of each layer on this machine."""
    proto = named_by_layer(load_onnx(network.path).load_proto(), network)
    found = kernel_map(proto, int8_kernels=int8_kernels).layers
    names = {layer.name for layer in network.layers}
    return {kernel.name: kernel for kernel in found if kernel.name in names}
