"""Write a PT2E program as ONNX QDQ, with names that a person knows."""

import ast
import copy
from typing import Any

import onnx
import torch
from torch.export import ExportedProgram

from quantscope.errors import BadModelError
from quantscope.model import parse_expression
from quantscope.model.torch import first_line
from quantscope.quantize.onnx_backend import finish
from quantscope.quantize.pt2e_subject import Subject

OPSET = 21
_QDQ = ("QuantizeLinear", "DequantizeLinear")
_MOVES = ("Pad", "Reshape", "Flatten")
_SCOPES = "pkg.torch.onnx.name_scopes"
_SUFFIXES = {"Add": "add", "Pad": "pad", "Reshape": "flatten"}


def onnx_bytes(program: ExportedProgram, provenance: dict[str, Any], subject: Subject) -> bytes:
    """Give the ONNX file's content; the program is not changed."""
    program = copy.deepcopy(program)
    _pool_by_mean(program)
    ours = subject.is_resnet8
    inputs = ["input"] if ours else [port.name for port in subject.ports]
    outputs = ["logits"] if ours else None
    try:
        exported = torch.onnx.export(
            program,
            dynamo=True,
            opset_version=OPSET,
            input_names=inputs,
            output_names=outputs,
            verbose=False,
        )
        assert exported is not None
        model = exported.model_proto
        graph = model.graph
        _rename(graph, _good_names(graph) if ours else _plain_names(graph, subject))
        _own_parameters(graph)
        _strip(model)
        if ours:
            graph.name = "resnet8"
            graph.input[0].type.tensor_type.shape.dim[0].dim_param = "N"
            graph.output[0].type.tensor_type.shape.dim[0].dim_param = "N"
        onnx.checker.check_model(model, full_check=True)
    except Exception as error:  # of any kind: not all that torch runs has a form in ONNX
        raise BadModelError(
            f"PyTorch {torch.__version__} cannot write {subject.name} as ONNX: "
            f"{first_line(error)}; leave --onnx out, or export the float module with "
            f"torch.onnx.export and quantize that"
        ) from None
    return finish(model, provenance)


def _strip(model: onnx.ModelProto) -> None:
    graph = model.graph
    for part in (model, graph, *graph.node, *graph.input, *graph.output, *graph.value_info):
        del part.metadata_props[:]  # torch's notes, with paths of the machine that made it
    del graph.value_info[:]  # what shape inference can say again, under names that are gone


def _plain_names(graph: onnx.GraphProto, subject: Subject) -> dict[str, str]:
    """Map outputs to the float program's names, and quantizers to what they quantize.

    The rest keeps torch's names, but for a value that an output takes the name of.
    """
    wanted = [port.name for port in subject.model.outputs]
    outputs = dict(zip((value.name for value in graph.output), wanted, strict=True))
    made = {name for node in graph.node for name in node.output}
    new = {name: f"{name}.out" for name in wanted if name in made} | outputs
    taken = set(new.values())
    for node in graph.node:
        if node.op_type not in _QDQ:
            continue
        tensor = new.get(node.input[0], node.input[0]).removesuffix(".quantized")
        verb = "quantize" if node.op_type == "QuantizeLinear" else "dequantize"
        name = f"{tensor}.{verb}d"
        if name in taken:  # dequantized more than once
            name = f"{name}.{len(taken)}"
        taken.add(name)
        new.setdefault(node.output[0], name)
        node.name = name.replace(f".{verb}d", f".{verb}")
    return new


def _pool_by_mean(program: ExportedProgram) -> None:
    # torch's decomposition of this pool is the same mean and then a Gather with computed indices.
    aten = torch.ops.aten
    for node in program.graph.nodes:
        if node.target is aten.adaptive_avg_pool2d.default and list(node.args[1]) == [1, 1]:
            node.target = aten.mean.dim
            node.args = (node.args[0], [2, 3], True)
    program.graph_module.recompile()


def _good_names(graph: onnx.GraphProto) -> dict[str, str]:
    """Map old tensor names to new ones; each node gets its new name at once."""
    new = {"input": "input", "logits": "logits"}
    reads = {name: node for node in graph.node for name in node.input}
    for node in graph.node:
        output = str(node.output[0])
        if node.op_type not in _QDQ:
            node.name = _layer(node)
            new.setdefault(output, f"{node.name}.out")
    constants = {tensor.name for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "DequantizeLinear" and node.input[0] in constants:
            layer = _layer(reads[node.output[0]])
            new[node.input[0]] = f"{layer}.weight.quantized"
            new[node.output[0]] = f"{layer}.weight.dequantized"
            node.name = f"{layer}.weight.dequantize"
    for node in (node for node in graph.node if node.op_type == "QuantizeLinear"):
        tensor = new.get(node.input[0], node.input[0])
        new[node.output[0]] = f"{tensor}.quantized"
        node.name = f"{tensor}.quantize"
    for node in (node for node in graph.node if node.op_type == "DequantizeLinear"):
        if node.output[0] not in new:
            tensor = new[node.input[0]].removesuffix(".quantized")
            new[node.output[0]] = f"{tensor}.dequantized"
            node.name = f"{tensor}.dequantize"
        elif node.output[0] == "logits":
            node.name = "logits.dequantize"
    return new


def _layer(node: onnx.NodeProto) -> str:
    scopes = next(entry.value for entry in node.metadata_props if entry.key == _SCOPES)
    module = str(ast.literal_eval(parse_expression(scopes))[-2])
    path = module.replace("_relu", ".relu")  # as the float ONNX has it
    suffix = _SUFFIXES.get(node.op_type, "")
    return ".".join(filter(None, (path, suffix)))


def _rename(graph: onnx.GraphProto, new: dict[str, str]) -> None:
    for node in graph.node:
        for names in (node.input, node.output):
            names[:] = [new.get(name, name) for name in names]
    for named in (*graph.initializer, *graph.output):
        named.name = new.get(named.name, named.name)


def _own_parameters(graph: onnx.GraphProto) -> None:
    """Give every tensor a scale and zero-point of its own, named after it.

    torch shares equal constants between tensors that have nothing to do with each other. What a
    pad or a flatten moves keeps the parameters of what it came from.
    """
    values = {tensor.name: tensor for tensor in graph.initializer}
    moved = {
        str(node.output[0]): str(node.input[0]) for node in graph.node if node.op_type in _MOVES
    }
    made: dict[str, onnx.TensorProto] = {}
    replaced: set[str] = set()
    for node in graph.node:
        if node.op_type not in _QDQ:
            continue
        tensor = node.input[0].removesuffix(".quantized")
        if tensor in moved and moved[tensor].endswith(".dequantized"):
            tensor = moved[tensor].removesuffix(".dequantized")
        for place, kind in ((1, "scale"), (2, "zero_point")):
            if len(node.input) <= place or node.input[place] not in values:
                continue
            replaced.add(node.input[place])
            constant = onnx.TensorProto()
            constant.CopyFrom(values[node.input[place]])
            constant.name = node.input[place] = f"{tensor}.{kind}"
            made.setdefault(constant.name, constant)
    replaced -= {name for node in graph.node for name in node.input}
    kept = [tensor for tensor in graph.initializer if tensor.name not in replaced]
    del graph.initializer[:]
    graph.initializer.extend([*kept, *made.values()])
