"""Draw the axis that runs along a network, the same in every figure that has it."""

from collections import Counter
from collections.abc import Iterable, Sequence

from matplotlib.axes import Axes

from quantscope.report.figures.style import SMALL, plain, theme_of
from quantscope.run.compare import Comparison, TensorComparison

MOST_SLANTED = 26
MOST_NAMES = 64
_LONGEST = 26
ALONG = "layers in the order in which they run"


def tensor_labels(tensors: Sequence[TensorComparison]) -> list[str]:
    """Give the layer's name where it has one output, else the tensor's."""
    outputs = Counter(tensor.layer for tensor in tensors)
    return [t.layer if t.layer and outputs[t.layer] == 1 else t.name for t in tensors]


def gid_of(tensor: TensorComparison) -> str:
    """Name what an artist of this tensor carries as its gid: the layer, or the input itself."""
    return tensor.layer or tensor.name


def along_layers(axes: Axes, names: Sequence[str], *, label: str = ALONG) -> None:
    """Set ticks at 0, 1, 2, ... with the names, thinned out where they would not fit."""
    margin = max(0.7, 0.008 * len(names))
    axes.set_xlim(-margin, len(names) - 1 + margin)
    every = -(-len(names) // MOST_NAMES)
    places = range(0, len(names), max(every, 1))
    shown = short_names(names)
    texts = [shown[place] for place in places]
    if len(names) <= MOST_SLANTED:
        axes.set_xticks(places, texts, rotation=38, ha="right", rotation_mode="anchor")
    else:
        axes.set_xticks(places, texts, rotation=90, fontsize=SMALL - 1.5)
    more = f"; every {_ordinal(every)} is named" if every > 1 else ""
    axes.set_xlabel(label + more, fontsize=SMALL, color=theme_of(axes).faint)


def short_names(names: Sequence[str]) -> list[str]:
    """Leave out the module that all lie in: `backbone/layer1/conv` becomes `layer1/conv`."""
    paths = [name.strip("/").split("/") for name in names if "/" in name.strip("/")]
    shared = 0
    if len(paths) > 1:
        shortest = min(map(len, paths)) - 1
        while shared < shortest and len({path[shared] for path in paths}) == 1:
            shared += 1
    return [
        plain("/".join(name.strip("/").split("/")[shared:]) if "/" in name else name, _LONGEST)
        for name in names
    ]


def room_for(names: Sequence[str]) -> float:
    """Give the inches of height that the names need beyond what those of a small network take."""
    longest = max((len(name) for name in short_names(names)), default=0)
    slanted = len(names) <= MOST_SLANTED
    return max(0.0, (longest - 15) * (0.045 if slanted else 0.06))


def _ordinal(number: int) -> str:
    ending = {2: "nd", 3: "rd"}.get(number, "th")
    return f"{number}{ending}"


def mark_place(axes: Axes, place: float, text: str, *, bottom: float | None = None) -> None:
    """Write a word where there is no number, upwards from the axes' bottom or from a value."""
    axes.text(
        place,
        0.02 if bottom is None else bottom,
        f" {text}",
        transform=axes.get_xaxis_transform() if bottom is None else axes.transData,
        rotation=90,
        ha="center",
        va="bottom",
        fontsize=SMALL,
        color=theme_of(axes).faint,
    )


def row_on_top(axes: Axes, texts: Sequence[str]) -> bool:
    """Write a text for each layer in a row above the data; give False where it has no room."""
    if len(texts) > MOST_SLANTED:
        return False
    low, high = axes.get_ylim()
    axes.set_ylim(low, high + 0.08 * (high - low))
    for place, text in enumerate(texts):
        axes.text(
            place,
            0.985,
            text.replace("-", "−"),
            transform=axes.get_xaxis_transform(),
            ha="center",
            va="top",
            fontsize=SMALL - 1,
            color=theme_of(axes).ink,
        )
    return True


def left_out(comparison: Comparison) -> str:
    """Write a sentence on the activations that have no number, empty if all have."""
    counts = [
        (sum(t.role == "activation" for t in group), text)
        for group, text in (
            (comparison.unseen, "cannot be seen without changing what runs"),
            (comparison.unpaired, "have no float counterpart"),
        )
    ]
    parts = [f"{count} more {text}" for count, text in counts if count]
    return f" {' and '.join(parts)}." if parts else ""


def about(comparison: Comparison) -> str:
    """Name what is shown: `resnet8-int8.onnx, reference execution, 1,000 images`."""
    images = f"{comparison.images:,} image{'' if comparison.images == 1 else 's'}"
    return f"{plain(comparison.model, 60)}, {comparison.execution} execution, {images}"


def finite(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]
