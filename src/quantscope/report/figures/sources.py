"""Draw where each tensor's error comes from, as bars along the network."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator

from quantscope.report.figures.layer_axis import (
    about,
    along_layers,
    gid_of,
    left_out,
    mark_place,
    room_for,
    row_on_top,
    tensor_labels,
)
from quantscope.report.figures.style import (
    SOURCE_NAMES,
    ThemeName,
    dress,
    legend,
    new_figure,
    note,
    nothing_to_show,
    plain,
    theme_of,
)
from quantscope.run.compare import Comparison, ErrorSources, TensorComparison

_TITLE = "Where the error comes from"
_WIDTH = 0.78


class Part(NamedTuple):
    """One block of a bar. `share` is of the tensor's whole error; `name` a source, or an input."""

    source: str
    name: str
    share: float


def error_sources(
    comparison: Comparison, *, per_input: bool = False, theme: ThemeName = "light"
) -> Figure:
    """Draw each activation's error by source; shares that cancel others hang below zero.

    `per_input` splits what is inherited over the layer's inputs, hatched from the second on. Above
    each bar stands the SQNR, because all bars are the same height whatever the error's size.
    """
    tensors = comparison.activations
    if not tensors:
        return nothing_to_show(
            _TITLE, f"No activation was compared.{left_out(comparison)}", theme=theme
        )
    labels = tensor_labels(tensors)
    figure = new_figure(4.7 + room_for(labels), theme=theme)
    axes = dress(figure.add_subplot(), title=_TITLE, y="share of the error (%)", grid="y")
    stacks = [list(parts(t.sources, per_input=per_input)) if t.sources else [] for t in tensors]
    for place, (tensor, stack) in enumerate(zip(tensors, stacks, strict=True)):
        _stack(axes, place, tensor, stack)
    axes.axhline(0, color=theme_of(axes).ink, linewidth=0.9, zorder=3)
    _limit(axes, stacks)
    for place, tensor in enumerate(tensors):
        if tensor.sources is None:
            word = "exact" if tensor.exact else "not taken apart"
            mark_place(axes, place, word, bottom=1)
    along_layers(axes, labels)
    sqnr = ["" if t.sqnr_db is None else f"{t.sqnr_db:.1f}" for t in tensors]
    above = " Above the bars: SQNR in dB." if row_on_top(axes, sqnr) else ""
    axes.yaxis.set_major_locator(MaxNLocator(6))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}".replace("-", "−")))
    _explain(axes, stacks)
    note(
        figure,
        f"{about(comparison)}.{above}{_apart(tensors)}{left_out(comparison)}",
    )
    return figure


def parts(sources: ErrorSources, *, per_input: bool) -> Iterator[Part]:
    """Give the blocks from zero outwards, leaving out a source that does not apply."""
    inputs = sources.inherited_by_input
    if per_input and len(inputs) > 1:
        yield from (Part("inherited", name, share) for name, share in inputs.items())
    else:
        yield Part("inherited", "inherited", sources.inherited)
    yield Part("weights", "weights", sources.weights)
    yield Part("rounding", "rounding", sources.rounding)
    yield Part("clipping", "clipping", sources.clipping)
    if sources.kernel is not None:
        yield Part("kernel", "kernel", sources.kernel)


def _stack(axes: Axes, place: int, tensor: TensorComparison, stack: Sequence[Part]) -> None:
    """Stack the blocks of one bar; negative ones go below zero."""
    theme = theme_of(axes)
    above = below = 0.0
    for number, part in enumerate(stack):
        height = 100 * part.share
        bottom = above if height >= 0 else below
        is_later_input = part.source == "inherited" and number > 0
        (bar,) = axes.bar(
            place,
            height,
            _WIDTH,
            bottom,
            color=theme.sources[part.source],
            edgecolor=theme.paper,
            linewidth=0.5,
            hatch="////" if is_later_input else None,
            zorder=2,
        )
        bar.set_gid(gid_of(tensor))
        bar.set_label(f"{part.source}:{part.name}")
        above, below = (above + height, below) if height >= 0 else (above, below + height)


def _limit(axes: Axes, stacks: Sequence[Sequence[Part]]) -> None:
    tops = [sum(100 * part.share for part in stack if part.share > 0) for stack in stacks]
    bottoms = [sum(100 * part.share for part in stack if part.share < 0) for stack in stacks]
    low, high = min(bottoms, default=0.0), max([100.0, *tops])
    span = high - low
    axes.set_ylim(low - (0.03 * span if low < -0.5 else 0), high + 0.01 * span)


def _explain(axes: Axes, stacks: Sequence[Sequence[Part]]) -> None:
    """Draw a legend of the sources that occur, the first at the left as at the bottom."""
    theme = theme_of(axes)
    found = {part.source for stack in stacks for part in stack}
    handles = [
        Patch(facecolor=theme.sources[source], label=name)
        for source, name in SOURCE_NAMES.items()
        if source in found
    ]
    split = any(sum(part.source == "inherited" for part in stack) > 1 for stack in stacks)
    if split:
        colour = theme.sources["inherited"]
        hatched = Patch(facecolor=colour, edgecolor=theme.paper, hatch="////")
        hatched.set_label("inherited, other inputs")
        handles.insert(1, hatched)
    legend(axes, handles=handles, columns=len(handles) if len(handles) <= 5 else 3)


def _apart(tensors: Sequence[TensorComparison]) -> str:
    reasons = dict.fromkeys(
        t.no_sources for t in tensors if t.sources is None and not t.exact and t.no_sources
    )
    listed = "; ".join(plain(reason, 90) for reason in reasons)
    return f" Not taken apart: {listed}." if listed else ""
