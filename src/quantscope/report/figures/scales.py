"""Draw the scales and weights of all layers along the network."""

from collections.abc import Iterable, Sequence
from math import log10
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator
from numpy.typing import NDArray

from quantscope.model import Network, Pairing, QuantTensor
from quantscope.report.figures.layer_axis import along_layers, room_for, row_on_top
from quantscope.report.figures.style import (
    EDITED,
    FLOAT,
    QUANTIZED,
    WEIGHTS,
    ThemeName,
    dress,
    legend,
    new_figure,
    note,
    nothing_to_show,
    plain,
    theme_of,
)

_SCALES = "Scales along the network"
_RANGES = "Weights of all layers"
_WIDTH = 0.3


def scales_along(
    network: Network, edited: Network | None = None, *, theme: ThemeName = "light"
) -> Figure:
    """Draw every activation's scale, and every weight's from its least to its largest channel.

    Scales that are different in `edited`, by the tensor's name, are drawn beside.
    """
    if not network.is_quantized:
        return nothing_to_show(
            _SCALES,
            f"{plain(network.path.name, 60)} is not quantized: it has no scales.",
            theme=theme,
        )
    places = _places(network)
    figure = new_figure(4.5 + room_for(list(places)), theme=theme)
    axes = dress(figure.add_subplot(), title=_SCALES, y="scale (value of one step)", grid="y")
    _draw_scales(axes, places, network.tensors, None)
    if edited is not None:
        before = {tensor.name: tensor for tensor in network.tensors}
        changed = [
            tensor
            for tensor in edited.tensors
            if tensor.name not in before or not _same_scale(tensor, before[tensor.name])
        ]
        _draw_scales(axes, places, changed, EDITED)
    every = [
        _scales_of(t) for net in (network, edited) if net for t in net.tensors if t.role != "bias"
    ]
    _decades(axes, min(s.min() for s in every), max(s.max() for s in every))
    along_layers(axes, list(places))
    legend(axes, handles=_scale_handles(axes, edited=edited is not None), columns=3)
    note(
        figure,
        f"{plain(network.path.name, 60)}. Logarithmic axis. Bars: scales by channel, the "
        f"line across is their median.{_of_biases(network)}",
    )
    return figure


def _of_biases(network: Network) -> str:
    has_biases = any(tensor.role == "bias" for tensor in network.tensors)
    return " Biases follow from the two: input times weight." if has_biases else ""


def _places(network: Network) -> dict[str, int]:
    """Give each layer its place on the axis; the model's inputs come first."""
    inputs = [t.name for t in network.tensors if t.role == "activation" and t.producer is None]
    layers = [layer.name for layer in network.layers if layer.is_quantized]
    return {name: place for place, name in enumerate(dict.fromkeys([*inputs, *layers]))}


def _owner(tensor: QuantTensor) -> str:
    """Name the layer that a tensor is drawn at: its maker, or a constant's first reader."""
    if tensor.role == "activation":
        return tensor.producer or tensor.name
    return tensor.consumers[0] if tensor.consumers else tensor.name


def _draw_scales(
    axes: Axes, places: dict[str, int], tensors: Iterable[QuantTensor], colour: str | None
) -> None:
    for tensor in tensors:
        place = places.get(_owner(tensor))
        if tensor.role == "bias" or place is None:
            continue
        is_weight = tensor.role == "weight"
        shade = colour or (WEIGHTS if is_weight else QUANTIZED)
        x = place + (0.14 if is_weight else -0.14) + (0.13 if colour else 0)
        scales = _scales_of(tensor)
        if scales.size > 1:
            (bar,) = axes.bar(
                x, np.ptp(scales), 0.2, scales.min(), color=shade, alpha=0.55, zorder=2
            )
            bar.set_gid(_owner(tensor))
            axes.hlines(np.median(scales), x - 0.1, x + 0.1, color=shade, linewidth=2, zorder=3)
        else:
            marker = "s" if is_weight else "o"
            (mark,) = axes.plot(x, scales[0], marker, color=shade, markersize=5.5, zorder=3)
            mark.set_gid(_owner(tensor))


def _scale_handles(axes: Axes, *, edited: bool) -> list[Line2D | Patch]:
    theme = theme_of(axes)
    handles: list[Line2D | Patch] = [
        Line2D([], [], marker="o", linestyle="", color=QUANTIZED, label="activations"),
        Patch(facecolor=WEIGHTS, alpha=0.75, edgecolor=theme.paper, label="weights"),
    ]
    if edited:
        handles.append(Patch(facecolor=EDITED, edgecolor=theme.paper, label="edited"))
    return handles


def _decades(axes: Axes, least: float, largest: float) -> None:
    axes.set_yscale("log")
    axes.set_ylim(least / 2, largest * 2)
    axes.yaxis.set_major_locator(LogLocator(10, numticks=12))
    axes.yaxis.set_minor_formatter(NullFormatter())
    # Over many decades the minor ticks would run together.
    if largest > 1e4 * least:
        axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _decade(value)))


def _decade(value: float) -> str:
    """Write a power of ten: `0.001`, `10⁻⁵`."""
    power = round(log10(value))
    if -4 <= power <= 4:
        return f"{value:g}"
    return "10" + str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def _scales_of(tensor: QuantTensor) -> NDArray[np.float64]:
    # Block quantization may have negative ones.
    return np.abs(tensor.params.scale.astype(np.float64)).ravel()


def _same_scale(one: QuantTensor, other: QuantTensor) -> bool:
    return np.array_equal(one.params.scale, other.params.scale)


class Span(NamedTuple):
    """The least, the largest, and the middle 90 % of a weight's values."""

    low: float
    high: float
    middle_low: float
    middle_high: float


def span_of(values: NDArray[np.floating]) -> Span | None:
    """Measure a tensor; None if it has no values, or some that are not finite."""
    if values.size == 0 or not np.isfinite(values).all():
        return None
    return Span(*(float(v) for v in np.quantile(values, (0.0, 1.0, 0.05, 0.95))))


def weight_ranges(
    network: Network, pairing: Pairing | None = None, *, theme: ThemeName = "light"
) -> Figure:
    """Draw every layer's weights: all (line), the middle 90 % (bar), float beside quantized.

    Float values come from the pairing with what is folded into them; without it, or where the float
    file does not hold them, only the quantized ones are drawn.
    """
    weights = [t for t in network.tensors if t.role == "weight" and t.has_data]
    if not weights:
        return nothing_to_show(
            _RANGES, f"{plain(network.path.name, 60)} stores no quantized weights.", theme=theme
        )
    names = [_owner(tensor) for tensor in weights]
    figure = new_figure(4.4 + room_for(names), theme=theme)
    axes = dress(figure.add_subplot(), title=_RANGES, y="weight", grid="y")
    pairs = pairing.by_name if pairing is not None else {}
    missing = []
    largest = []
    for place, tensor in enumerate(weights):
        pair = pairs.get(tensor.name)
        floats = pair.float_values() if pair is not None else None
        spans = (None if floats is None else span_of(floats), span_of(tensor.values()))
        if spans[0] is None:
            missing.append(tensor.name)
        ends = [abs(end) for span in spans if span is not None for end in (span.low, span.high)]
        largest.append(f"{max(ends):#.2g}" if ends else "")
        for side, span, colour in zip((-1, 1), spans, (FLOAT, QUANTIZED), strict=True):
            if span is not None:
                _draw_span(axes, place + side * 0.18, span, colour, gid=_owner(tensor))
    axes.axhline(0, color=theme_of(axes).ink, linewidth=0.8, zorder=1)
    along_layers(axes, names)
    on_top = " On top: the largest size of a weight." if row_on_top(axes, largest) else ""
    kinds = [("float", FLOAT)] if len(missing) < len(weights) else []
    kinds.append(("quantized", QUANTIZED))
    legend(axes, handles=[Patch(facecolor=c, label=name) for name, c in kinds], columns=2)
    note(
        figure,
        f"{plain(network.path.name, 60)}. Thin: all values, thick: the middle 90 %.{on_top}"
        f"{_without_float(missing, len(weights))}",
    )
    return figure


def _draw_span(axes: Axes, x: float, span: Span, colour: str, *, gid: str) -> None:
    axes.vlines(x, span.low, span.high, color=colour, linewidth=1.4, zorder=2)
    for end in (span.low, span.high):
        axes.hlines(end, x - 0.08, x + 0.08, color=colour, linewidth=1.4, zorder=2)
    height = span.middle_high - span.middle_low
    (bar,) = axes.bar(x, height, _WIDTH, span.middle_low, color=colour, zorder=3)
    bar.set_gid(gid)


def _without_float(missing: Sequence[str], total: int) -> str:
    if not missing:
        return ""
    if len(missing) == total:
        return " No float values at hand."
    return f" No float values at hand for {', '.join(plain(name) for name in missing[:5])}" + (
        f" and {len(missing) - 5} more." if len(missing) > 5 else "."
    )
