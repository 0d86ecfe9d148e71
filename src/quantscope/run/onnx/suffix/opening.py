"""The graph that an execution really runs, as something that can be cut."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from numpy.typing import NDArray
from onnx import helper

from quantscope.errors import BadModelError
from quantscope.run.classifier import Classifier
from quantscope.run.onnx.sessions import Execution, reason_of, session_options
from quantscope.run.onnx.suffix.graph import ValueGraph, value_graph


def executed_graph(
    proto: onnx.ModelProto, execution: Execution, *, int8_kernels: bool | None = None
) -> ValueGraph:
    """What is to be run with optimizations off, whatever the execution.

    Reference: the model itself, not copied. Runtime: what onnxruntime's optimizer makes of all of
    it, with the kernels that ship in place of the operators that the file states.
    """
    if execution == "reference":
        return value_graph(proto)
    return value_graph(optimized(proto, int8_kernels=int8_kernels))


def optimized(proto: onnx.ModelProto, *, int8_kernels: bool | None = None) -> onnx.ModelProto:
    """The model as a runtime session on this machine executes it, node for node."""
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


def input_facts(proto: onnx.ModelProto, execution: Execution, name: str) -> Classifier:
    """How images must be given to the model; what it would answer is not to be asked of it."""
    stored = {tensor.name for tensor in proto.graph.initializer}
    fed = [value for value in proto.graph.input if value.name not in stored]
    if len(fed) != 1:
        raise BadModelError(f"{name} has {len(fed)} inputs; a classifier has one")
    kind = fed[0].type.tensor_type
    batch, *shape = (d.dim_value if d.dim_value > 0 else None for d in kind.shape.dim)

    def run(images: NDArray[np.generic]) -> NDArray[np.floating]:
        raise NotImplementedError(f"{name} is run in parts; {len(images)} images were given whole")

    dtype: Any = helper.tensor_dtype_to_np_dtype(kind.elem_type)
    return Classifier(
        name=name,
        digest="",
        execution=execution,
        input_shape=tuple(shape),
        input_dtype=np.dtype(dtype),
        gives_probabilities=False,
        run=run,
        fixed_batch=batch,
    )
