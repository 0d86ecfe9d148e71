"""Open the graph that an execution really runs, as something that can be cut."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper

from quantscope.errors import BadModelError
from quantscope.model import Execution
from quantscope.model.network import Port
from quantscope.run.intake import Intake
from quantscope.run.onnx.sessions import reason_of, session_options
from quantscope.run.onnx.suffix.graph import ValueGraph, value_graph


def executed_graph(
    proto: onnx.ModelProto, execution: Execution, *, int8_kernels: bool | None = None
) -> ValueGraph:
    """Give the graph to run with optimizations off, whatever the execution.

    Reference: the model itself, not copied. Runtime: what onnxruntime's optimizer makes of all of
    it, with the kernels that ship in place of the operators that the file states.
    """
    if execution == "reference":
        return value_graph(proto)
    return value_graph(optimize(proto, int8_kernels=int8_kernels))


def optimize(proto: onnx.ModelProto, *, int8_kernels: bool | None = None) -> onnx.ModelProto:
    """Give the model as a runtime session on this machine executes it, node for node."""
    options = session_options("runtime", int8_kernels=int8_kernels, threads=1)
    # Nothing is run here, so there need be no pool of threads and no weights laid out for it.
    options.add_session_config_entry("session.disable_prepacking", "1")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "optimized.onnx"
        options.optimized_model_filepath = str(path)
        try:
            ort.InferenceSession(
                proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # onnxruntime's exceptions share no base class of their own
            raise BadModelError(f"onnxruntime cannot run the model: {reason_of(error)}") from None
        return onnx.load(path)


def intake_of(proto: onnx.ModelProto, name: str) -> Intake:
    """Say how a model in memory is fed; `name` is its file's."""
    stored = {tensor.name for tensor in proto.graph.initializer}
    fed = [value for value in proto.graph.input if value.name not in stored]
    if len(fed) != 1:
        raise BadModelError(f"{name} has {len(fed)} inputs; a classifier has one")
    kind = fed[0].type.tensor_type
    shape = tuple(d.dim_value if d.dim_value > 0 else None for d in kind.shape.dim)
    dtype: Any = helper.tensor_dtype_to_np_dtype(kind.elem_type)
    return Intake(
        name,
        (Port(fed[0].name, np.dtype(dtype).name, shape),),
        fixed_batch=shape[0] if shape else None,
    )
