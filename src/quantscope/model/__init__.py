"""This room opens model files once, and reads them into one `Network` of layers and tensors.

Nothing here executes a model, and nothing here changes one.

- `opened.py` is the door: `open_model` gives a `Model`, whatever kind of file it is.
- `network.py` has the nouns that all kinds share. `onnx/`, `torch/` and `torchscript/` find what is
  in each kind of file, and `assemble.py` puts a `Network` together from what any of them found.
- `pairing/` finds which float tensor each quantized one stands for, `float_original.py` which file.

A new kind of file is a folder whose reader fills `assemble.Parts`, with a subclass of `Model`, and
a line in `open_model`.
"""

from quantscope.model.batching import Batching, find_batching
from quantscope.model.bundled import bundled_models, find_model
from quantscope.model.channels import (
    activation_channel_axis,
    compared_channel_axis,
    edited_channel_axis,
    reads_transposed,
    weight_channel_axis,
)
from quantscope.model.float_original import (
    PROVENANCE_KEY,
    find_original,
    need_original,
    recorded_digest,
    recorded_facts,
    unknown_original,
)
from quantscope.model.input_uses import InputUse
from quantscope.model.network import (
    Array,
    AttributeValue,
    Dim,
    Edge,
    Layer,
    Network,
    Operand,
    Port,
    QuantParams,
    QuantTensor,
    Role,
    Shape,
    show_shape,
    total,
)
from quantscope.model.network_json import SCHEMA_VERSION, json_safe, params_to_dict
from quantscope.model.onnx import OnnxFile, OnnxModel, lift_to_qdq, load_onnx, read_onnx
from quantscope.model.opened import (
    Execution,
    Framework,
    Model,
    ModelSource,
    holds_weights_alone,
    open_model,
    read_network,
)
from quantscope.model.pairing import (
    LayerPair,
    Pairing,
    TensorPair,
    Unpaired,
    pair_models,
    pair_networks,
)
from quantscope.model.residuals import Branch, Residual, joins_past_weights, residuals
from quantscope.model.syntax import parse_expression, parse_patiently_everywhere

__all__ = [
    "PROVENANCE_KEY",
    "SCHEMA_VERSION",
    "Array",
    "AttributeValue",
    "Batching",
    "Branch",
    "Dim",
    "Edge",
    "Execution",
    "Framework",
    "InputUse",
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
    "Role",
    "Shape",
    "TensorPair",
    "Unpaired",
    "activation_channel_axis",
    "bundled_models",
    "compared_channel_axis",
    "edited_channel_axis",
    "find_batching",
    "find_model",
    "find_original",
    "holds_weights_alone",
    "joins_past_weights",
    "json_safe",
    "lift_to_qdq",
    "load_onnx",
    "need_original",
    "open_model",
    "pair_models",
    "pair_networks",
    "params_to_dict",
    "parse_expression",
    "parse_patiently_everywhere",
    "read_network",
    "read_onnx",
    "reads_transposed",
    "recorded_digest",
    "recorded_facts",
    "residuals",
    "show_shape",
    "total",
    "unknown_original",
    "weight_channel_axis",
]
