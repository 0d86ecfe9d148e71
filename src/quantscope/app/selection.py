"""Select a layer, and a tensor of it. There is one selection for the whole page."""

from dataclasses import dataclass

from quantscope.model import Layer, Network, QuantTensor
from quantscope.report import layer_tensors


@dataclass(frozen=True)
class Selection:
    """A layer and a tensor of it.

    `layer` None is the model's input; `tensor` None where nothing of the layer is quantized.
    """

    layer: str | None
    tensor: str | None

    def to_dict(self) -> dict[str, str]:
        """Give it as the browser has it, with empty texts for None."""
        return {"layer": self.layer or "", "tensor": self.tensor or ""}

    @classmethod
    def from_dict(cls, sent: dict[str, str]) -> "Selection":
        return cls(sent.get("layer") or None, sent.get("tensor") or None)


def select_layer(layer: Layer) -> Selection:
    """Select a layer by its output, or by its weights where the output is not quantized."""
    output = next((o.quant for o in layer.outputs if o.quant), None)
    tensor = output or layer.weight or layer.bias
    return Selection(layer.name, tensor.name if tensor else None)


def select_tensor(tensor: QuantTensor) -> Selection:
    """Select a tensor with the layer that makes it, a constant with the first that reads it."""
    owner = tensor.producer
    if owner is None and tensor.role != "activation" and tensor.consumers:
        owner = tensor.consumers[0]
    return Selection(owner, tensor.name)


def first_selection(network: Network) -> Selection:
    """Select the first layer with weights: there is most to see of it."""
    layers = network.layers
    found = next((layer for layer in layers if layer.weight), layers[0] if layers else None)
    return select_layer(found) if found else Selection(None, None)


def fitting(selection: Selection, network: Network) -> Selection:
    """Find the same place in another network; its first where it has no such."""
    layer = next((x for x in network.layers if x.name == selection.layer), None)
    if layer is not None:
        names = [tensor.name for tensor in layer_tensors(layer)]
        return selection if selection.tensor in names else select_layer(layer)
    if selection.layer is None and any(t.name == selection.tensor for t in network.tensors):
        return selection
    return first_selection(network)
