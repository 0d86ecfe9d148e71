"""Models whose nodes carry the names of `Network`'s layers, whatever the file calls them."""

import onnx

from quantscope.model import Network


def named_by_layer(proto: onnx.ModelProto, network: Network) -> onnx.ModelProto:
    """A copy whose nodes carry their layers' names; what is no layer gets a name of its own."""
    named = onnx.ModelProto()
    named.CopyFrom(proto)
    layers = {operand.name: layer.name for layer in network.layers for operand in layer.outputs}
    for number, node in enumerate(named.graph.node):
        known = (layers[name] for name in node.output if name in layers)
        node.name = next(known, f"{node.op_type}:{number}")
    return named
