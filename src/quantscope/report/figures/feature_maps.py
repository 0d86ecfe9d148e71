"""Draw what one image becomes inside: float, quantized, and the difference, channel by channel."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Colormap
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from numpy.typing import NDArray

from quantscope.errors import BadConfigError
from quantscope.plain_text import many
from quantscope.report.figures.style import (
    NORMAL,
    SMALL,
    TITLE,
    WIDTH_INCHES,
    ThemedFigure,
    ThemeName,
    dress,
    new_figure,
    note,
    nothing_to_show,
    plain,
    theme_of,
)
from quantscope.run.capture import CapturedTensor

Values = NDArray[np.float64]

_MOST_CHANNELS = 8
_ACROSS, _TALLEST, _FLATTEST = 7.4, 1.7, 0.5
_MOST_TICKS = 32
_ROWS = ("float", "quantized", "difference")


def feature_maps(
    floats: CapturedTensor,
    quantized: CapturedTensor,
    *,
    image: int = 0,
    channels: Sequence[int] | None = None,
    channel_axis: int = 1,
    theme: ThemeName = "light",
) -> Figure:
    """Draw one image's values in both networks; columns are channels.

    `image` is a row of the captured values. Float and quantized share one colour scale, the
    difference (quantized minus float) has its own, symmetric about zero. Without `channels` the
    eight that differ most are shown, in their order. Without height and width it is one strip.
    """
    title = f"{plain(quantized.name, 40)}, float and quantized"
    maps = [_maps(t.values, image, channel_axis, t.name) for t in (floats, quantized)]
    if maps[0].size != maps[1].size:
        raise BadConfigError(
            f"{floats.name} has {maps[0].size} values an image and {quantized.name} "
            f"{maps[1].size}: they do not stand for one another"
        )
    f, q = maps[0].reshape(maps[1].shape), maps[1]
    if not (np.isfinite(f).any() and np.isfinite(q).any()):
        return nothing_to_show(title, "It has no finite values for this image.", theme=theme)
    difference = q - f
    chosen = _choose_channels(difference, channels)
    return _draw(
        title, (f[chosen], q[chosen], difference[chosen]), chosen, len(q), quantized, theme
    )


def _maps(values: Any, image: int, axis: int, name: str) -> Values:
    """Give one image's values as [channels, height, width].

    A vector becomes one channel of a single row. Dimensions between the channels and the width are
    joined.
    """
    if not 0 <= image < len(values):
        raise BadConfigError(
            f"{name} was captured for {many(len(values), 'image')}; there is no image {image}"
        )
    one = np.asarray(values[image], np.float64)
    if one.ndim < 3:
        return one.reshape(1, *((1, -1) if one.ndim < 2 else one.shape))
    # One less, since the images' own axis is gone.
    first = np.moveaxis(one, axis - 1, 0)
    return first.reshape(len(first), -1, first.shape[-1])


def _choose_channels(difference: Values, channels: Sequence[int] | None) -> list[int]:
    """Check the channels that were asked for, or choose those of the largest difference."""
    if channels is None:
        energy = np.nansum(difference**2, axis=(1, 2))
        worst = np.argsort(-energy, kind="stable")[:_MOST_CHANNELS]
        return sorted(int(channel) for channel in worst)
    bad = next((c for c in channels if not 0 <= c < len(difference)), None)
    if bad is not None:
        raise BadConfigError(f"There is no channel {bad}; choose from 0 to {len(difference) - 1}")
    if not channels:
        raise BadConfigError(f"No channel was chosen; choose from 0 to {len(difference) - 1}")
    return list(channels)


def _draw(
    title: str,
    rows: tuple[Values, Values, Values],
    channels: list[int],
    total: int,
    tensor: CapturedTensor,
    theme: ThemeName,
) -> Figure:
    """Draw the three rows of maps, [channels, height, width] each, below one another."""
    height, width = rows[0].shape[1:]
    gap = max(1, width // 12)
    cells = len(channels) * (width + gap) - gap
    side = float(np.clip(_ACROSS * height / cells, _FLATTEST, _TALLEST))
    needed = WIDTH_INCHES if height == 1 else 1.6 + side * cells / height
    figure = new_figure(1.7 + 3 * side, width=float(np.clip(needed, 5, WIDTH_INCHES)), theme=theme)
    figure.suptitle(
        title, x=0.01, ha="left", fontsize=TITLE, fontweight="bold", color=figure.theme.ink
    )
    low, high, shared = _shared_scale(rows[:2], figure)
    limit = _largest(rows[2]) or 1.0
    looks = ((low, high, shared), (low, high, shared), (-limit, limit, figure.theme.change))
    panels = figure.subplots(3, 1)
    images: list[AxesImage] = []
    for axes, values, name, look in zip(panels, rows, _ROWS, looks, strict=True):
        # One picture for all channels: an axes for each would take a second to lay out.
        image = axes.imshow(_beside(values, gap), cmap=look[2], vmin=look[0], vmax=look[1])
        image.set_interpolation("nearest")
        axes.set_aspect("auto" if height == 1 else "equal")
        _bare(axes, name)
        images.append(image)
    if total > 1:
        middles = [n * (width + gap) + (width - 1) / 2 for n in range(len(channels))]
        panels[0].xaxis.tick_top()
        panels[0].set_xticks(middles, [f"channel {channel}" for channel in channels])
    elif height == 1:
        _number(panels[2], width)
    _bar(figure, images[0], panels[:2], "value")
    _bar(figure, images[2], panels[2:], "quantized − float")
    note(figure, _explanation(rows, channels, total, tensor))
    return figure


def _beside(maps: Values, gap: int) -> Values:
    """Lay the maps side by side, with `gap` columns of NaN between, which are not drawn."""
    padded = np.pad(maps, ((0, 0), (0, 0), (0, gap)), constant_values=np.nan)
    return np.concatenate(list(padded), axis=1)[:, :-gap]


def _bare(axes: Axes, name: str) -> None:
    dress(axes, title="", y=name)
    axes.set_facecolor(theme_of(axes).grid)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _number(axes: Axes, count: int) -> None:
    places = range(0, count, -(-count // _MOST_TICKS))
    axes.set_xticks(places, [str(place) for place in places])
    axes.set_xlabel("channel", fontsize=NORMAL, color=theme_of(axes).ink)


def _shared_scale(rows: Sequence[Values], figure: ThemedFigure) -> tuple[float, float, Colormap]:
    """Give a scale from 0 where nothing is negative, else one symmetric about 0."""
    largest = max(_largest(values) for values in rows) or 1.0
    if all(np.nanmin(values) >= 0 for values in rows):
        return 0.0, largest, figure.theme.amount
    return -largest, largest, figure.theme.change


def _largest(values: Values) -> float:
    return float(np.abs(values[np.isfinite(values)]).max(initial=0.0))


def _bar(figure: ThemedFigure, image: AxesImage, panels: Any, label: str) -> None:
    ink = figure.theme.ink
    bar = figure.colorbar(image, ax=list(panels.flat), fraction=0.03, pad=0.015, aspect=18)
    bar.set_label(label, fontsize=SMALL, color=ink)
    bar.ax.tick_params(labelsize=SMALL, length=2, colors=ink)
    bar.outline.set_visible(False)


def _explanation(
    rows: tuple[Values, Values, Values], channels: list[int], total: int, tensor: CapturedTensor
) -> str:
    largest = _largest(rows[2])
    params = tensor.params
    parts = ["no difference" if not largest else f"largest difference {largest:.3g}"]
    if params is not None and params.is_per_tensor and params.is_integer:
        step = float(params.step)
        parts[0] += f", {largest / step:.2g} steps of {step:.3g}" if largest else ""
    if len(channels) < total:
        parts.append(f"{len(channels)} of {total} channels")
    lost = int((~np.isfinite(rows[2])).sum())
    if lost:
        parts.append(f"{lost:,} values that are not finite are left blank")
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}."
