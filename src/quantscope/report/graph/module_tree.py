"""Show a network as a tree of its modules."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from quantscope.model import Dim, Layer, Network, total
from quantscope.plain_text import printable
from quantscope.report.network_text import batch_of, spread_text
from quantscope.report.wording import amount, attributes_text, shape_text, type_text

_DEEPEST = 24

_Items = list[tuple[tuple[str, ...], Layer]]


@dataclass(frozen=True)
class Branch:
    """A module, whose text sums up what is in it, or a layer."""

    label: str
    text: str
    children: tuple["Branch", ...] = ()


def module_tree(network: Network) -> Branch:
    """Sort layers by module path, split at `.` and `/`, in the order in which they first run."""
    items = [(_path(layer.name), layer) for layer in network.layers]
    return Branch(
        printable(network.path.name),
        _totals(len(network.layers), network.macs, network.weight_bytes),
        tuple(_branches(items, 0, batch_of(network), in_quantized=network.is_quantized)),
    )


def _path(name: str) -> tuple[str, ...]:
    parts = [part for part in name.replace("/", ".").split(".") if part] or [name]
    if len(parts) > _DEEPEST:  # no module is nested so deeply; such a name is not a path
        parts = [*parts[: _DEEPEST - 1], ".".join(parts[_DEEPEST - 1 :])]
    return tuple(parts)


def _branches(items: _Items, depth: int, batch: Dim, *, in_quantized: bool) -> Iterator[Branch]:
    """Group layers by the part of their path at `depth`, and their modules below them."""
    groups: dict[str, _Items] = {}
    for path, layer in items:
        groups.setdefault(path[depth], []).append((path, layer))
    for label, members in groups.items():
        own = [layer for path, layer in members if len(path) == depth + 1]
        inner = [(path, layer) for path, layer in members if len(path) > depth + 1]
        children = tuple(_branches(inner, depth + 1, batch, in_quantized=in_quantized))
        # Several layers may have one path; the modules inside hang below the first of them.
        for layer in own:
            text = _layer_text(layer, batch, in_quantized=in_quantized)
            yield Branch(printable(label), text, children)
            children = ()
        if not own:
            yield Branch(printable(label), _sum_text([layer for _, layer in inner]), children)


def _layer_text(layer: Layer, batch: Dim, *, in_quantized: bool) -> str:
    output = layer.outputs[0] if layer.outputs else None
    parts = [
        type_text(layer, in_quantized=in_quantized),
        attributes_text(layer.telling_attributes),
        shape_text(output.shape, batch=batch) if output else "",
    ]
    if output and output.quant:
        params = output.quant.params
        scale, zero_point = spread_text(params.scale), spread_text(params.zero_point)
        parts.append(f"{params.type_text}  scale {scale}  zero-point {zero_point}")
    return "  ".join(part for part in parts if part)


def _sum_text(layers: Sequence[Layer]) -> str:
    macs = total([layer.macs for layer in layers])
    return _totals(len(layers), macs, total([layer.weight_bytes for layer in layers]))


def _totals(layers: int, macs: int | None, weight_bytes: int | None) -> str:
    plural = "layer" if layers == 1 else "layers"
    return f"{layers:,} {plural}, {amount(macs)} MACs, weights {amount(weight_bytes, 'B')}"
