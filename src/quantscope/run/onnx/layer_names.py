"""Name a model's nodes as `Network` names its layers, whatever the file calls them."""

import onnx

from quantscope.model import Network


def name_by_layer(proto: onnx.ModelProto, network: Network) -> onnx.ModelProto:
    """Copy a model so that nodes carry their layers' names; others get a name of their own."""
    named = onnx.ModelProto()
    named.CopyFrom(proto)
    layers = {operand.name: layer.name for layer in network.layers for operand in layer.outputs}
    for number, node in enumerate(named.graph.node):
        known = (layers[name] for name in node.output if name in layers)
        node.name = next(known, f"{node.op_type}:{number}")
    return named
