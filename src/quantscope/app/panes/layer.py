"""Show the selected layer: what it is, its parameters, and where its error comes from."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import marimo as mo
from matplotlib.figure import Figure

from quantscope.app.editing import EditedFile
from quantscope.app.painter import Wanted
from quantscope.app.panes.parts import (
    line,
    safe,
    say_which_model,
    select_button,
    sentence,
    share_text,
    stacked_bar,
    standing_out,
    table,
)
from quantscope.app.pictures import WHOLE
from quantscope.app.place import Selection
from quantscope.app.session import Session
from quantscope.app.words import word
from quantscope.data import stratify
from quantscope.edit import Change
from quantscope.model import Layer, QuantTensor
from quantscope.report import (
    amount,
    attributes_text,
    batch_of,
    channel_table,
    flow_text,
    layer_tensors,
    range_text,
    shape_text,
    spread_text,
    type_text,
)
from quantscope.report.figures import (
    DARK,
    LIGHT,
    SOURCE_NAMES,
    ThemeName,
    activation_histogram,
    channel_error,
    value_histogram,
    weight_histograms,
    weights_heatmap,
)
from quantscope.run import MOVING_OPS, capture, saturates_8bit_products
from quantscope.run.compare import TensorComparison

_HEAD = {
    "dtype": "type",
    "scale": "scale",
    "zero_point": "zero-point",
    "range": "range",
    "used": "used",
    "clipped": "clipped",
    "sqnr": "SQNR",
}

_FLOAT_ROWS = 32
"""The rows that a float model's values are shown of: all of them are in memory at once."""
_SHOWN = {
    True: "This is the model as it was opened; rows marked edited are with {edits}.",
    False: "This is the model as it was opened, without {edits}.",
}


def show(
    session: Session,
    selection: Selection,
    *,
    theme: ThemeName,
    edited: EditedFile | None = None,
) -> mo.Html:
    """Show the layer as it was opened; what `edited` changed in it is a row of its own."""
    network = session.opened.network
    layer = next((x for x in network.layers if x.name == selection.layer), None)
    tensors = list(_tensors(session, layer, selection))
    changed = {change.tensor: change for change in edited.changes} if edited else {}
    touched = any(tensor.name in changed for _, tensor in tensors)
    parts = [_heading(session, layer, selection), say_which_model(edited, _SHOWN[touched])]
    if tensors:
        parts.append(_parameters(session, tensors, selection, changed))
    parts.extend(line(text) for text in _remarks(session, layer, tensors))
    parts.append(_error(session, selection, tensors, theme))
    return mo.Html(f'<div class="qs-layer" data-testid="layer">{"".join(parts)}</div>')


def _tensors(
    session: Session, layer: Layer | None, selection: Selection
) -> Iterator[tuple[str, QuantTensor]]:
    """List what the layer reads, then its constants, then what it writes; each once."""
    if layer is None:
        found = (t for t in session.opened.network.tensors if t.name == selection.tensor)
        yield from (("input of the model", tensor) for tensor in found)
        return
    written = {o.quant.name for o in layer.outputs if o.quant}
    for tensor in layer_tensors(layer):
        role = tensor.role if tensor.role != "activation" else "reads"
        yield ("writes" if tensor.name in written else role), tensor


def _heading(session: Session, layer: Layer | None, selection: Selection) -> str:
    network = session.opened.network
    if layer is None:
        name, facts = selection.tensor or "", ["input of the model"]
        facts += [shape_text(o.shape) for o in network.inputs if o.quant and o.quant.name == name]
    else:
        name = layer.name
        kind = type_text(layer, in_quantized=network.is_quantized)
        facts = [f"{kind} {attributes_text(layer.telling_attributes)}".strip()]
        facts.append(flow_text(layer, batch_of(network)))
        if layer.macs:
            facts.append(f"{amount(layer.macs)} MACs")
        if layer.weight_bytes:
            facts.append(f"weights {amount(layer.weight_bytes, 'B')}")
    shown = "".join(f"<span>{safe(fact)}</span>" for fact in facts if fact)
    return (
        f'<div class="qs-heading"><h2 data-testid="layer-name">{safe(name)}</h2>{shown}'
        f"{_kernel(session, layer)}</div>"
    )


def _kernel(session: Session, layer: Layer | None) -> str:
    if session.kernels is None or layer is None:
        return ""
    found = next((k for k in session.kernels.layers if k.name == layer.name), None)
    if found is None:
        return ""
    text = word("kernel", f"{found.kernel} kernel")
    if found.saturates:
        where = "saturates" if saturates_8bit_products() else "can saturate on other CPUs"
        text += f", {word('saturates', where)}"
    title = safe(found.why or found.executed_as or "merged into another layer")
    return f'<span class="qs-faint" title="{title}">{text}</span>'


def _parameters(
    session: Session,
    tensors: list[tuple[str, QuantTensor]],
    selection: Selection,
    changed: Mapping[str, Change],
) -> str:
    head = ["", "tensor", *(word(key, text) for key, text in _HEAD.items())]
    rows = []
    for role, tensor in tensors:
        rows.append(list(_row(session, role, tensor, selection)))
        if tensor.name in changed:
            rows.append([_green(cell) for cell in _changed(tensor, changed[tensor.name])])
    channels = "".join(
        f"<details><summary>{safe(tensor.name)}: {tensor.params.scale.size:,} channels</summary>"
        f"{_channel_rows(tensor)}</details>"
        for role, tensor in tensors
        if not tensor.params.is_per_tensor and role != "reads"
    )
    return f'<div data-testid="parameters">{table(head, rows, right=range(3, 9))}{channels}</div>'


def _row(session: Session, role: str, tensor: QuantTensor, selection: Selection) -> Iterator[str]:
    """Give the cells of a tensor: who it is, its parameters, and its error."""
    yield f'<span class="qs-faint">{role}</span>'
    place = Selection(selection.layer, tensor.name) if role != "reads" else _home(tensor)
    name = select_button(place, tensor.name, chosen=tensor.name == selection.tensor)
    marks = f" {word('folded_relu', 'ReLU')}" if tensor.folded_relu else ""
    yield name + marks
    yield from _stated(tensor)
    yield from _compared(session.find_comparison(tensor.name))


def _stated(tensor: QuantTensor) -> Iterator[str]:
    params = tensor.params
    grain = "" if params.is_per_tensor else f" {word('per_channel', f'× {params.scale.size:,}')}"
    yield f"{params.type_text}{grain}"
    yield spread_text(params.scale, 4 if params.is_per_tensor else 2)
    yield spread_text(params.zero_point)
    yield range_text(tensor)


def _changed(tensor: QuantTensor, change: Change) -> Iterator[str]:
    """Give the cells of a tensor's edited row; its error is not measured here."""
    yield "edited"
    count = change.integers_changed
    yield f"{count:,} integers changed" if count else ""
    if change.after is None:
        yield from ("not quantized", *[""] * 6)
        return
    yield from _stated(replace(tensor, params=change.after))
    yield from [""] * 3


def _green(cell: str) -> str:
    return f'<span class="qs-edited">{cell}</span>'


def _home(tensor: QuantTensor) -> Selection:
    return Selection(tensor.producer, tensor.name)


def _compared(row: TensorComparison | None) -> Iterator[str]:
    if row is None:
        yield from ("", "", "")
        return
    yield "–" if row.used_share_of_range is None else share_text(row.used_share_of_range, 0)
    low, high = row.clipped_low_fraction, row.clipped_high_fraction
    yield "–" if low is None or high is None else share_text(low + high)
    yield "exact" if row.exact else ("–" if row.sqnr_db is None else f"{row.sqnr_db:.1f} dB")


def _channel_rows(tensor: QuantTensor) -> str:
    found = channel_table(tensor)
    head = [column.heading for column in found.columns]
    return table(head, found.rows, right=range(len(head)))


def _remarks(
    session: Session, layer: Layer | None, tensors: list[tuple[str, QuantTensor]]
) -> Iterator[str]:
    if session.opened.is_float:
        yield "This model is float: its layers have no scales and zero-points yet."
        return
    if layer is None:
        return
    kept = _kept_from(layer)
    if kept:
        yield f"It only moves values: its output keeps the parameters of {kept}."
    elif not tensors:
        yield "Nothing that this layer reads or writes is quantized: it runs in float."
    elif all(role != "weight" for role, _ in tensors):
        yield "It has no weights, so there is no histogram of them; its output is quantized."


def _kept_from(layer: Layer) -> str | None:
    """Name the input whose parameters the output has, where the layer computes nothing."""
    if layer.op_type not in MOVING_OPS:
        return None
    outputs = [o.quant for o in layer.outputs if o.quant]
    inputs = [o.quant for o in layer.activations if o.quant]
    same = (t.name for t in inputs if outputs and t.params == outputs[0].params)
    return next(same, None)


def _error(
    session: Session,
    selection: Selection,
    tensors: list[tuple[str, QuantTensor]],
    theme: ThemeName,
) -> str:
    """Show where the error of the selected tensor comes from, or why that is not known."""
    if session.opened.is_float:
        return ""
    comparison = session.comparison
    if comparison is None:
        why = session.not_compared
        said = f"Its error is not known ({why})." if why else "Its error is being measured…"
        return line(said, kind="qs-faint")
    row = session.find_comparison(selection.tensor)
    if row is None:
        missing = next(
            (
                u.reason
                for u in (*comparison.unpaired, *comparison.unseen)
                if u.name == selection.tensor
            ),
            "",
        )
        return line(f"Not compared with the float model: {missing}.") if missing else ""
    parts = []
    if row.sources is not None:
        parts.append(stacked_bar(list(_shares(row, theme))))
    parts.append(
        f'<p class="qs-reading" data-testid="reading"><b>{safe(row.name)}</b> '
        f"{safe(sentence(row))}</p>"
    )
    names = [tensor.name for role, tensor in tensors if role != "reads"]
    parts.extend(line(text) for text in standing_out(comparison, names))
    return f'<div class="qs-card">{"".join(parts)}</div>'


def _shares(row: TensorComparison, theme: ThemeName) -> Iterator[tuple[str, str, float]]:
    colours = (DARK if theme == "dark" else LIGHT).sources
    assert row.sources is not None
    for key, name in SOURCE_NAMES.items():
        share = getattr(row.sources, key)
        if share is not None:
            explained = word(key, name) if key != "kernel" else word("gap", name)
            yield explained, colours[key], share


def wanted(session: Session, selection: Selection, *, theme: ThemeName) -> list[Wanted]:
    return list(_wanted(session, selection, theme))


def _wanted(session: Session, selection: Selection, theme: ThemeName) -> Iterator[Wanted]:
    network = session.opened.network
    layer = next((x for x in network.layers if x.name == selection.layer), None)
    if session.opened.is_float and layer is not None:
        yield from _float_values(session, layer, theme)
    tensors = layer_tensors(layer) if layer else network.tensors
    chosen = next((t for t in tensors if t.name == selection.tensor), None)
    shown = chosen if chosen is None or chosen.role == "activation" else _output(session, chosen)
    if shown is not None:
        yield from _activation(session, shown, theme)
    yield from _channels(session, chosen, theme)
    if layer is not None and layer.weight is not None and layer.weight.has_data:
        yield from _weights(session, layer.weight, theme)


def _float_values(session: Session, layer: Layer, theme: ThemeName) -> Iterator[Wanted]:
    """Draw what a layer of a float model gives, which is what a calibration would find."""
    rows = stratify(session.sample, _FLOAT_ROWS)

    def draw() -> Figure:
        found = capture(session.opened.model, rows, [layer.name])
        return value_histogram(next(iter(found.tensors.values())).values, theme=theme)

    what = f"{len(rows):,} {session.noun}s"
    yield Wanted(
        ("float values", layer.name, theme),
        f"Values that {layer.name} gives for {what}",
        draw,
        height=3.1,
    )


def _output(session: Session, constant: QuantTensor) -> QuantTensor | None:
    """Find what a weight makes, to stand beside it."""
    layers = {layer.name: layer for layer in session.opened.network.layers}
    reader = layers.get(constant.consumers[0]) if constant.consumers else None
    return next((o.quant for o in reader.outputs if o.quant), None) if reader else None


def _activation(session: Session, tensor: QuantTensor, theme: ThemeName) -> Iterator[Wanted]:
    histogram = session.histogram(tensor)
    if histogram is not None:
        yield Wanted(
            ("activation", tensor.name, histogram["quantized"].values, theme),
            f"Values of {tensor.name}",
            lambda: activation_histogram(histogram, log=True, theme=theme),
            height=3.1,
        )


def _channels(session: Session, tensor: QuantTensor | None, theme: ThemeName) -> Iterator[Wanted]:
    row = session.find_comparison(tensor.name) if tensor else None
    comparison = session.comparison
    if tensor is not None and row is not None and comparison and len(row.channels) > 1:
        yield Wanted(
            ("channels", tensor.name, comparison.images, comparison.execution, theme),
            f"Error by channel of {tensor.name}",
            lambda: channel_error(row, params=tensor.params, theme=theme),
            height=3.1,
        )


def _weights(session: Session, weight: QuantTensor, theme: ThemeName) -> Iterator[Wanted]:
    opened = session.opened
    yield Wanted(
        ("weights", weight.name, theme),
        f"{weight.name}: {'its integers' if opened.no_float else 'float, int8 and uint8'}",
        lambda: weight_histograms(session.weight_histogram(weight), theme=theme),
        width=8.4,
        height=2.6,
    )
    yield Wanted(
        ("heatmap", weight.name, theme),
        f"{weight.name}: every value",
        lambda: weights_heatmap(opened.network, weight.name, opened.pairing, theme=theme),
        width=WHOLE,
        height=_heatmap_height(weight),
    )


def _heatmap_height(weight: QuantTensor) -> float:
    """Give inches: few input channels make a flat map, which leaves a high card empty."""
    sizes = [size for size in (weight.shape or ())[:2] if isinstance(size, int)]
    ratio = sizes[1] / sizes[0] if len(sizes) == 2 and sizes[0] else 1.0
    return min(3.6, 1.2 + 5.5 * ratio)
