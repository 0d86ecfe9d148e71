"""Draw one tensor channel by channel: which of them carry the error."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from quantscope.arithmetic import QuantParams
from quantscope.report.figures.layer_axis import finite, gid_of
from quantscope.report.figures.style import (
    ERROR,
    QUANTIZED,
    SMALL,
    ThemeName,
    dress,
    legend,
    new_figure,
    note,
    nothing_to_show,
    plain,
    theme_of,
)
from quantscope.run.compare import ChannelComparison, TensorComparison

Array = NDArray[np.float64]
_MOST_BARS = 128


def channel_error(
    tensor: TensorComparison, *, params: QuantParams | None = None, theme: ThemeName = "light"
) -> Figure:
    """Draw SQNR and RMSE of every channel; the worst are named.

    `params` are the tensor's own: a weight with a scale for each channel needs them for the RMSE in
    steps. Without them it is in the weight's own unit.
    """
    title = f"Error by channel of {plain(tensor.name, 60)}"
    channels = tensor.channels
    if len(channels) < 2:
        return nothing_to_show(title, "It has no channels to tell apart.", theme=theme)
    if tensor.exact:
        return nothing_to_show(
            title, "It has no error: every value is represented exactly.", theme=theme
        )
    figure = new_figure(4.9, theme=theme)
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    _draw_sqnr(dress(top, title=title, y="SQNR (dB)", grid="y"), tensor)
    rmse = np.array([np.nan if c.rmse is None else c.rmse for c in channels])
    steps = _steps(tensor, rmse, params)
    unit = "value" if steps is None else "steps"
    dress(bottom, title="", x="channel", y=f"RMSE ({unit})", grid="y")
    _draw_rmse(bottom, tensor, rmse if steps is None else rmse / steps)
    if steps is not None and tensor.ideal_rmse_steps is not None:
        _draw_ideal(bottom, tensor.ideal_rmse_steps)
    margin = max(0.8, 0.008 * len(channels))
    bottom.set_xlim(-margin, len(channels) - 1 + margin)
    bottom.xaxis.set_major_locator(MaxNLocator(16, integer=True))
    note(figure, _sentence(tensor))
    return figure


def _draw_sqnr(axes: Axes, tensor: TensorComparison) -> None:
    """Draw SQNR by channel; activations also have that of their quantizer alone, hollow."""
    theme = theme_of(axes)
    worst = set(tensor.worst_channels)
    numbers = [c.channel for c in tensor.channels]
    whole = _heights(tensor.channels, "sqnr_db")
    colours = [ERROR if number in worst else QUANTIZED for number in numbers]
    # Marks shrink where there are many, so that neighbours stay apart.
    size = float(np.clip(1600 / len(numbers), 3, 26))
    if tensor.role == "activation":
        local = _heights(tensor.channels, "local_sqnr_db")
        axes.vlines(numbers, whole, local, color=theme.grid, linewidth=1.5, zorder=1)
        axes.scatter(
            numbers,
            local,
            s=0.8 * size,
            facecolors=theme.paper,
            edgecolors=colours,
            linewidths=1 if size > 10 else 0.5,
            label="this quantizer alone",
            zorder=2,
        )
    marks = axes.scatter(
        numbers,
        whole,
        s=size,
        color=colours,
        zorder=3,
        label="network up to here"
        if tensor.role == "activation"
        else f"rounding of the {tensor.role}",
    )
    marks.set_gid(gid_of(tensor))
    if tensor.sqnr_db is not None:
        axes.axhline(
            tensor.sqnr_db,
            color=theme.faint,
            linewidth=1,
            linestyle="--",
            zorder=1,
            label="whole tensor",
        )
    _name_worst(axes, tensor)
    for channel, height in zip(tensor.channels, whole, strict=True):
        # No error makes the SQNR infinite, which the result has as None.
        if np.isnan(height) and channel.rmse == 0:
            axes.text(
                channel.channel,
                0.02,
                "exact",
                rotation=90,
                ha="center",
                va="bottom",
                fontsize=SMALL - 1.5,
                color=theme.faint,
                transform=axes.get_xaxis_transform(),
            )
    axes.margins(y=0.26)
    axes.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    if np.isfinite(whole).any():
        legend(axes, columns=3)


def _name_worst(axes: Axes, tensor: TensorComparison) -> None:
    by_number = {c.channel: c for c in tensor.channels}
    for number in tensor.worst_channels:
        height = by_number[number].sqnr_db
        if height is not None:
            axes.annotate(
                f"{number}",
                (number, height),
                xytext=(0, -5),
                textcoords="offset points",
                ha="center",
                va="top",
                fontsize=SMALL,
                fontweight="bold",
                color=ERROR,
            )


def _draw_rmse(axes: Axes, tensor: TensorComparison, heights: Array) -> None:
    worst = set(tensor.worst_channels)
    numbers = [c.channel for c in tensor.channels]
    colours = [ERROR if number in worst else QUANTIZED for number in numbers]
    if len(numbers) > _MOST_BARS:  # one collection: a thousand bars take seconds
        width = 600 / len(numbers)
        lines = axes.vlines(numbers, 0, heights, colors=colours, linewidth=width, zorder=2)
        lines.set_gid(gid_of(tensor))
    else:
        for bar in axes.bar(numbers, np.nan_to_num(heights), 0.8, color=colours, zorder=2):
            bar.set_gid(gid_of(tensor))
    axes.set_ylim(bottom=0)


def _draw_ideal(axes: Axes, ideal: float) -> None:
    axes.axhline(
        ideal,
        color=theme_of(axes).ink,
        linewidth=1.2,
        linestyle=":",
        zorder=3,
        label=f"what rounding alone gives: {ideal:.3f}",
    )
    legend(axes, columns=1)


def _steps(tensor: TensorComparison, rmse: Array, params: QuantParams | None) -> Array | None:
    """Find the step of each channel; None where it is not known.

    Without `params`, one step for all channels follows from the whole tensor's two RMSEs.
    """
    if params is not None and not params.block_size:
        step = params.step
        if step.size in (1, rmse.size):
            return np.broadcast_to(step, rmse.shape)
    if tensor.role != "activation" or not tensor.rmse_steps or not np.isfinite(rmse).all():
        return None
    # Channels are of one size, so the mean of their squares is that of the whole tensor.
    return np.full(rmse.shape, np.sqrt((rmse**2).mean()) / tensor.rmse_steps)


def _heights(channels: Sequence[ChannelComparison], name: str) -> Array:
    return np.array([np.nan if (v := getattr(c, name)) is None else v for c in channels], float)


def _sentence(tensor: TensorComparison) -> str:
    values = finite(c.sqnr_db for c in tensor.channels)
    if not values:
        return "No channel has an error." if tensor.exact else "No channel has a finite SQNR."
    text = f"Median {np.median(values):.1f} dB, worst {min(values):.1f} dB"
    worst = ", ".join(map(str, tensor.worst_channels))
    return text + (f"; worst channels, lowest SQNR first: {worst}." if worst else ".")
