"""Find what layers can be coloured by: a number and a colour for each, and a legend."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from math import log10
from typing import Any

import numpy as np

from quantscope.app.session import Session
from quantscope.model import Layer, QuantTensor
from quantscope.report import amount, format_signed, number
from quantscope.report.figures import BLUE, GREEN, ORANGE, VERMILLION
from quantscope.run import saturates_8bit_products
from quantscope.run.compare import TensorComparison

_STEPS = 24
_GREY = "#9aa3ad"
_KERNELS = {
    "integer": BLUE,
    "saturates": VERMILLION,
    "float": ORANGE,
    "fused": _GREY,
    "moves data": GREEN,
}


@dataclass(frozen=True)
class Metric:
    """A number for each node of the drawing, with its text and its colour, by the node's key.

    A node without a value has a text that says why. The legend is a ramp (`low`, `high`, `stops`)
    or a list of (name, colour), `classes`. `waiting` says why there are no numbers yet.
    """

    key: str
    label: str
    word: str
    texts: Mapping[str, str]
    values: Mapping[str, float] = field(default_factory=dict)
    colours: Mapping[str, str] = field(default_factory=dict)
    low: str = ""
    high: str = ""
    stops: tuple[str, ...] = ()
    classes: tuple[tuple[str, str], ...] = ()
    waiting: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


def metrics(session: Session) -> tuple[Metric, ...]:
    """Give the metrics in the order in which they are offered; unknown ones say `waiting`."""
    if session.opened.is_float:
        return tuple(_sizes(session))
    return (*_compared(session), *_stored(session), *_sensitivity(session), *_kernels(session))


def node_keys(session: Session) -> dict[str, Layer | None]:
    """Give the drawing's key of each layer, and of the inputs, which have none."""
    network = session.opened.network
    keys: dict[str, Layer | None] = {f"input{i}": None for i in range(len(network.inputs))}
    return keys | {f"layer{i}": layer for i, layer in enumerate(network.layers)}


def output_of(session: Session, key: str) -> QuantTensor | None:
    """Find the quantized tensor that a node writes; None where it is float."""
    network = session.opened.network
    if key.startswith("input"):
        return network.inputs[int(key.removeprefix("input"))].quant
    layer = network.layers[int(key.removeprefix("layer"))]
    return next((o.quant for o in layer.outputs if o.quant), None)


def _compared(session: Session) -> Iterator[Metric]:
    """Give what a comparison found of each node's output, as soon as there is one."""
    comparison = session.comparison
    failed = session.not_compared
    waiting = failed or ("" if comparison else "being compared")
    rows = {t.name: t for t in comparison.tensors} if comparison else {}
    found = {
        key: rows.get(tensor.name)
        for key in node_keys(session)
        if (tensor := output_of(session, key)) is not None
    }

    unseen = {each.name for each in comparison.unseen} if comparison else set()
    hidden = {
        key
        for key in node_keys(session)
        if (tensor := output_of(session, key)) is not None and tensor.name in unseen
    }

    def metric(
        key: str,
        label: str,
        read: Callable[[TensorComparison], float | None],
        show: Callable[[float], str],
    ) -> Metric:
        values = {
            place: value
            for place, row in found.items()
            if row is not None and (value := read(row)) is not None
        }
        blank = {p: "exact" for p, row in found.items() if row is not None and row.exact}
        # What a fused kernel keeps to itself has no value of its own.
        blank |= {p: "in a kernel" for p, row in found.items() if row is None and p in hidden}
        return _ramp(key, label, values, show, blank=blank, waiting=waiting)

    yield metric("sqnr", "SQNR", lambda t: t.sqnr_db, _decibels)
    yield metric("local_sqnr", "local SQNR", lambda t: t.local_sqnr_db, _decibels)
    yield metric("clipped", "clipped share", _clipped, lambda v: f"{100 * v:.2f} %")


def _stored(session: Session) -> Iterator[Metric]:
    scales: dict[str, float] = {}
    ranges: dict[str, float] = {}
    for key, layer in node_keys(session).items():
        output = output_of(session, key)
        if output is not None and output.params.is_per_tensor:
            scales[key] = float(output.params.scale)
        if layer is not None and layer.weight is not None:
            name = layer.weight.name
            ranges[key] = session.result(("weight range", name), partial(_largest, layer.weight))
    yield _ramp("scale", "scale of the output", scales, number, log=True)
    yield _ramp("weight_range", "weight range", ranges, lambda v: f"±{number(v)}", log=True)


def _sensitivity(session: Session) -> Iterator[Metric]:
    """Give how much of the logits' SQNR comes back with a layer's quantization off."""
    found = session.sensitivity
    failed = session.not_compared or session.failures.get("sensitivity")
    rows = {row.layer: row.sqnr_change_db for row in found.rows} if found else {}
    values = {}
    for key, layer in node_keys(session).items():
        output = output_of(session, key)
        name = layer.name if layer else (output.name if output else "")
        if (change := rows.get(name)) is not None:
            values[key] = change
    waiting = failed or ("" if found else "being measured")
    yield _ramp("sensitivity", "sensitivity", values, _change, waiting=waiting)


def _change(decibels: float) -> str:
    return f"{format_signed(decibels, '+.2f')} dB"


def _kernels(session: Session) -> Iterator[Metric]:
    if "runtime" not in session.opened.executions:
        return
    if session.kernels is None:
        yield Metric("kernel", "kernel", "kernel", {}, waiting="being read")
        return
    by_layer = {layer.name: layer for layer in session.kernels.layers}
    texts, colours, shown = {}, {}, {}
    here = saturates_8bit_products()
    for key, layer in node_keys(session).items():
        if layer is not None and (found := by_layer.get(layer.name)) is not None:
            name = "saturates" if found.saturates and here else found.kernel
            texts[key] = name
            colours[key] = shown[name] = _KERNELS[name]
    yield Metric("kernel", "kernel", "kernel", texts, colours=colours, classes=tuple(shown.items()))


def _sizes(session: Session) -> Iterator[Metric]:
    layers = {key: layer for key, layer in node_keys(session).items() if layer is not None}
    macs = {key: float(layer.macs) for key, layer in layers.items() if layer.macs}
    weights = {key: float(x.weight_bytes) for key, x in layers.items() if x.weight_bytes}
    yield _ramp("macs", "MACs", macs, lambda v: amount(int(v)))
    yield _ramp("weight_bytes", "weights", weights, lambda v: amount(int(v), "B"))


def _ramp(
    key: str,
    label: str,
    values: Mapping[str, float],
    show: Callable[[float], str],
    *,
    blank: Mapping[str, str] | None = None,
    log: bool = False,
    waiting: str = "",
) -> Metric:
    """Colour each value by its place between the least and the largest.

    `blank` has texts of nodes that have no value.
    """
    texts = {**(blank or {}), **{place: show(value) for place, value in values.items()}}
    if not values:
        return Metric(key, label, key, texts, waiting=waiting)
    low, high = min(values.values()), max(values.values())
    # A weight that is all zero has no logarithm.
    at = (lambda v: log10(max(v, 1e-30))) if log else float
    start, span = at(low), at(high) - at(low)
    return Metric(
        key=key,
        label=label,
        word=key,
        texts=texts,
        values=dict(values),
        colours={p: _colour((at(v) - start) / span if span else 0.5) for p, v in values.items()},
        low=show(low),
        high=show(high),
        stops=tuple(_colour(step / (_STEPS - 1)) for step in range(_STEPS)),
        waiting=waiting,
    )


def _colour(share: float) -> str:
    """Choose from purple to yellow, which all kinds of colour vision tell apart."""
    return _viridis()[round(255 * share)]


@cache
def _viridis() -> tuple[str, ...]:
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    return tuple(str(to_hex(colour)) for colour in colormaps["viridis"](range(256)))


def _decibels(value: float) -> str:
    return f"{value:.1f} dB"


def _clipped(row: TensorComparison) -> float | None:
    low, high = row.clipped_low_fraction, row.clipped_high_fraction
    return None if low is None or high is None else low + high


def _largest(weight: QuantTensor) -> float:
    values = weight.values()
    return float(np.abs(values).max()) if values.size else 0.0
