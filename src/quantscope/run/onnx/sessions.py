"""Open onnxruntime sessions, the same way everywhere."""

import tempfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx
import onnxruntime as ort

from quantscope.errors import BadModelError
from quantscope.model import Execution
from quantscope.model.onnx import OnnxModel
from quantscope.run.kernels import INT8_OPTION

_MOST_NODES_TO_PLAN = 256


def session_options(
    execution: Execution, *, int8_kernels: bool | None = None, threads: int = 0
) -> ort.SessionOptions:
    """Choose options: no graph optimization for reference, all of it for runtime, which fuses.

    `int8_kernels` sets `session.qdqisint8allowed`; None leaves it as the platform has it.
    `threads` 0 lets onnxruntime use the machine's cores.
    """
    options = ort.SessionOptions()
    options.log_severity_level = 4  # errors are raised, and ours to phrase
    options.intra_op_num_threads = threads
    options.graph_optimization_level = (
        ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        if execution == "reference"
        else ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    )
    if int8_kernels is not None:
        options.add_session_config_entry(INT8_OPTION, "1" if int8_kernels else "0")
    return options


def open_session(
    model: OnnxModel,
    execution: Execution,
    *,
    int8_kernels: bool | None = None,
    threads: int = 0,
) -> ort.InferenceSession:
    """Open a session for one of the two executions.

    QLinear operators run the shipped kernels at any optimization level, so a QOperator model's
    reference is its QDQ lift.
    """
    model.file.check_affordable()
    options = session_options(execution, int8_kernels=int8_kernels, threads=threads)
    if execution == "reference" and model.is_lifted:
        return _session(model.stated.SerializeToString(), options, model.path)
    return _session(str(model.path), options, model.path)


def run_session(
    session: ort.InferenceSession, outputs: Sequence[str], feeds: Mapping[str, Any], model: str
) -> list[Any]:
    """Run a session; whatever it raises becomes one line that names the model."""
    try:
        return list(session.run(list(outputs), dict(feeds)))
    except Exception as error:  # onnxruntime's exceptions share no base class of their own
        raise BadModelError(f"{model} failed while running: {reason_of(error)}") from None


def session_of(
    proto: onnx.ModelProto,
    execution: Execution,
    *,
    int8_kernels: bool | None = None,
    threads: int = 0,
) -> ort.InferenceSession:
    """Open a session for a model in memory, as it is."""
    return open_proto(proto, session_options(execution, int8_kernels=int8_kernels, threads=threads))


def open_proto(
    proto: onnx.ModelProto, options: ort.SessionOptions, *, not_optimized: Collection[str] = ()
) -> ort.InferenceSession:
    """Open a model in memory; `not_optimized` names optimizers that are left out."""
    # Planning which buffer takes which place goes with the square of the nodes where shapes are not
    # known: 20 ms for 700 of them, minutes for 8,000. Unplanned, values still go when the last of
    # their readers has run, and a graph is no slower.
    options.enable_mem_reuse = len(proto.graph.node) <= _MOST_NODES_TO_PLAN
    return _session(proto.SerializeToString(), options, Path("the model"), not_optimized)


def read_optimized(proto: onnx.ModelProto, options: ort.SessionOptions) -> onnx.ModelProto:
    """Read back the graph that onnxruntime's optimizer makes of a model; nothing is run."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "optimized.onnx"
        options.optimized_model_filepath = str(path)
        _session(proto.SerializeToString(), options, Path("the model"))
        return onnx.load(path)


def reason_of(error: Exception) -> str:
    """Give the first line of what onnxruntime says."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def _session(
    source: str | bytes,
    options: ort.SessionOptions,
    path: Path,
    not_optimized: Collection[str] = (),
) -> ort.InferenceSession:
    try:
        return ort.InferenceSession(
            source,
            options,
            providers=["CPUExecutionProvider"],
            disabled_optimizers=set(not_optimized),
        )
    except Exception as error:  # onnxruntime's exceptions share no base class of their own
        raise BadModelError(f"onnxruntime cannot run {path.name}: {reason_of(error)}") from None
