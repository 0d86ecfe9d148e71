"""This module finds what a name in an edit means: a tensor, or the quantized parts of a layer."""

from quantscope.errors import BadModelError
from quantscope.files import as_argument
from quantscope.model import Layer, Network, QuantTensor
from quantscope.model.network import Role

ROLES: dict[str, tuple[Role, ...]] = {
    "weights": ("weight", "bias"),
    "activations": ("activation",),
}
"""The roles of the tensors that a person means by all weights, and by all activations."""

_PARTS = (".out", ".weight", ".bias")


def find_tensor(network: Network, name: str) -> QuantTensor:
    """Find a tensor by its name here or in the file; say so if it is there but not quantized.

    A model lifted to QDQ is asked by the names of the file that it was lifted from.
    """
    for tensor in network.tensors:
        if tensor.name == name:
            return tensor
    for tensor in network.tensors:
        if name in (tensor.float_name, *tensor.integer_names, *tensor.dequantized_names):
            return tensor
    file = network.path.name
    layer = _layer(network, name)
    if layer is not None:
        parts = ", ".join(part.name for part in parts_of(network, layer)) or "none is quantized"
        raise BadModelError(f"{name!r} is a layer of {file}; name one of its tensors: {parts}")
    if _is_plain(network, name):
        raise BadModelError(
            f"{name!r} is not quantized in {file}, so it has no scale to change. "
            f"List the quantized tensors with: quantscope inspect {as_argument(network.path)}"
        )
    raise network.missing("quantized tensor", name, [t.name for t in network.tensors])


def find_target(network: Network, name: str) -> tuple[QuantTensor, ...]:
    """Find the tensors that `Off` and `On` speak of; a name of ours goes before one of the file."""
    own = [tensor for tensor in network.tensors if tensor.name == name]
    if own:
        return (own[0],)
    layer = _layer(network, name)
    if layer is not None:
        parts = parts_of(network, layer)
        if not parts:
            raise BadModelError(
                f"Layer {name!r} of {network.path.name} has no quantized weight, bias or output"
            )
        return parts
    if any(name in (t.float_name, *t.integer_names, *t.dequantized_names) for t in network.tensors):
        return (find_tensor(network, name),)
    if _is_plain(network, name):
        return (find_tensor(network, name),)  # raises, and says that it is not quantized
    known = [t.name for t in network.tensors] + [x.name for x in network.layers]
    raise network.missing("layer or quantized tensor", name, known)


def parts_of(network: Network, layer: Layer) -> tuple[QuantTensor, ...]:
    """Give the quantized constants that a layer reads and the quantized tensors that it makes."""
    constants = [o.quant for o in layer.inputs if o.quant and o.quant.role != "activation"]
    made = [t for t in network.tensors if t.producer == layer.name and t.role == "activation"]
    return tuple(dict.fromkeys([*constants, *made]))


def _layer(network: Network, name: str) -> Layer | None:
    for layer in network.layers:
        if layer.name == name:
            return layer
    return next((layer for layer in network.layers if layer.node_name == name != ""), None)


def _is_plain(network: Network, name: str) -> bool:
    """Tell whether a value has this name in the file, or as layer.out, .weight or .bias."""
    operands = [o for layer in network.layers for o in (*layer.inputs, *layer.outputs)]
    if any(operand.name == name for operand in (*operands, *network.inputs)):
        return True
    for part in _PARTS:
        layer = _layer(network, name.removesuffix(part)) if name.endswith(part) else None
        if layer is not None:
            roles = {"activation"} if part == ".out" else {part.removeprefix(".")}
            there = layer.outputs if part == ".out" else layer.inputs
            return any(operand.role in roles for operand in there)
    return False
