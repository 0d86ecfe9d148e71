"""Prepare a float ONNX model for onnxruntime's quantizer: types known, operators folded, all named.

onnxruntime's own preparation folds batch norm and constants and writes some operators as several.
Here it is given what it can take: an opset that has what will be written, no shapes that it
disputes; and what it leaves open is filled in: types that shape inference did not find, names of
nodes that it made.
"""

import contextlib
import io
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path

import onnx
import onnxruntime as ort
from onnxruntime.quantization.shape_inference import quant_pre_process

from quantscope.errors import BadModelError
from quantscope.model.onnx import OnnxFile, subgraphs

_USUAL_SEVERITY = 2  # onnxruntime's own, warnings and worse; it cannot be asked for
_FUSED = "/MatMulAddFusion"
_TENSOR_TYPES = {
    "tensor(float)": onnx.TensorProto.FLOAT,
    "tensor(float16)": onnx.TensorProto.FLOAT16,
    "tensor(double)": onnx.TensorProto.DOUBLE,
    "tensor(bool)": onnx.TensorProto.BOOL,
} | {
    f"tensor({name})": getattr(onnx.TensorProto, name.upper())
    for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
}


Origins = Mapping[str, tuple[onnx.NodeProto, str]]
"""The nodes of the float model and their names, by the value that each writes first."""


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silence onnxruntime's quantizer, which prints and logs for its own developers."""
    disabled = logging.root.manager.disable
    logging.disable(logging.ERROR)
    ort.set_default_logger_severity(4)  # errors are raised, and ours to phrase
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        ort.set_default_logger_severity(_USUAL_SEVERITY)
        logging.disable(disabled)


def first_line(error: Exception) -> str:
    """Give what onnx or onnxruntime says first; they raise many kinds."""
    text = str(error).strip()
    return text.splitlines()[0] if text else repr(error)


def pre_process(
    file: OnnxFile,
    output: Path,
    *,
    least_opset: int = 0,
    layer_names: Mapping[str, str] | None = None,
) -> None:
    """Infer types, fold batch norm and constants; nodes that remain keep their names.

    `layer_names` has names for nodes that have none, by the value that they write first.
    """
    source = file.path
    if file.external_files or file.opset < least_opset:
        # onnxruntime would look for external files beside its own copy.
        source = output.with_name("whole.onnx")
        _save(file, _raise_opset(file, least_opset), source)
    try:
        _fold(source, output)
    except Exception:  # onnx and onnxruntime raise many kinds; some go away with disputed shapes
        proto = _raise_opset(file, least_opset)
        _forget_shapes(proto.graph)
        source = output.with_name("without-shapes.onnx")
        _save(file, proto, source)
        try:
            _fold(source, output)
        except Exception as error:  # as above
            raise BadModelError(
                f"{file.path} cannot be prepared for quantization: {first_line(error)}"
            ) from None
    proto = onnx.load(output)
    # Both, one after the other, whatever the first did.
    origins = {
        node.output[0]: (node, node.name or (layer_names or {}).get(node.output[0], ""))
        for node in file.hollow.graph.node
        if node.output
    }
    if any([_fill_types(proto), _name_nodes(proto.graph, origins)]):
        onnx.save(proto, output)


def _fold(source: Path, output: Path) -> None:
    # Symbolic shape inference is slow and fails on much; onnxruntime itself knows every type.
    with quiet():
        quant_pre_process(str(source), str(output), skip_symbolic_shape=True)


def _save(file: OnnxFile, proto: onnx.ModelProto, path: Path) -> None:
    try:
        onnx.save(proto, path)
    except ValueError:  # protobuf's limit of 2 GB
        raise BadModelError(
            f"{file.path} has more than 2 GB of weights, which onnxruntime's quantizer cannot "
            f"prepare"
        ) from None


def _raise_opset(file: OnnxFile, least: int) -> onnx.ModelProto:
    """Give the whole model in an opset that has what will be written, or say that it cannot be."""
    proto = file.load_proto()
    if file.opset >= least:
        return proto
    try:
        with quiet():
            raised: onnx.ModelProto = onnx.version_converter.convert_version(proto, least)
    except Exception as error:  # a C++ library's, of any kind
        raise BadModelError(
            f"{file.path} has opset {file.opset}, and scales per channel need {least}, which onnx "
            f"cannot raise it to ({first_line(error)}); use --per-tensor, or export it again"
        ) from None
    return raised


def _forget_shapes(graph: onnx.GraphProto) -> None:
    """Drop what exporters noted about inner values, in branches and loops too."""
    del graph.value_info[:]
    for node in graph.node:
        for attribute in node.attribute:
            for inner in subgraphs(attribute):
                _forget_shapes(inner)


def _fill_types(proto: onnx.ModelProto) -> bool:
    """Note the types that onnx did not infer, as onnxruntime does; say whether there were any."""
    graph = proto.graph
    known = {value.name for value in (*graph.value_info, *graph.output, *graph.input)}
    names = [name for node in graph.node for name in node.output if name and name not in known]
    if not names:
        return False
    asking = onnx.ModelProto()
    asking.CopyFrom(proto)
    asking.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        with quiet():
            session = ort.InferenceSession(
                asking.SerializeToString(), options, providers=["CPUExecutionProvider"]
            )
    except Exception:  # the quantizer leaves float what it knows no type of
        return False
    for found in session.get_outputs()[-len(names) :]:
        kind = _TENSOR_TYPES.get(found.type)
        if kind is not None:
            graph.value_info.append(
                onnx.helper.make_tensor_value_info(found.name, kind, found.shape)
            )
    return True


def _name_nodes(graph: onnx.GraphProto, origins: Origins) -> bool:
    """Name nodes that preparing made after the layer that they come from; say if there were any."""
    readers = {name: node for node in graph.node for name in node.input if name}
    taken = {node.name for node in graph.node if node.name}
    renamed = False
    for node in graph.node:
        if node.name.endswith(_FUSED):
            name = node.name.removesuffix(_FUSED)
        elif not node.name:
            name = _name_by_origin(node, origins, readers)
        else:
            continue
        if name and name not in taken:
            node.name = name
            taken.add(name)
            renamed = True
    return renamed


def _name_by_origin(
    node: onnx.NodeProto, origins: Origins, readers: Mapping[str, onnx.NodeProto]
) -> str:
    """Name a piece of a layer beside it, as exporters do: /act/HardSwish has /act/HardSigmoid."""
    end, inner = node, False
    for _ in range(len(readers)):
        made = end.output[0]
        if made in origins:
            owner, name = origins[made]
            # Behind a convolution with a folded BatchNormalization stands the value of the latter.
            before, shorter = origins.get(owner.input[0] if owner.input else "", (owner, name))
            if not inner and before.op_type == node.op_type != owner.op_type:
                return shorter
            if name.endswith(f"/{owner.op_type}") and node.op_type != owner.op_type:
                return name.removesuffix(owner.op_type) + node.op_type
            return f"{name}/{node.op_type}" if inner else name
        if made not in readers:
            break
        end, inner = readers[made], True
    return ""
