"""What a network is: model files read into one `Network` of layers and quantized tensors.

Nothing here executes a model, and nothing here changes one. `network.py` has the nouns; `reader.py`
tells files apart; `onnx/`, `torch/` and `torchscript/` find what is in each kind of file, and
`assemble.py` puts a `Network` together from what any of them found. `pairing/` says which float
tensor a quantized one stands for.

A format is added as a folder whose reader fills `assemble.Parts`, and a line in `reader.py`.
"""

from quantscope.model.network import (
    Edge,
    Layer,
    Network,
    Operand,
    Port,
    QuantParams,
    QuantTensor,
)
from quantscope.model.onnx import OnnxFile, classifier_input, ends_in_softmax, load_onnx, read_onnx
from quantscope.model.pairing import LayerPair, Pairing, TensorPair, Unpaired, pair
from quantscope.model.reader import read_network
from quantscope.model.residuals import Residual, residuals

__all__ = [
    "Edge",
    "Layer",
    "LayerPair",
    "Network",
    "OnnxFile",
    "Operand",
    "Pairing",
    "Port",
    "QuantParams",
    "QuantTensor",
    "Residual",
    "TensorPair",
    "Unpaired",
    "classifier_input",
    "ends_in_softmax",
    "load_onnx",
    "pair",
    "read_network",
    "read_onnx",
    "residuals",
]
