"""What a network is: model files read into one `Network` of layers and quantized tensors.

Nothing here executes a model, and nothing here changes one.
"""

from quantscope.model.network import Edge, Layer, Network, Operand, QuantParams, QuantTensor
from quantscope.model.onnx.file import OnnxFile, classifier_input, ends_in_softmax, load_onnx
from quantscope.model.onnx.reader import read_onnx
from quantscope.model.pairing.pair import LayerPair, Pairing, TensorPair, Unpaired, pair
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
