"""Show a network as facts and tables of text, which `quantscope inspect` prints."""

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from quantscope.model import Array, Dim, Layer, Network, Operand, QuantTensor, residuals
from quantscope.plain_text import elide, printable
from quantscope.report.table import Column, Fact, Table
from quantscope.report.wording import amount, attributes_text, count, number, shape_text, type_text

FORMATS = {
    "float": "float ONNX",
    "qdq": "ONNX QDQ",
    "qoperator": "ONNX QOperator",
    "mixed": "ONNX, QDQ and QOperator mixed",
    "dynamic": "ONNX, dynamically quantized",
    "blocks": "ONNX, weights quantized in blocks",
    "pt2e": "PyTorch PT2E program",
    "torchscript": "TorchScript archive",
}
_MOST_NOTES = 12
_MOST_ATTRIBUTES = 40
_SCALES = ("mean", "least", "largest")


def batch_of(network: Network) -> Dim:
    """Find the first dimension that all activations share, so that tables can leave it out.

    None means that they share none, or that it is not known.
    """
    shapes = [
        operand.shape
        for layer in network.layers
        for operand in (*layer.activations, *layer.outputs)
        if operand.shape is not None
    ]
    first = {shape[0] if shape else None for shape in shapes}
    if len(first) != 1 or any(len(shape) < 2 for shape in shapes):
        return None
    return first.pop()


def network_facts(network: Network) -> tuple[Fact, ...]:
    return (
        Fact("format", _format(network)),
        Fact("sha256", network.digest),
        *(Fact("input", _port(operand)) for operand in network.inputs),
        *(Fact("output", _port(operand)) for operand in network.outputs),
        Fact("size", _size(network)),
        Fact("quantized", quantized_text(network)),
        *_marks(network),
        *_notes(network),
    )


def quantized_text(network: Network) -> str:
    """Count what is quantized: `17 activations int8, 10 weights int8 per channel`."""
    if not network.is_quantized:
        return "nothing: this is a float model"
    kinds: Counter[tuple[str, str]] = Counter()
    for tensor in network.tensors:
        kinds[tensor.role, f"{tensor.params.type_text}{_grain(tensor)}"] += 1
    parts = []
    for role, plural in (("activation", "activations"), ("weight", "weights"), ("bias", "biases")):
        for (kind, text), size in kinds.items():
            if kind == role:
                parts.append(f"{size:,} {role if size == 1 else plural} {text}")
        if role == "activation":
            parts += _dynamic_parts(network)
    floats = sum(not layer.is_quantized for layer in network.layers)
    left = f"; {floats:,} of {len(network.layers):,} layers are float" if floats else ""
    return ", ".join(parts) + left


def _dynamic_parts(network: Network) -> Iterator[str]:
    """Count the activations of dynamic quantization, by type."""
    found = Counter(operand.run_time_dtype for operand in network.run_time_activations)
    for dtype, size in found.items():
        what = "activation" if size == 1 else "activations"
        yield f"{size:,} {what} {dtype}, dynamic (parameters found at run time)"


def layer_table(network: Network) -> Table:
    """List the layers in their order, with shapes, MACs and bytes."""
    batch = batch_of(network)
    without = f"shapes without the batch dimension {batch}; " if batch is not None else ""
    return Table(
        title=f"Layers ({without}weights and memory in bytes)",
        columns=(
            Column("layer"),
            Column("type"),
            Column("shape"),
            Column("attributes", spare=2),
            Column("MACs", right=True),
            Column("weights", right=True),
            Column("memory", right=True, spare=1),
        ),
        rows=tuple(
            (
                printable(layer.name),
                type_text(layer, in_quantized=network.is_quantized),
                flow_text(layer, batch),
                elide(attributes_text(layer.telling_attributes), _MOST_ATTRIBUTES),
                _or_dash(layer.macs, amount(layer.macs)),
                _or_dash(layer.weight_bytes, count(layer.weight_bytes)),
                count(layer.live_bytes),
            )
            for layer in network.layers
        ),
    )


def flow_text(layer: Layer, batch: Dim) -> str:
    """Say what comes in and goes out:

    `3×32×32 → 16×32×32`. Inputs of the same shape are named once, with how many there are.
    """
    shapes = Counter(shape_text(o.shape, batch=batch) for o in layer.activations)
    inputs = ", ".join(text if n == 1 else f"{n} · {text}" for text, n in shapes.items())
    outputs = ", ".join(shape_text(o.shape, batch=batch) for o in layer.outputs)
    if len(shapes) == 1 and set(shapes) == {outputs}:
        return inputs
    return f"{inputs} → {outputs}" if inputs else outputs


def activation_table(network: Network) -> Table:
    """List the quantized activations; the step has a column only where it is not the scale."""
    tensors = [tensor for tensor in network.tensors if tensor.role == "activation"]
    steps = _has_steps(tensors)
    return Table(
        title="Quantized activations" + ("" if steps else " (the step is the scale)"),
        columns=(
            Column("tensor"),
            Column("type"),
            Column("scale", right=True),
            *([Column("step", right=True)] if steps else []),
            Column("zero-point", right=True),
            Column("range", right=True),
            Column("notes"),
        ),
        rows=tuple(
            (
                printable(tensor.name),
                tensor.params.type_text,
                spread_text(tensor.params.scale, 5),
                *([spread_text(tensor.params.step, 4)] if steps else []),
                spread_text(tensor.params.zero_point, 4),
                range_text(tensor),
                tensor_notes(tensor),
            )
            for tensor in tensors
        ),
    )


def constant_table(network: Network) -> Table:
    """List weights and biases; a tensor's only scale stands where the mean of several does."""
    tensors = [tensor for tensor in network.tensors if tensor.role != "activation"]
    steps = _has_steps(tensors)
    zero_points = any(tensor.params.zero_point.any() for tensor in tensors)
    several = any(not tensor.params.is_per_tensor for tensor in tensors)
    hints = ["scales @ their channel"] if several else []
    hints += [] if steps else ["the step is the scale"]
    hints += [] if zero_points else ["zero-points are 0"]
    notes = any(map(_constant_notes, tensors))
    return Table(
        title="Quantized weights and biases" + (f" ({'; '.join(hints)})" if hints else ""),
        columns=(
            Column("tensor"),
            Column("shape", spare=3),
            Column("type"),
            Column("axis", right=True, spare=2),
            *(
                Column(heading, right=True, spare=int(heading == "mean"))
                for heading in (_SCALES if several else ("scale",))
            ),
            *([Column("step", right=True)] if steps else []),
            *([Column("zero-point", right=True)] if zero_points else []),
            Column("range", right=True),
            *([Column("notes")] if notes else []),
        ),
        rows=tuple(
            (
                printable(tensor.name),
                shape_text(tensor.shape),
                tensor.params.type_text,
                _axis(tensor),
                *_scales(tensor, several=several),
                *([spread_text(tensor.params.step, 3)] if steps else []),
                *([spread_text(tensor.params.zero_point, 4)] if zero_points else []),
                range_text(tensor, digits=3),
                *([_constant_notes(tensor)] if notes else []),
            )
            for tensor in tensors
        ),
    )


def residual_table(network: Network) -> Table:
    """List the branches that meet; the ratio stands beside the first of a layer only."""
    rows: list[tuple[str, ...]] = []
    for found in residuals(network):
        for place, branch in enumerate(found.branches):
            lost, left = branch.bits_lost, branch.effective_bits
            rows.append(
                (
                    printable(found.layer) if not place else "",
                    printable(branch.tensor),
                    number(branch.step),
                    f"{found.ratio:.2f}×" if not place else "",
                    _or_dash(found.output_step, number(found.output_step or 0)),
                    "–" if lost is None else f"{lost:.2f}",
                    "–" if left is None else f"{left:.2f} of {branch.bits}",
                )
            )
    return Table(
        title="Where branches meet (bits lost: log2 of the output's step over the branch's own)",
        columns=(
            Column("layer"),
            Column("branch"),
            Column("step", right=True),
            Column("ratio", right=True),
            Column("output step", right=True),
            Column("bits lost", right=True),
            Column("bits left", right=True),
        ),
        rows=tuple(rows),
    )


def range_text(tensor: QuantTensor, *, digits: int = 4) -> str:
    """Give the representable range; with several channels their widest reach."""
    low, high = tensor.params.representable_range
    lowest, highest = f"{low.min():.{digits}g}", f"{high.max():.{digits}g}"
    return f"±{highest}" if lowest == f"-{highest}" else f"{lowest} … {highest}"


def tensor_notes(tensor: QuantTensor) -> str:
    """Note a folded ReLU, a cut at zero, and which tensors have the same parameters."""
    notes = ["folded ReLU"] if tensor.folded_relu else []
    if tensor.clips_negatives and not tensor.folded_relu:
        notes.append("≥ 0")
    if tensor.follows:
        notes.append(f"as {printable(tensor.follows)}")
    if shared := [name for name in tensor.shares_params_with if name != tensor.follows]:
        notes.append(f"shares with {_first(shared)}")
    return ", ".join(notes)


def _constant_notes(tensor: QuantTensor) -> str:
    if not tensor.shares_params_with:
        return ""
    return f"shares with {_first(tensor.shares_params_with)}"


def _first(names: Sequence[str]) -> str:
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return printable(names[0]) + more


def _format(network: Network) -> str:
    parts = [FORMATS[network.format]]
    if network.opset is not None:
        parts.append(f"opset {network.opset}")
    if network.producer:
        parts.append(f"made by {printable(network.producer)}")
    return ", ".join(parts)


def _port(operand: Operand) -> str:
    kept = f", quantized to {operand.quant.params.type_text}" if operand.quant else ""
    dtype = "" if operand.quant else f" {operand.dtype}"
    return f"{printable(operand.name)} {shape_text(operand.shape)}{dtype}{kept}"


def _size(network: Network) -> str:
    peak = network.peak_live_bytes
    where = next((layer.name for layer in network.layers if layer.live_bytes == peak), "")
    memory = f"{amount(peak, 'B')} at {printable(where)}" if peak is not None else "unknown"
    return (
        f"{len(network.layers):,} layers, {amount(network.macs)} MACs, weights "
        f"{amount(network.weight_bytes, 'B')}, peak activation memory {memory}"
    )


def _marks(network: Network) -> Iterator[Fact]:
    relus = sum(tensor.folded_relu for tensor in network.tensors)
    if relus:
        yield Fact("ReLUs", f"{relus:,} folded into quantizers that clip at zero")
    shared = sum(bool(tensor.shares_params_with) for tensor in network.tensors)
    if shared:
        yield Fact("shared", f"{shared:,} tensors share their scale with another")


def _notes(network: Network) -> Iterator[Fact]:
    for note in network.notes[:_MOST_NOTES]:
        yield Fact("note", printable(note))
    if len(network.notes) > _MOST_NOTES:
        yield Fact("note", f"{len(network.notes) - _MOST_NOTES:,} more notes; see them with --json")


def _grain(tensor: QuantTensor) -> str:
    if tensor.params.block_size:
        return f" in blocks of {tensor.params.block_size}"
    return "" if tensor.params.is_per_tensor else " per channel"


def _axis(tensor: QuantTensor) -> str:
    if tensor.params.block_size:
        return f"{tensor.params.axis} by {tensor.params.block_size}"
    return "–" if tensor.params.axis is None else str(tensor.params.axis)


def _has_steps(tensors: Sequence[QuantTensor]) -> bool:
    """Tell whether some step differs from its scale, as for float8 and float4."""
    return any(not tensor.params.is_integer for tensor in tensors)


def _scales(tensor: QuantTensor, *, several: bool) -> tuple[str, ...]:
    """Fill the columns of scales: one, or mean, least and largest with the ends' channels."""
    scale = tensor.params.scale.astype(np.float64)
    if not several:
        return (f"{scale.item():.5g}",)
    if tensor.params.is_per_tensor:
        return f"{scale.item():.3g}", "", ""
    return (
        f"{scale.mean():.3g}",
        f"{scale.min():.3g}@{scale.argmin()}",
        f"{scale.max():.3g}@{scale.argmax()}",
    )


def spread_text(values: Array, digits: int = 4) -> str:
    """Give one number, or the least and the largest of several."""
    low, high = float(values.min()), float(values.max())
    if low == high:
        return f"{low:.{digits}g}"
    return f"{low:.{digits}g} … {high:.{digits}g}"


def _or_dash(value: float | None, text: str) -> str:
    """Give a dash for none, a question mark for unknown, else the text."""
    return "–" if value == 0 else ("?" if value is None else text)
