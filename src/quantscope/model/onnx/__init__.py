"""This room looks into ONNX files before anything trusts them, and reads them into a `Network`.

How it is put together
- `file.py` opens and checks a file (`load_onnx`), with `wire.py` leaving its weights on disk,
  `tensors.py` finding their bytes, `checks.py` and `limits.py` refusing what is damaged or hostile.
- `graph.py` has its nodes as onnx-ir objects (`open_graph`), `shapes.py` the types of its values.
- `qdq.py` gathers every stated scale into drafts (`find_quantized_values`): of QuantizeLinear and
  DequantizeLinear itself, of operators on integers with `qoperator.py`, of packed weights with
  `nbits.py`; `quant_params.py` has the drafts and checks each against its tensor.
- `layer_parts.py` says what a node is as a layer, `signs.py` where a quantizer stands for
  a ReLU; `reader.py` hands all that to `model/assemble.py`.
- `model.py` is the opened file, `lift.py` the arithmetic that a QOperator file states.

How something is added
- An operator that takes integers and their scales: its layout in `qoperator.py`, its name in
  `operators.py`. If its weights are packed, a module like `nbits.py`, called by `qdq.py`.
- A way for a file to be wrong: a check with a line that says what was found, before the graph is
  opened.
"""

from quantscope.model.onnx.checks import check_model, sort_nodes
from quantscope.model.onnx.ends import ENDS_KEY
from quantscope.model.onnx.file import (
    Format,
    OnnxFile,
    ends_in_softmax,
    load_onnx,
    port_of,
)
from quantscope.model.onnx.graph import (
    OnnxGraph,
    has_subgraph,
    input_names,
    open_graph,
    output_names,
)
from quantscope.model.onnx.known import OnnxConstants
from quantscope.model.onnx.layer_parts import attributes_of, subgraph_names
from quantscope.model.onnx.lift import lift_to_qdq
from quantscope.model.onnx.model import OnnxModel
from quantscope.model.onnx.operators import DEFAULT_DOMAINS, MOVES_INTEGERS, QDQ_OPS, QOPERATOR_OPS
from quantscope.model.onnx.qoperator import layout_of
from quantscope.model.onnx.reader import read_onnx
from quantscope.model.onnx.tensors import subgraphs

__all__ = [
    "DEFAULT_DOMAINS",
    "ENDS_KEY",
    "MOVES_INTEGERS",
    "QDQ_OPS",
    "QOPERATOR_OPS",
    "Format",
    "OnnxConstants",
    "OnnxFile",
    "OnnxGraph",
    "OnnxModel",
    "attributes_of",
    "check_model",
    "ends_in_softmax",
    "has_subgraph",
    "input_names",
    "layout_of",
    "lift_to_qdq",
    "load_onnx",
    "open_graph",
    "output_names",
    "port_of",
    "read_onnx",
    "sort_nodes",
    "subgraph_names",
    "subgraphs",
]
