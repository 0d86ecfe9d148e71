"""This room opens model files once, and reads them into one `Network` of layers and tensors.

Nothing here executes a model, and nothing here changes one.

- `opened.py` is the door: `open_model` gives a `Model`, whatever kind of file it is.
- `network.py` has the nouns that all kinds share. `onnx/`, `torch/` and `torchscript/` find what is
  in each kind of file, and `assemble.py` puts a `Network` together from what any of them found.
- `pairing/` finds which float tensor each quantized one stands for, `originals.py` which file.

A new kind of file is a folder whose reader fills `assemble.Parts`, with a subclass of `Model`, and
a line in `open_model`.
"""

from quantscope.model.bundled import bundled_models, find_model
from quantscope.model.network import (
    Edge,
    Layer,
    Network,
    Operand,
    Port,
    QuantParams,
    QuantTensor,
)
from quantscope.model.onnx import OnnxFile, OnnxModel, lift_to_qdq, load_onnx, read_onnx
from quantscope.model.opened import (
    Execution,
    Framework,
    Model,
    ModelSource,
    open_model,
    read_network,
)
from quantscope.model.originals import (
    find_original,
    need_original,
    recorded_digest,
    unknown_original,
)
from quantscope.model.pairing import (
    LayerPair,
    Pairing,
    TensorPair,
    Unpaired,
    pair,
    pair_models,
)
from quantscope.model.residuals import Residual, residuals

__all__ = [
    "Edge",
    "Execution",
    "Framework",
    "Layer",
    "LayerPair",
    "Model",
    "ModelSource",
    "Network",
    "OnnxFile",
    "OnnxModel",
    "Operand",
    "Pairing",
    "Port",
    "QuantParams",
    "QuantTensor",
    "Residual",
    "TensorPair",
    "Unpaired",
    "bundled_models",
    "find_model",
    "find_original",
    "lift_to_qdq",
    "load_onnx",
    "need_original",
    "open_model",
    "pair",
    "pair_models",
    "read_network",
    "read_onnx",
    "recorded_digest",
    "residuals",
    "unknown_original",
]
