"""One operator as a model of its own, run by onnxruntime or by onnx's reference evaluator."""

import importlib
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from quantscope.arithmetic import QuantParams, dtype_name

MICROSOFT = "com.microsoft"
# Activation and weight types whose kernels are exact on every CPU.
EXACT_TYPES = [(np.int8, np.int8), (np.uint8, np.uint8)]


def single_op(
    op: str,
    inputs: Sequence[Any],
    output: Any,
    *,
    constant: Sequence[int] = (),
    domain: str = "",
    opset: int = 21,
    then_cast: bool = False,
    **attributes: Any,
) -> tuple[ModelProto, dict[str, np.ndarray]]:
    """The model and its feeds; inputs that are None are left out, those in `constant` built in.

    `then_cast` appends a Cast to `output`, for types that onnxruntime cannot hand out.
    """
    names, graph_inputs, initializers, feeds = [], [], [], {}
    for i, value in enumerate(inputs):
        name = "" if value is None else f"in{i}"
        names.append(name)
        if value is None:
            continue
        array = np.asarray(value)
        if i in constant:
            initializers.append(numpy_helper.from_array(array, name))
        else:
            kind = helper.np_dtype_to_tensor_dtype(array.dtype)
            graph_inputs.append(helper.make_tensor_value_info(name, kind, array.shape))
            feeds[name] = array
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(output))
    made = "made" if then_cast else "out"
    nodes = [helper.make_node(op, names, [made], domain=domain, **attributes)]
    if then_cast:
        nodes.append(helper.make_node("Cast", [made], ["out"], to=kind))
    graph = helper.make_graph(
        nodes,
        op,
        graph_inputs,
        [helper.make_tensor_value_info("out", kind, None)],
        initializers,
    )
    imports = [helper.make_opsetid("", opset), helper.make_opsetid(MICROSOFT, 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10), feeds


def run_ort(
    op: str, inputs: Sequence[Any], output: Any, *, optimized: bool = False, **options: Any
) -> np.ndarray:
    model, feeds = single_op(op, inputs, output, **options)
    session_options = ort.SessionOptions()
    levels = ort.GraphOptimizationLevel
    session_options.graph_optimization_level = (
        levels.ORT_ENABLE_ALL if optimized else levels.ORT_DISABLE_ALL
    )
    session_options.intra_op_num_threads = 1
    session_options.log_severity_level = 3
    session = ort.InferenceSession(
        model.SerializeToString(), session_options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, feeds)[0]


def run_reference(op: str, inputs: Sequence[Any], output: Any, **options: Any) -> np.ndarray:
    model, feeds = single_op(op, inputs, output, **options)
    return ReferenceEvaluator(model).run(None, feeds)[0]


def wheel_cases(*modules: str) -> list[Any]:
    """The backend test cases that the onnx wheel carries for these operators, as pytest params.

    The wheel has no data folder; importing a case module makes its cases. `case.node` would
    import all of them, which takes nine seconds.
    """
    node = importlib.import_module("onnx.backend.test.case.node")
    for name in modules:
        importlib.import_module(f"onnx.backend.test.case.node.{name}")
    wanted = {name.replace("_", "") for name in modules}
    cases = [c for c in node._NodeTestCases if c.model.graph.node[0].op_type.lower() in wanted]
    return [pytest.param(case, id=case.name) for case in cases]


def case_arrays(case: Any) -> tuple[dict[str, np.ndarray], np.ndarray, dict[str, Any]]:
    """Inputs by the schema's names, the expected output, and the attributes."""
    node = case.model.graph.node[0]
    inputs, outputs = case.data_sets[0]
    schema = onnx.defs.get_schema(node.op_type)
    arrays = [as_array(v) for v in inputs]
    present = [schema.inputs[i].name for i, name in enumerate(node.input) if name]
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    return dict(zip(present, arrays, strict=True)), as_array(outputs[0]), attributes


def as_array(value: Any) -> np.ndarray:
    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else np.asarray(value)


def integers(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Mostly the type's two ends, so that pair sums are as large as they get."""
    info = np.iinfo(dtype)
    extreme = rng.choice(np.array([info.min, info.max], dtype), shape)
    anything = rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)
    return np.where(rng.random(shape) < 0.7, extreme, anything).astype(dtype)


def params(scale: Any, zero_point: Any, *, axis: int | None = None) -> QuantParams:
    """Of the zero-point's own NumPy type."""
    return QuantParams(scale, zero_point, dtype_name(np.asarray(zero_point).dtype), axis=axis)


def _avx2_without_vnni() -> str | None:
    """None on such a CPU, else why not."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return f"this is {platform.machine()}, the model is of x86-64 kernels"
    cpuinfo = Path("/proc/cpuinfo")
    if os.name != "posix" or not cpuinfo.exists():
        return "the CPU's features cannot be read here"
    flags = set()
    for line in cpuinfo.read_text().splitlines():
        if line.startswith("flags"):
            flags = set(line.split())
            break
    if "avx2" not in flags:
        return "this CPU has no AVX2"
    newer = sorted(flags & {"avx_vnni", "avx512_vnni", "avx512bw"})
    return f"this CPU has {newer[0]}, so onnxruntime uses other kernels" if newer else None


_REASON = _avx2_without_vnni()
needs_avx2_without_vnni = pytest.mark.skipif(_REASON is not None, reason=str(_REASON))
