"""Draw a network: layers as nodes, quantizers folded into the edges between them."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from quantscope.model import (
    Dim,
    Edge,
    Layer,
    Network,
    Operand,
    QuantTensor,
    joins_past_weights,
)
from quantscope.plain_text import elide, printable
from quantscope.report.graph.drawing import Drawing, Legend, Link, Node, kind_of
from quantscope.report.graph.overlay import Overlay
from quantscope.report.network_text import (
    FORMATS,
    batch_of,
    quantized_text,
    range_text,
    spread_text,
    tensor_notes,
)
from quantscope.report.raw_nodes import RawGraph, RawNode, params_text
from quantscope.report.wording import amount, attributes_text, count, shape_text, type_text

_MOST_HOVER = 2000


def draw_network(network: Network, *, overlay: Overlay | None = None) -> Drawing:
    """Draw the network as a person thinks of it; `overlay` colours the layers."""
    batch = batch_of(network)
    # Keys are numbered, because a name may hold anything.
    keys = {layer.name: f"layer{index}" for index, layer in enumerate(network.layers)}
    inputs = {operand.name: f"input{index}" for index, operand in enumerate(network.inputs)}
    nodes = [_port(inputs[operand.name], operand) for operand in network.inputs]
    nodes += [_layer(network, layer, keys[layer.name], batch) for layer in network.layers]
    links = list(_links(network, keys, inputs))
    for index, operand in enumerate(network.outputs):
        nodes.append(_port(f"output{index}", operand))
        if source := keys.get(operand.source or ""):
            links.append(_link(network, source, f"output{index}", operand))
    drawing = Drawing(
        title=printable(network.path.name),
        subtitle=_subtitle(network),
        nodes=tuple(nodes),
        links=tuple(links),
    )
    return drawing if overlay is None else _colour(drawing, overlay, keys)


def draw_nodes(graph: RawGraph) -> Drawing:
    """Draw every node as the file has it.

    Stored constants are named in the nodes that read them.
    """
    keys = [f"node{index}" for index in range(len(graph.nodes))]
    makers = {
        name: key
        for key, node in zip(keys, graph.nodes, strict=True)
        for name in node.outputs
        if name
    }
    makers |= {spec.name: f"input{index}" for index, spec in enumerate(graph.file.inputs)}
    nodes = [
        Node(f"input{index}", spec.name, "port", shape_text(spec.shape), (spec.dtype,))
        for index, spec in enumerate(graph.file.inputs)
    ]
    nodes += [_raw_node(graph, node, key) for key, node in zip(keys, graph.nodes, strict=True)]
    links = [
        Link(makers[name], key, hover=_hover([name, graph.types.get(name, "")]))
        for key, node in zip(keys, graph.nodes, strict=True)
        for name in dict.fromkeys(node.inputs)
        if name in makers
    ]
    for index, spec in enumerate(graph.file.outputs):
        key = f"output{index}"
        nodes.append(Node(key, spec.name, "port", shape_text(spec.shape), (spec.dtype,)))
        if spec.name in makers:
            links.append(Link(makers[spec.name], key, hover=_hover([spec.name])))
    return Drawing(
        title=printable(graph.file.path.name),
        subtitle=f"{FORMATS[graph.file.format]}, every node of the file: {len(graph.nodes):,}",
        nodes=tuple(nodes),
        links=tuple(links),
    )


def shortcuts(edges: Sequence[Edge], layers: Sequence[Layer]) -> frozenset[int]:
    """Find the edges that are residual paths: what passes layers with weights by to a join.

    The places of the edges are given. An edge is one if its ends lie more than one layer apart on
    the longest way, and so are the edges before it, back to where the path left the main one.
    """
    into: dict[str, list[int]] = {}
    readers = Counter(edge.source for edge in edges)
    for place, edge in enumerate(edges):
        into.setdefault(edge.target, []).append(place)
    depth: dict[str | None, int] = {None: 0}
    # Layers come in the order in which they run, so every source has its depth already.
    for layer in layers:
        before = [depth.get(edges[place].source, 0) for place in into.get(layer.name, [])]
        depth[layer.name] = 1 + max(before, default=0)
    places = {layer.name: place for place, layer in enumerate(layers)}
    joins = {
        layer.name
        for layer in layers
        if len(into.get(layer.name, ())) > 1 and joins_past_weights(layers, places, layer)
    }
    found: set[int] = set()
    for place, edge in enumerate(edges):
        if edge.target not in joins or depth[edge.target] - depth.get(edge.source, 0) < 2:
            continue
        step: int | None = place
        while step is not None and step not in found:
            found.add(step)
            source = edges[step].source
            behind = into.get(source, []) if source is not None else []
            step = behind[0] if len(behind) == 1 and readers[source] == 1 else None
    return frozenset(found)


def _links(network: Network, keys: Mapping[str, str], inputs: Mapping[str, str]) -> Iterator[Link]:
    edges = network.edges
    passing = shortcuts(edges, network.layers)
    for place, edge in enumerate(edges):
        if edge.source is None:
            source = inputs.get(_input_name(network, edge.operand))
        else:
            source = keys[edge.source]
        if source is not None:
            link = _link(network, source, keys[edge.target], edge.operand)
            yield replace(link, is_shortcut=place in passing)


def _input_name(network: Network, operand: Operand) -> str:
    """Find the model's input that an operand comes from.

    Behind a quantizer the operand is named after its output; its tensor after the input.
    """
    if operand.quant is None:
        return operand.name
    for candidate in network.inputs:
        if candidate.quant and candidate.quant.name == operand.quant.name:
            return candidate.name
    return operand.quant.name


def _link(network: Network, source: str, target: str, operand: Operand) -> Link:
    if operand.quant is None:
        label = operand.dtype if network.is_quantized else ""
        if operand.run_time_dtype:
            label = f"{operand.run_time_dtype}  s, z at run time"
        lines = [operand.name, f"{operand.dtype} {shape_text(operand.shape)}"]
        return Link(source, target, label, _hover(lines), is_float=not operand.run_time_dtype)
    params = operand.quant.params
    label = f"{params.type_text}  s {spread_text(params.scale)}  z {spread_text(params.zero_point)}"
    return Link(source, target, label, _hover([*_tensor_lines(operand.quant)]))


def _layer(network: Network, layer: Layer, key: str, batch: Dim) -> Node:
    kind = type_text(layer, in_quantized=network.is_quantized)
    short = attributes_text(layer.telling_attributes)
    shape = shape_text(layer.outputs[0].shape, batch=batch) if layer.outputs else ""
    lines = [elide(f"{kind}  {short}".rstrip(), 48)]
    if weight := layer.weight:
        lines.append(_weight_line(weight))
    hover = [
        layer.name,
        f"{kind}  {short}".rstrip(),
        *(f"reads {shape_text(o.shape)} {o.dtype}" for o in layer.activations),
        *(f"writes {shape_text(o.shape)} {o.dtype}" for o in layer.outputs),
        f"{count(layer.macs)} MACs, weights {count(layer.weight_bytes)} bytes, "
        f"activation memory {count(layer.live_bytes)} bytes",
    ]
    for tensor in (layer.weight, layer.bias, *(o.quant for o in layer.outputs)):
        if tensor:
            hover += _tensor_lines(tensor)
    return Node(key, layer.name, kind_of(layer.op_type), shape, tuple(lines), _hover(hover))


def _weight_line(weight: QuantTensor) -> str:
    params = weight.params
    grain = "" if params.is_per_tensor else f" × {params.scale.size:,}"
    zero = f"  z {spread_text(params.zero_point)}" if params.zero_point.any() else ""
    return f"w {params.type_text}{grain}  s {spread_text(params.scale, 3)}{zero}"


def _tensor_lines(tensor: QuantTensor) -> Iterator[str]:
    params = tensor.params
    yield (
        f"{tensor.name}: {params.type_text}, scale {spread_text(params.scale, 6)}, "
        f"zero-point {spread_text(params.zero_point)}, range {range_text(tensor)}"
    )
    if notes := tensor_notes(tensor):
        yield notes


def _port(key: str, operand: Operand) -> Node:
    return Node(key, operand.name, "port", shape_text(operand.shape), hover=_hover([operand.name]))


def _raw_node(graph: RawGraph, node: RawNode, key: str) -> Node:
    stored = [name for name in node.inputs if name in graph.constants]
    params = [params_text(params) for params in node.params]
    hover = [
        node.name or "(no name)",
        node.op_type,
        *(f"in {name} {graph.types.get(name, '')}" for name in node.inputs),
        *(f"out {name} {graph.types.get(name, '')}" for name in node.outputs),
        attributes_text(node.attributes),
        *params,
    ]
    shape = graph.types.get(node.outputs[0], "") if node.outputs else ""
    lines = [f"{node.op_type}  {attributes_text(node.attributes)}".rstrip()]
    if node.op_type.endswith("eLinear"):
        lines += params
    lines += [f"{name}  {graph.types.get(name, '')}" for name in stored[:1] if not params]
    return Node(
        key,
        node.name or node.op_type,
        kind_of(node.op_type),
        shape,
        tuple(elide(printable(line), 48) for line in lines),
        _hover(hover),
    )


def _colour(drawing: Drawing, overlay: Overlay, keys: Mapping[str, str]) -> Drawing:
    """Give each layer the overlay's value, and the drawing a legend."""
    by_key = {keys[name]: value for name, value in overlay.values.items() if name in keys}
    known = [value for value in by_key.values() if value is not None]
    return replace(
        drawing,
        nodes=tuple(replace(node, value=by_key.get(node.key)) for node in drawing.nodes),
        legend=Legend(
            metric=overlay.metric,
            unit=overlay.unit,
            low=min(known),
            high=max(known),
            missing=len(keys) - len(known),
        ),
    )


def _subtitle(network: Network) -> str:
    size = (
        f"{FORMATS[network.format]}, {len(network.layers):,} layers, {amount(network.macs)} MACs, "
        f"weights {amount(network.weight_bytes, 'B')}"
    )
    return f"{size}\n{quantized_text(network)}" if network.is_quantized else size


def _hover(lines: list[str]) -> str:
    return elide("\n".join(printable(line) for line in lines if line), _MOST_HOVER)
