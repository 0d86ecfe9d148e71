"""Draw SQNR along the network: of each quantizer alone, and of all that came together so far."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from math import floor

from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from quantscope.report.figures.layer_axis import (
    about,
    along_layers,
    finite,
    gid_of,
    left_out,
    mark_place,
    room_for,
    tensor_labels,
)
from quantscope.report.figures.style import (
    EDITED,
    QUANTIZED,
    ThemeName,
    dress,
    legend,
    new_figure,
    note,
    nothing_to_show,
    plain,
    theme_of,
)
from quantscope.run.compare import Comparison, TensorComparison

_TITLE = "SQNR along the network"


def sqnr_along(
    comparison: Comparison,
    edited: Comparison | None = None,
    *,
    labels: tuple[str, str] | None = None,
    counterparts: Mapping[str, TensorComparison] | None = None,
    theme: ThemeName = "light",
) -> Figure:
    """Draw every activation's SQNR: the network up to there (filled), its quantizer alone (hollow).

    A second comparison is laid over the first, tensors matched by name or by the float tensor that
    they stand for, or as `counterparts` has them by the first one's names; `labels` names the two,
    "before" and "after" if they are not given.
    """
    tensors = comparison.activations
    if not tensors:
        return nothing_to_show(
            _TITLE, f"No activation was compared.{left_out(comparison)}", theme=theme
        )
    labels_along = tensor_labels(tensors)
    figure = new_figure(4.5 + room_for(labels_along), theme=theme)
    axes = dress(
        figure.add_subplot(), title=_TITLE, y="signal to quantization noise (dB)", grid="y"
    )
    names = [plain(label, 40) for label in labels or ("before", "after")]
    _draw(axes, tensors, {t.name: t for t in tensors}, QUANTIZED)
    shown = [*tensors]
    if edited is not None:
        known = _counterparts(tensors, edited) if counterparts is None else counterparts
        others = {t.name: known[t.name] for t in tensors if t.name in known}
        _draw(axes, tensors, others, EDITED, shift=0.12)
        shown += others.values()
    for place, tensor in enumerate(tensors):
        if tensor.exact:
            mark_place(axes, place, "exact")
        elif tensor.sqnr_db is None:
            mark_place(axes, place, "not finite" if tensor.not_finite_images else "all zero")
    along_layers(axes, labels_along)
    _limit(axes, shown)
    has_local = any(tensor.local_sqnr_db is not None for tensor in shown)
    _explain(axes, names if edited else [], has_local=has_local)
    subject = about(comparison)
    if edited is not None:
        if labels != (comparison.model, edited.model):
            subject = f"{names[0]} is {subject}, {names[1]} is {about(edited)}"
        missing = len(tensors) - len(others)
        subject += f"; {missing} without a counterpart" if missing else ""
    hollow = "where filled is far below hollow, most of the error was there before this quantizer"
    note(
        figure,
        f"{subject}. 6 dB are one bit{f'; {hollow}' if has_local else ''}. Lines join what is made "
        f"of one another.{left_out(comparison)}",
    )
    return figure


def _counterparts(
    tensors: Sequence[TensorComparison], other: Comparison
) -> dict[str, TensorComparison]:
    by_name = {t.name: t for t in other.activations}
    by_float = {t.float_name: t for t in other.activations}
    found = ((t.name, by_name.get(t.name) or by_float.get(t.float_name)) for t in tensors)
    return {name: tensor for name, tensor in found if tensor is not None}


def _draw(
    axes: Axes,
    along: Sequence[TensorComparison],
    values: Mapping[str, TensorComparison],
    colour: str,
    *,
    shift: float = 0.0,
) -> None:
    """Draw marks for `values` at the places of `along`, and lines between them."""
    places = {t.name: place + shift for place, t in enumerate(along) if t.name in values}
    whole = {name: values[name].sqnr_db for name in places}
    local = {name: values[name].local_sqnr_db for name in places}
    points = {name: (places[name], height) for name, height in whole.items() if height is not None}
    lines = [[points[a], points[b]] for a, b in _steps(along) if a in points and b in points]
    axes.add_collection(LineCollection(lines, colors=colour, linewidths=1.4, zorder=3))
    for heights, face in ((whole, colour), (local, theme_of(axes).paper)):
        for tensor in along:
            height = heights.get(tensor.name)
            if height is not None:
                mark = _mark(colour, face, [places[tensor.name]], [height])
                mark.set_gid(gid_of(tensor))
                axes.add_line(mark)


def _mark(colour: str, face: str, x: Sequence[float] = (), y: Sequence[float] = ()) -> Line2D:
    return Line2D(
        x, y, marker="o", linestyle="", markersize=5.5, color=colour, markerfacecolor=face,
        markeredgewidth=1.3, zorder=4,
    )  # fmt: skip


def _explain(axes: Axes, names: Sequence[str], *, has_local: bool) -> None:
    """Say which is filled and which is hollow, and with two comparisons whose colour is which."""
    if not has_local and not names:
        return
    theme = theme_of(axes)
    neutral = theme.faint if names else QUANTIZED
    marks = [_mark(colour, colour) for colour, _ in zip((QUANTIZED, EDITED), names, strict=False)]
    words = [*names]
    if has_local:
        marks += [_mark(neutral, neutral), _mark(neutral, theme.paper)]
        words += ["network up to here", "this quantizer alone"]
    legend(axes, columns=2, handles=marks, labels=words)


def _steps(along: Sequence[TensorComparison]) -> Iterator[tuple[str, str]]:
    """Lead from each tensor to those made of it, as far as is known; else to the next."""
    known = {tensor.name for tensor in along}
    if not any(tensor.sources for tensor in along):
        yield from ((a.name, b.name) for a, b in pairwise(along))
    for tensor in along:
        inputs = tensor.sources.inherited_by_input if tensor.sources else {}
        yield from ((name, tensor.name) for name in inputs if name in known)


def _limit(axes: Axes, tensors: Sequence[TensorComparison]) -> None:
    values = finite(v for t in tensors for v in (t.sqnr_db, t.local_sqnr_db))
    if not values:
        axes.set_ylim(0, 50)
        return
    low = 5 * floor((min(values) - 2) / 5)
    axes.set_ylim(low, max(values) + max(2.0, 0.06 * (max(values) - low)))
    if low < 0:
        axes.axhline(0, color=theme_of(axes).ink, linewidth=0.9, zorder=1)
