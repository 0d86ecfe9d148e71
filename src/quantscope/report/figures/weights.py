"""Draw a layer's weights: every kernel, or averaged over what one does not ask about."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, sqrt
from typing import Any, Literal

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from quantscope.errors import BadConfigError
from quantscope.model import Layer, Network, Pairing, QuantTensor
from quantscope.report.figures.style import (
    SMALL,
    WIDTH_INCHES,
    ThemeName,
    dress,
    new_figure,
    note,
    nothing_to_show,
    plain,
)

Values = NDArray[np.float64]
Shown = Literal["quantized", "integers", "float", "difference", "difference in steps"]
View = Literal["kernels", "mean kernels", "channels"]

_MOST_CHANNELS = 96
_MOST_NUMBERED = 64
_MOST_TICKS = 16
_WIDE, _TALL, _FLAT, _NARROW = 7.6, 5.6, 0.6, 5.0
_OUT, _IN = "output channel", "input channel"


def weights_heatmap(
    network: Network,
    name: str,
    pairing: Pairing | None = None,
    *,
    show: Shown = "quantized",
    view: View = "kernels",
    outputs: Sequence[int] | None = None,
    inputs: Sequence[int] | None = None,
    theme: ThemeName = "light",
) -> Figure:
    """Draw the weight `name` of a network; colours are symmetric about zero.

    `view` "kernels" shows every 2-D slice, input channels against output channels; "mean kernels"
    their mean over the input channels, one for each output channel; "channels" the mean over each
    kernel. `show` "integers" is relative to the zero-point; "float" and the differences (quantized
    minus float) need a pairing. `outputs` and `inputs` choose channels; without them the first 96
    are shown.
    """
    tensor = network.tensor(name)
    if not tensor.has_data or tensor.role == "bias":
        raise BadConfigError(f"{tensor.name} is not a stored weight; ask for one, as stem.weight")
    title = f"{plain(tensor.name, 40)}, {show}"
    values = _values(tensor, pairing, show)
    if values is None:
        reason = "The float values of these weights are not at hand; give the float model."
        return nothing_to_show(title, reason, theme=theme)
    layer = network.layer(tensor.consumers[0]) if tensor.consumers else None
    kernels = _kernels(values, layer)
    rows, columns = (
        _choose_channels(given, count, kind)
        for given, count, kind in zip(
            (outputs, inputs), kernels.shape[:2], (_OUT, _IN), strict=True
        )
    )
    mosaic = _mosaic(kernels[np.ix_(rows, columns)], rows, columns, view)
    return _draw(mosaic, tensor, title, show, _left_out(kernels, rows, columns, view), theme)


@dataclass(frozen=True)
class _Mosaic:
    """Cells with NaN between tiles, and the channels at their ticks along x and y."""

    cells: Values
    labels: tuple[str, str]
    ticks: tuple[list[tuple[float, int]], list[tuple[float, int]]]
    numbers: list[tuple[float, float, int]]
    """The left and upper end of each tile that has its channel written into it."""


def _values(tensor: QuantTensor, pairing: Pairing | None, show: Shown) -> Values | None:
    """Give the weights as they are to be shown; None where the float ones are not at hand."""
    params = tensor.params
    integers = tensor.integers()
    if show == "integers":
        whole = integers.astype(np.float32).astype(np.int64)
        return (whole - params.expand(params.zero_point, integers.shape)).astype(np.float64)
    quantized = tensor.values().astype(np.float64)
    if show == "quantized":
        return quantized
    found = None if pairing is None else pairing.by_name.get(tensor.name)
    floats = None if found is None else found.float_values()
    if floats is None:
        return None
    given = floats.astype(np.float64).reshape(quantized.shape)
    if show == "float":
        return given
    steps = params.expand(params.step, quantized.shape) if show == "difference in steps" else 1.0
    return np.asarray((quantized - given) / steps)


def _kernels(values: Values, layer: Layer | None) -> Values:
    """Give the weights as [output, input, height, width], whatever the layer."""
    op_type = "" if layer is None else layer.op_type
    is_transposed = op_type == "Gemm" and layer is not None and layer.attributes.get("transB", 0)
    if values.ndim < 2:
        return values.reshape(-1, 1, 1, 1)
    if op_type == "ConvTranspose":
        # The file has [input, output, ...].
        values = values.swapaxes(0, 1)
    elif op_type in ("Gemm", "MatMul") and not is_transposed:
        # The file has [..., input, output].
        values = values.reshape(-1, values.shape[-1]).T
    width = values.shape[-1] if values.ndim > 2 else 1
    return values.reshape(*values.shape[:2], -1, width)


def _choose_channels(given: Sequence[int] | None, count: int, kind: str) -> list[int]:
    if given is None:
        return list(range(min(count, _MOST_CHANNELS)))
    bad = next((channel for channel in given if not 0 <= channel < count), None)
    if bad is not None or not given:
        raise BadConfigError(
            f"There is no {kind} {bad}; choose from 0 to {count - 1}"
            if bad is not None
            else f"No {kind} was chosen; choose from 0 to {count - 1}"
        )
    return list(given)


def _mosaic(kernels: Values, outputs: list[int], inputs: list[int], view: View) -> _Mosaic:
    """Arrange [output, input, height, width] as the view asks."""
    height, width = kernels.shape[2:]
    if view == "mean kernels":
        return _number_kernels(kernels.mean(axis=1), outputs)
    if view == "channels":
        kernels = kernels.mean(axis=(2, 3), keepdims=True)
        height = width = 1
    across, down = (inputs, outputs), (_IN, _OUT)
    if len(outputs) > len(inputs):
        # The longer side lies across, where there is more room.
        kernels, across, down = kernels.swapaxes(0, 1), (outputs, inputs), (_OUT, _IN)
    gap = 0 if height == width == 1 else 1
    cells = _tile(kernels, gap)
    ticks = (_places(across[0], width, gap), _places(across[1], height, gap))
    return _Mosaic(cells, down, ticks, [])


def _tile(tiles: Values, gap: int) -> Values:
    """Lay [rows, columns, height, width] out beside and below one another, `gap` cells apart."""
    rows, columns, height, width = tiles.shape
    wide = np.full((rows, height + gap, columns, width + gap), np.nan)
    wide[:, :height, :, :width] = tiles.transpose(0, 2, 1, 3)
    flat = wide.reshape(rows * (height + gap), columns * (width + gap))
    return flat[: len(flat) - gap, : flat.shape[1] - gap]


def _number_kernels(kernels: Values, outputs: list[int]) -> _Mosaic:
    """Lay kernels out in rows, about 2.5 times as wide as high, numbered if they are few."""
    count, height, width = kernels.shape
    columns = min(count, ceil(sqrt(2.5 * count * height / width)))
    rows = ceil(count / columns)
    filled = np.full((rows * columns, height, width), np.nan)
    filled[:count] = kernels
    cells = _tile(filled.reshape(rows, columns, height, width), 1)
    numbers = [
        (n % columns * (width + 1) - 0.5, n // columns * (height + 1) - 0.5, channel)
        for n, channel in enumerate(outputs)
    ]
    written = numbers if count <= _MOST_NUMBERED else []
    return _Mosaic(cells, ("", ""), ([], []), written)


def _places(channels: list[int], size: int, gap: int) -> list[tuple[float, int]]:
    every = ceil(len(channels) / _MOST_TICKS)
    return [
        (n * (size + gap) + (size - 1) / 2, channel)
        for n, channel in enumerate(channels)
        if n % every == 0
    ]


def _draw(
    mosaic: _Mosaic, tensor: QuantTensor, title: str, show: Shown, left_out: str, theme: ThemeName
) -> Figure:
    cells = mosaic.cells
    largest = float(np.nanmax(np.abs(cells), initial=0.0))
    height = float(np.clip(_WIDE * cells.shape[0] / cells.shape[1], _FLAT, _TALL))
    width = float(np.clip(height * cells.shape[1] / cells.shape[0] + 1.4, _NARROW, WIDTH_INCHES))
    figure = new_figure(height + 1.5, width=width, theme=theme)
    axes = dress(figure.add_subplot(), title=title, x=mosaic.labels[0], y=mosaic.labels[1])
    axes.set_facecolor(figure.theme.grid)
    limit = _limit(tensor, largest, show)
    image = axes.imshow(cells, cmap=figure.theme.change, vmin=-limit, vmax=limit)
    image.set_interpolation("nearest")
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.tick_params(length=0)
    axes.set_xticks([at for at, _ in mosaic.ticks[0]], [str(c) for _, c in mosaic.ticks[0]])
    axes.set_yticks([at for at, _ in mosaic.ticks[1]], [str(c) for _, c in mosaic.ticks[1]])
    for x, y, channel in mosaic.numbers:
        axes.text(x, y, f" {channel}", va="top", fontsize=SMALL - 2, color=figure.theme.ink)
    bar = figure.colorbar(image, ax=axes, fraction=0.04, pad=0.015, aspect=24)
    bar.set_label(_unit(tensor, show), fontsize=SMALL, color=figure.theme.ink)
    bar.ax.tick_params(labelsize=SMALL, length=2, colors=figure.theme.ink)
    bar.outline.set_visible(False)
    facts = [f"Largest size: {largest:.3g}"]
    if show.startswith("difference") and not largest:
        facts = ["No difference: every weight is represented exactly"]
    note(figure, "; ".join([*facts, *([left_out] if left_out else [])]) + ".")
    return figure


def _limit(tensor: QuantTensor, largest: float, show: Shown) -> float:
    """Find the end of the colours. Integers have that of their type, so that layers compare."""
    if show == "integers":
        zero_point = tensor.params.zero_point
        return float(
            max((tensor.params.qmax - zero_point).max(), (zero_point - tensor.params.qmin).max())
        )
    return largest or 1.0


def _unit(tensor: QuantTensor, show: Shown) -> str:
    if show == "integers":
        shifted = " − zero-point" if tensor.params.zero_point.any() else ""
        return f"integer{shifted} ({tensor.params.type_text})"
    if show == "difference in steps":
        return "quantized − float (steps)"
    return "quantized − float (weight)" if show == "difference" else "weight"


def _left_out(kernels: Values, outputs: list[int], inputs: list[int], view: View) -> str:
    means: dict[Any, str] = {
        "mean kernels": "each tile is the mean over the input channels, numbered by output channel",
        "channels": "each cell is the mean over a kernel",
    }
    parts = [means[view]] if view in means and kernels.shape[2:] != (1, 1) else []
    for chosen, count, kind in zip((outputs, inputs), kernels.shape[:2], (_OUT, _IN), strict=True):
        if len(chosen) < count:
            parts.append(f"{len(chosen)} of {count} {kind}s")
    return "; ".join(parts)
