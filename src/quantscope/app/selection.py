"""What is selected: a layer, and a tensor of it. One selection for the whole page."""

from dataclasses import dataclass

from quantscope.model import Layer, Network, QuantTensor
from quantscope.report import layer_tensors


@dataclass(frozen=True)
class Selection:
    """`layer` None is the model's input; `tensor` None where nothing of the layer is quantized."""

    layer: str | None
    tensor: str | None

    def to_dict(self) -> dict[str, str]:
        return {"layer": self.layer or "", "tensor": self.tensor or ""}

    @classmethod
    def from_dict(cls, sent: dict[str, str]) -> "Selection":
        return cls(sent.get("layer") or None, sent.get("tensor") or None)


def select_layer(layer: Layer) -> Selection:
    """A layer stands for its output; for its weights where the output is not quantized."""
    output = next((o.quant for o in layer.outputs if o.quant), None)
    tensor = output or layer.weight or layer.bias
    return Selection(layer.name, tensor.name if tensor else None)


def select_tensor(tensor: QuantTensor) -> Selection:
    """A tensor is shown with the layer that makes it; a constant with the first that reads it."""
    owner = tensor.producer
    if owner is None and tensor.role != "activation" and tensor.consumers:
        owner = tensor.consumers[0]
    return Selection(owner, tensor.name)


def first_selection(network: Network) -> Selection:
    """The first layer with weights: there is most to see of it."""
    layers = network.layers
    found = next((layer for layer in layers if layer.weight), layers[0] if layers else None)
    return select_layer(found) if found else Selection(None, None)


def fitting(selection: Selection, network: Network) -> Selection:
    """The same place in another network if it has it, else its first."""
    layer = next((x for x in network.layers if x.name == selection.layer), None)
    if layer is not None:
        names = [tensor.name for tensor in layer_tensors(layer)]
        return selection if selection.tensor in names else select_layer(layer)
    if selection.layer is None and any(t.name == selection.tensor for t in network.tensors):
        return selection
    return first_selection(network)
