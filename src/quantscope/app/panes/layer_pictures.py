"""Choose the pictures of the selected layer."""

from collections.abc import Iterator

from quantscope.app.painter import Wanted
from quantscope.app.pictures import WHOLE
from quantscope.app.selection import Selection
from quantscope.app.session import Session
from quantscope.model import QuantTensor
from quantscope.report import layer_tensors
from quantscope.report.figures import (
    ThemeName,
    activation_histogram,
    channel_error,
    weight_histograms,
    weights_heatmap,
)


def wanted(session: Session, selection: Selection, *, theme: ThemeName) -> list[Wanted]:
    return list(_wanted(session, selection, theme))


def _wanted(session: Session, selection: Selection, theme: ThemeName) -> Iterator[Wanted]:
    network = session.opened.network
    layer = next((x for x in network.layers if x.name == selection.layer), None)
    tensors = layer_tensors(layer) if layer else network.tensors
    chosen = next((t for t in tensors if t.name == selection.tensor), None)
    shown = chosen if chosen is None or chosen.role == "activation" else _output(session, chosen)
    if shown is not None:
        yield from _activation(session, shown, theme)
    yield from _channels(session, chosen, theme)
    if layer is not None and layer.weight is not None and layer.weight.has_data:
        yield from _weights(session, layer.weight, theme)


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
    row = session.compared(tensor.name) if tensor else None
    comparison = session.comparison
    if tensor is not None and row is not None and comparison and len(row.channels) > 1:
        yield Wanted(
            ("channels", tensor.name, comparison.images, theme),
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
