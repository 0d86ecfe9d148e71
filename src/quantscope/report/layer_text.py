"""Show one layer in full: every channel's parameters, its weights as integers and real numbers."""

from collections.abc import Iterator

import numpy as np

from quantscope.model import Array, Layer, Network, Operand, QuantTensor
from quantscope.plain_text import printable
from quantscope.report.network_text import batch_of, range_text, spread_text, tensor_notes
from quantscope.report.table import Column, Fact, Table
from quantscope.report.wording import attribute_text, count, number, shape_text, type_text

_BARS = " ▁▂▃▄▅▆▇█"
_BINS = 32
_SLICE = 8


def layer_facts(network: Network, layer: Layer) -> tuple[Fact, ...]:
    return tuple(_facts(network, layer))


def layer_tensors(layer: Layer) -> tuple[QuantTensor, ...]:
    """List the quantized tensors that a layer reads, then those that it writes, each once."""
    found = {o.quant.name: o.quant for o in (*layer.inputs, *layer.outputs) if o.quant}
    return tuple(found.values())


def tensor_facts(tensor: QuantTensor) -> tuple[Fact, ...]:
    return tuple(_tensor_facts(tensor))


def channel_table(tensor: QuantTensor) -> Table:
    """List every scale and zero-point, and what the stored integers of a channel reach."""
    params = tensor.params
    low, high = params.representable_range
    columns = ["channel" if not params.block_size else "block", "scale", "zero-point"]
    cells = [
        [str(index) for index in range(params.scale.size)],
        [f"{scale:.6g}" for scale in params.scale.astype(np.float64).ravel()],
        [str(zero_point) for zero_point in params.zero_point.ravel()],
    ]
    if not params.is_integer:
        columns.append("step")
        cells.append([f"{step:.6g}" for step in params.step.ravel()])
    columns += ["lowest", "highest"]
    cells += [[f"{edge:.6g}" for edge in edges.ravel()] for edges in (low, high)]
    if params.axis is not None and has_channel_data(tensor):
        integers = _numbers(tensor)
        others = tuple(axis for axis in range(integers.ndim) if axis != params.axis % integers.ndim)
        if others:
            columns += ["least integer", "largest integer"]
            cells += [
                [f"{value:g}" for value in edge(integers, axis=others)] for edge in (np.min, np.max)
            ]
        else:
            # With no other axis a channel is a single value: a bias.
            columns += ["integer", "value"]
            cells += [[f"{value:g}" for value in integers], list(map(number, tensor.values()))]
    return Table(
        title=f"{printable(tensor.name)} by {columns[0]}",
        columns=tuple(Column(heading, right=True) for heading in columns),
        rows=tuple(zip(*cells, strict=True)),
    )


def has_channel_data(tensor: QuantTensor) -> bool:
    """Tell whether the stored integers can be told apart by channel."""
    has_channels = tensor.params.axis is not None and not tensor.params.block_size
    return tensor.has_data and has_channels and tensor.integers().size > 0


def corner(array: Array) -> tuple[str, Array]:
    """Cut a piece that fits a screen, and give the index for it: `[0, 0]`, `[:8, :8, 0, 0]`."""
    # The last two axes of a convolution's weight are 1 in a 1x1 kernel, which would show one
    # number.
    shown = [axis for axis, size in enumerate(array.shape) if size > 1][-2:]
    index = tuple(slice(_SLICE) if axis in shown else 0 for axis in range(array.ndim))
    texts = [
        "0" if axis not in shown else (":" if size <= _SLICE else f":{_SLICE}")
        for axis, size in enumerate(array.shape)
    ]
    while texts and texts[-1] == ":":
        texts.pop()
    return f"[{', '.join(texts)}]" if texts else "", np.asarray(array[index])


def slice_table(tensor: QuantTensor) -> Table:
    """Show a corner of the stored integers, and the same dequantized."""
    index, integers = corner(_numbers(tensor))
    _, values = corner(tensor.values())
    rows = np.atleast_2d(integers)
    real = np.atleast_2d(values)
    width = rows.shape[1]
    return Table(
        title=f"{printable(tensor.name)}{index}: integers, then real values",
        columns=tuple(Column("", right=True) for _ in range(2 * width + 1)),
        rows=tuple(
            (*(f"{value:g}" for value in left), "│", *(number(value) for value in right))
            for left, right in zip(rows, real, strict=True)
        ),
    )


def histogram(tensor: QuantTensor) -> str:
    """Draw the stored integers over the type's whole range.

    A bar that is there holds something, however little. The text is empty for a type of more than
    16 bits.
    """
    params = tensor.params
    if params.bits > 16:  # an int32 bias would be one bar
        return ""
    counts, _ = np.histogram(_numbers(tensor), bins=_BINS, range=(params.qmin, params.qmax + 1))
    top = max(1, counts.max())
    bars = np.where(counts > 0, np.maximum(1, np.ceil(counts / top * (len(_BARS) - 1))), 0)
    return "".join(_BARS[int(bar)] for bar in bars)


def _facts(network: Network, layer: Layer) -> Iterator[Fact]:
    kind = type_text(layer, in_quantized=network.is_quantized)
    written = f"{layer.domain}::{layer.file_op_type}" if layer.domain else layer.file_op_type
    in_file = f"{written} {layer.node_name}".strip()
    yield Fact("type", kind)
    yield Fact("in the file", printable(in_file))
    for operand in layer.inputs:
        yield Fact("reads", _operand_text(network, operand))
    for operand in layer.outputs:
        yield Fact("writes", _operand_text(network, operand))
    for name, value in layer.telling_attributes.items():
        yield Fact(printable(name), attribute_text(value))
    for name in layer.subgraphs:
        yield Fact("subgraph", f"{printable(name)}, not entered")
    yield Fact("MACs", count(layer.macs))
    yield Fact("weights", f"{count(layer.weight_bytes)} bytes")
    yield Fact("memory", f"{count(layer.live_bytes)} bytes of activations while it runs")


def _operand_text(network: Network, operand: Operand) -> str:
    name = operand.quant.name if operand.quant else operand.name
    batch = batch_of(network) if operand.role == "activation" else None
    shape = shape_text(operand.shape, batch=batch)
    source = f", from {printable(operand.source)}" if operand.source else ""
    return f"{operand.role} {printable(name)}  {shape} {operand.dtype}{source}"


def _tensor_facts(tensor: QuantTensor) -> Iterator[Fact]:
    params = tensor.params
    if params.block_size:
        grain = f"{params.scale.size:,} blocks of {params.block_size} along axis {params.axis}"
    elif params.is_per_tensor:
        grain = "per tensor"
    else:
        grain = f"per channel, {params.scale.size:,} along axis {params.axis}"
    yield Fact("type", f"{params.type_text}, {grain}")
    yield Fact("scale", spread_text(params.scale, 8))
    yield Fact("zero-point", spread_text(params.zero_point, 8))
    yield Fact("step", spread_text(params.step, 8))
    yield Fact("range", range_text(tensor, digits=6))
    if notes := tensor_notes(tensor):
        yield Fact("notes", notes)
    yield Fact("in the file", printable(", ".join(_file_names(tensor))))
    if tensor.has_data:
        yield from _data_facts(tensor)


def _file_names(tensor: QuantTensor) -> Iterator[str]:
    """Name each array of the file that the tensor is made of, where it has a name."""
    if tensor.float_name:
        yield f"quantizes {tensor.float_name}"
    for label, names in (
        ("integers", tensor.integer_names),
        ("dequantized", tensor.dequantized_names),
        ("scale", (tensor.scale_name,)),
        ("zero-point", (tensor.zero_point_name,)),
    ):
        found = [name for name in names if name]
        if found:
            yield f"{label} {' '.join(found)}"


def _data_facts(tensor: QuantTensor) -> Iterator[Fact]:
    integers = _numbers(tensor)
    if integers.size == 0:
        yield Fact("integers", "none: a dimension is 0")
        return
    params = tensor.params
    levels = np.unique(integers).size
    at_edges = int(((integers == params.qmin) | (integers == params.qmax)).sum())
    values = tensor.values().astype(np.float64)
    possible = f" of {2**params.bits:,}" if params.is_integer and params.bits <= 16 else ""
    yield Fact(
        "integers",
        f"{integers.size:,} from {integers.min():g} to {integers.max():g}, {levels:,}{possible} "
        f"levels used, {int((integers == 0).sum()):,} zeros, {at_edges:,} at the type's limits",
    )
    yield Fact(
        "values",
        f"{number(values.min())} to {number(values.max())}, mean {number(values.mean())}, "
        f"deviation {number(values.std())}",
    )
    if bars := histogram(tensor):
        yield Fact("histogram", f"{params.qmin} {bars} {params.qmax}")


def _numbers(tensor: QuantTensor) -> Array:
    """Give the stored integers in a type that NumPy reduces: 4-bit and float8 types it does not."""
    stored = tensor.integers()
    if stored.dtype.kind in "iu":
        return stored
    return stored.astype(np.int16 if tensor.params.is_integer else np.float32)
