"""An ONNX file, float, QDQ or QOperator, as a `Network`."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import onnx_ir as ir

from quantscope.model.cost import Lifetime, count_macs, live_bytes
from quantscope.model.drafts import Draft, QuantizedValues
from quantscope.model.naming import layer_names, make_unique
from quantscope.model.network import (
    Layer,
    Network,
    Operand,
    QuantTensor,
    Role,
    bytes_of,
    dtype_bits,
    total,
)
from quantscope.model.onnx.file import OnnxFile, load_onnx
from quantscope.model.onnx.graph import OnnxGraph, open_graph, output_names
from quantscope.model.onnx.layer_parts import (
    Reading,
    attributes_of,
    float_op_type,
    node_title,
    origin_of,
    read_value,
    readings,
    subgraph_names,
)
from quantscope.model.onnx.quantized_values import find_quantized_values
from quantscope.model.onnx.signs import clips_negatives, relu_like


@dataclass(frozen=True)
class _Found:
    """What is known before the nouns are made: layers are nodes still, tensors drafts."""

    graph: OnnxGraph
    values: QuantizedValues
    nodes: tuple[ir.Node, ...]
    names: tuple[str, ...]
    reads: tuple[tuple[Reading, ...], ...]
    position: dict[str, int]

    def maker(self, value: str) -> int | None:
        """Which layer makes this value, looking back through quantizers."""
        return self.position.get(origin_of(self.graph, self.values, value))


def read_onnx(source: OnnxGraph | OnnxFile | Path | str) -> Network:
    """Read a model file; weights stay on disk until a tensor's `integers` are asked for."""
    if not isinstance(source, OnnxFile | OnnxGraph):
        source = load_onnx(source)
    graph = source if isinstance(source, OnnxGraph) else open_graph(source)
    file = graph.file
    values = find_quantized_values(graph)
    nodes = tuple(
        node
        for node in graph.nodes
        if node not in values.absorbed and not _is_constant(graph, node)
    )
    found = _Found(
        graph=graph,
        values=values,
        nodes=nodes,
        names=tuple(layer_names([node_title(file, node) for node in nodes])),
        reads=tuple(readings(graph, values, node) for node in nodes),
        position={
            name: index for index, node in enumerate(nodes) for name in output_names(node) if name
        },
    )
    tensors = dict(_tensors(found))
    layers = tuple(_layers(found, tensors))
    return Network(
        path=file.path,
        digest=file.digest,
        format=file.format,
        opset=file.opset,
        producer=file.producer,
        inputs=tuple(_output(found, tensors, spec.name) for spec in file.inputs),
        outputs=tuple(
            _input(found, tensors, read_value(graph, values, spec.name)) for spec in file.outputs
        ),
        layers=layers,
        tensors=_in_order(found, tensors),
        batch=graph.batch,
        notes=tuple(_notes(found, layers)),
        metadata=file.metadata,
    )


def _is_constant(graph: OnnxGraph, node: ir.Node) -> bool:
    names = [name for name in output_names(node) if name]
    return bool(names) and all(graph.is_constant(name) for name in names)


def _tensors(found: _Found) -> Iterator[tuple[int, QuantTensor]]:
    """Each draft's identity and the tensor that it became."""
    drafts = found.values.drafts
    users: dict[int, list[tuple[int, Reading]]] = {id(draft): [] for draft in drafts}
    for index, reads in enumerate(found.reads):
        for reading in reads:
            if reading.draft is not None:
                users[id(reading.draft)].append((index, reading))
    # A bias is one only if every reader takes it as one.
    roles = [_role(draft, users[id(draft)]) for draft in drafts]
    makers = [found.maker(draft.float_name or draft.integer_names[0]) for draft in drafts]
    names = make_unique(
        _tensor_name(found, draft, role, maker, users[id(draft)])
        for draft, role, maker in zip(drafts, roles, makers, strict=True)
    )
    named = {id(draft): name for draft, name in zip(drafts, names, strict=True)}
    by_scale: dict[str, list[str]] = {}
    for draft in drafts:
        if draft.scale_name:
            by_scale.setdefault(draft.scale_name, []).append(named[id(draft)])
    relus = {id(draft) for draft in relu_like(found.graph, found.values)}
    for draft, role, maker in zip(drafts, roles, makers, strict=True):
        name = named[id(draft)]
        clips = role == "activation" and clips_negatives(draft.params)
        yield (
            id(draft),
            QuantTensor(
                name=name,
                role=role,
                params=draft.params,
                shape=draft.shape,
                producer=None if maker is None else found.names[maker],
                consumers=tuple(dict.fromkeys(found.names[i] for i, _ in users[id(draft)])),
                clips_negatives=clips,
                folded_relu=clips and maker is not None and id(draft) in relus,
                shares_params_with=tuple(
                    other for other in by_scale.get(draft.scale_name or "", ()) if other != name
                ),
                float_name=draft.float_name,
                integer_names=tuple(draft.integer_names),
                dequantized_names=tuple(draft.dequantized_names),
                scale_name=draft.scale_name,
                zero_point_name=draft.zero_point_name,
                follows=named[id(draft.follows)] if draft.follows else None,
                read_integers=draft.read_integers,
            ),
        )


def _in_order(found: _Found, tensors: dict[int, QuantTensor]) -> tuple[QuantTensor, ...]:
    """Layer by layer what is read, then what is written; the rest as the file has it."""
    seen: dict[int, None] = {}
    for node, reads in zip(found.nodes, found.reads, strict=True):
        seen |= {id(reading.draft): None for reading in reads if reading.draft}
        for name in output_names(node):
            seen |= {id(draft): None for draft in _drafts_of(found.values, name)}
    return tuple(tensors[key] for key in seen | dict.fromkeys(tensors))


def _role(draft: Draft, users: list[tuple[int, Reading]]) -> Role:
    if draft.read_integers is None and all(r.role == "activation" for _, r in users):
        return "activation"
    return "bias" if users and all(r.role == "bias" for _, r in users) else "weight"


def _tensor_name(
    found: _Found,
    draft: Draft,
    role: Role,
    maker: int | None,
    users: list[tuple[int, Reading]],
) -> str:
    if role != "activation" and users:
        return f"{found.names[users[0][0]]}.{role}"
    source = origin_of(found.graph, found.values, draft.float_name or draft.integer_names[0])
    if maker is None:
        return source
    place = output_names(found.nodes[maker]).index(source)
    return f"{found.names[maker]}.out" + (f"{place + 1}" if place else "")


def _layers(found: _Found, tensors: dict[int, QuantTensor]) -> Iterator[Layer]:
    live = live_bytes(_lifetimes(found), len(found.nodes))
    sized = found.graph.sized
    for index, node in enumerate(found.nodes):
        reads = found.reads[index]
        outputs = [name for name in output_names(node) if name]
        op_type = float_op_type(node)
        attributes = attributes_of(node)
        first = sized.get(outputs[0]) if outputs else None
        yield Layer(
            name=found.names[index],
            op_type=op_type,
            file_op_type=node.op_type,
            domain=node.domain,
            node_name=node.name or "",
            inputs=tuple(_input(found, tensors, reading) for reading in reads),
            outputs=tuple(_output(found, tensors, name) for name in outputs),
            attributes=MappingProxyType(attributes),
            subgraphs=subgraph_names(node),
            macs=count_macs(
                op_type, [r.sized for r in reads], first.shape if first else None, attributes
            ),
            weight_bytes=total(
                [_bytes(reading) for reading in reads if reading.role in ("weight", "bias")]
            ),
            live_bytes=live[index],
        )


def _bytes(reading: Reading) -> int | None:
    bits = dtype_bits(reading.dtype)
    return None if bits is None else bytes_of(reading.sized, bits)


def _input(found: _Found, tensors: dict[int, QuantTensor], reading: Reading) -> Operand:
    maker = found.maker(reading.origin)
    return Operand(
        name=reading.name,
        role=reading.role,
        dtype=reading.dtype,
        shape=reading.shape,
        source=None if maker is None else found.names[maker],
        quant=tensors[id(reading.draft)] if reading.draft else None,
    )


def _output(found: _Found, tensors: dict[int, QuantTensor], name: str) -> Operand:
    drafts = _drafts_of(found.values, name)
    kind = found.graph.type(name)
    maker = found.maker(name)
    return Operand(
        name=name,
        role="activation",
        dtype=drafts[0].params.dtype if drafts else kind.dtype,
        shape=kind.shape,
        source=None if maker is None else found.names[maker],
        quant=tensors[id(drafts[0])] if drafts else None,
    )


def _drafts_of(values: QuantizedValues, name: str) -> list[Draft]:
    integer = values.by_integer.get(name)
    return [integer] if integer else values.by_float.get(name, [])


def _lifetimes(found: _Found) -> Iterator[Lifetime]:
    """Activations in the type in which they are kept; a float that is only quantized is not."""
    last: dict[int | str, int] = {}
    size: dict[int | str, int | None] = {}
    for index, reads in enumerate(found.reads):
        for reading in reads:
            if reading.role == "activation":
                key = id(reading.draft) if reading.draft else reading.origin
                last[key], size[key] = index, _bytes(reading)
    end = len(found.nodes) - 1
    for spec in found.graph.file.outputs:
        reading = read_value(found.graph, found.values, spec.name)
        key = id(reading.draft) if reading.draft else reading.origin
        last[key], size[key] = end, _bytes(reading)
    first: dict[int | str, int] = {}
    for index, node in enumerate(found.nodes):
        for name in filter(None, output_names(node)):
            first[name] = index
            if name not in last and not _drafts_of(found.values, name):
                last[name] = index
                size[name] = _bytes(read_value(found.graph, found.values, name))
    for draft in found.values.drafts:
        maker = found.maker(draft.float_name or draft.integer_names[0])
        if maker is not None:
            first[id(draft)] = maker
    for key, final in last.items():
        yield Lifetime(first.get(key, 0), final, size[key])


def _notes(found: _Found, layers: tuple[Layer, ...]) -> Iterator[str]:
    if found.graph.batch is not None:
        yield "The batch is dynamic; MACs and bytes are for a batch of 1"
    for layer in layers:
        if layer.subgraphs:
            names = ", ".join(layer.subgraphs)
            yield f"{layer.name} ({layer.op_type}) holds subgraphs that are not entered: {names}"
    if found.graph.file.hollow.functions:
        names = ", ".join(function.name for function in found.graph.file.hollow.functions)
        yield f"The model's own functions are shown as one layer each: {names}"
    yield from dict.fromkeys(found.values.notes)
