"""Find how many bits each layer's accumulator needs: at worst, and as measured over images.

The inputs are the integers of the reference execution, the sums are exact. Nothing of an image is
kept but the extremes, so memory does not grow with their number.
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantscope.arithmetic import (
    AccumulatorBound,
    accumulator_bits,
    accumulator_bits_bound,
    bias_headroom_bits,
)
from quantscope.data import SamplesSource, samples_for
from quantscope.errors import BadModelError
from quantscope.model import ModelSource, open_model
from quantscope.model.onnx import OnnxModel
from quantscope.progress import Progress, silent
from quantscope.run.integers.compute import accumulate, operands_of, with_bias
from quantscope.run.integers.layer import COMPUTING_OPS, Array, IntegerLayer, integer_layer
from quantscope.run.runnable import open_runnable

NEAR_BITS = 30
"""A bias that needs this many of int32's bits is near overflow: two more bits and it wraps."""
_BATCH = 32
_NO_SUMS = "an Add rescales its two terms; nothing accumulates"


@dataclass(frozen=True)
class LayerAccumulator:
    """The accumulator of one layer, bias included; extremes over its channels.

    Worst case: any inputs within the `x_bits` and `w_bits` in use. `partial_bits` are enough for
    every partial sum in any order. `bias_bits` is what the largest bias needs by itself, None
    without an integer one; `bias_at_limit` counts biases at int32's very ends, where a quantizer
    clips them. `saturable_pairs` are pairs of neighbouring weights whose 16-bit sum can saturate on
    x86 without VNNI, None where the types cannot. Without weights in the file there is no bound.
    """

    layer: str
    op_type: str
    terms: int
    x_dtype: str
    w_dtype: str | None
    x_bits: int
    w_bits: int | None
    worst_low: int | None
    worst_high: int | None
    worst_bits: int | None
    worst_channel: int | None
    partial_bits: int | None
    measured_low: int
    measured_high: int
    measured_bits: int
    bias_bits: int | None
    bias_at_limit: int
    pairs: int | None
    saturable_pairs: int | None

    @property
    def can_overflow_int32(self) -> bool:
        return self.worst_bits is not None and self.worst_bits > 32

    @property
    def bias_near_overflow(self) -> bool:
        return self.bias_bits is not None and self.bias_bits >= NEAR_BITS

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {
            "can_overflow_int32": self.can_overflow_int32,
            "bias_near_overflow": self.bias_near_overflow,
        }


@dataclass(frozen=True)
class Accumulators:
    """The accumulators of a model's layers; `skipped` names layers without one, and why."""

    model: str
    digest: str
    data: str
    data_digest: str
    images: int
    layers: tuple[LayerAccumulator, ...]
    skipped: tuple[tuple[str, str], ...]

    def to_dict(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "digest": self.digest,
            "data": self.data,
            "data_digest": self.data_digest,
            "images": self.images,
            "layers": [layer.to_dict() for layer in self.layers],
            "skipped": [{"layer": name, "why": why} for name, why in self.skipped],
        }


def accumulators(
    model: ModelSource,
    data: SamplesSource,
    *,
    threads: int = 0,
    progress: Progress = silent,
) -> Accumulators:
    """Bound and measure the accumulators of every convolution, matrix product and average pool."""
    opened = open_model(model).as_onnx("accumulators")
    network = opened.network
    if not network.is_quantized:
        raise BadModelError(
            f"{opened.name} is a float model: it has no integer accumulators; give a quantized one"
        )
    data = samples_for(opened, data)
    specs, skipped = _specs(opened)
    if not specs:
        raise BadModelError(
            f"No convolution, matrix product or average pool of {opened.name} is all integers; "
            f"the first reason: {_first_reason(skipped)}"
        )
    extremes = {spec.layer.name: _Extremes() for spec in specs}
    names = dict.fromkeys(name for spec in specs for name in spec.activations)
    runnable = open_runnable(opened, execution="reference", threads=threads)
    reader = runnable.reader([network.tensor(name) for name in names])
    done = 0
    for feeds, _, count in runnable.intake.batches(data, _BATCH):
        given = {name: integers[:count] for name, integers in reader.read(feeds).items()}
        for spec in specs:
            total = with_bias(spec, accumulate(spec, operands_of(spec, given)))
            extremes[spec.layer.name].see(total)
        done += count
        progress("Measuring accumulators", done, len(data))
    return Accumulators(
        model=opened.name,
        digest=opened.digest,
        data=data.name,
        data_digest=data.digest,
        images=len(data),
        layers=tuple(_row(spec, extremes[spec.layer.name]) for spec in specs),
        skipped=tuple(skipped),
    )


def _first_reason(skipped: list[tuple[str, str]]) -> str:
    """Give a reason that is one: that of a layer which would accumulate."""
    reasons = [why for _, why in skipped if why != _NO_SUMS]
    return reasons[0] if reasons else "it has none"


class _Extremes:
    """The smallest and largest accumulator of one layer over all batches."""

    def __init__(self) -> None:
        self.low, self.high = 0.0, 0.0
        self.is_empty = True

    def see(self, total: NDArray[Any]) -> None:
        low, high = float(total.min()), float(total.max())
        self.low = low if self.is_empty else min(self.low, low)
        self.high = high if self.is_empty else max(self.high, high)
        self.is_empty = False


def _specs(model: OnnxModel) -> tuple[list[IntegerLayer], list[tuple[str, str]]]:
    """Describe the layers that accumulate integers; give the others with the reason."""
    network, graph = model.network, model.graph
    specs: list[IntegerLayer] = []
    skipped: list[tuple[str, str]] = []
    for layer in network.layers:
        if layer.op_type not in COMPUTING_OPS:
            continue
        if layer.op_type == "Add":
            skipped.append((layer.name, _NO_SUMS))
            continue
        try:
            specs.append(integer_layer(network, graph, layer))
        except BadModelError as error:
            skipped.append((layer.name, str(error)))
    return specs, skipped


def _row(spec: IntegerLayer, seen: _Extremes) -> LayerAccumulator:
    bound, terms = _bound(spec)
    # A bias stated as a real number leaves a fraction; the integer next to it needs the bits.
    low, high = int(np.floor(seen.low)), int(np.ceil(seen.high))
    worst = None
    if bound is not None:
        worst = int(np.argmax(np.maximum(-bound.lowest, bound.highest)))
    bias = spec.bias
    pairs, saturable = _saturable(spec)
    return LayerAccumulator(
        layer=spec.layer.name,
        op_type=spec.layer.op_type,
        terms=terms,
        x_dtype=spec.sides[0].params.dtype,
        w_dtype=spec.sides[1].params.dtype if len(spec.sides) > 1 else None,
        x_bits=spec.sides[0].params.bits,
        w_bits=spec.sides[1].params.bits if len(spec.sides) > 1 else None,
        worst_low=None if bound is None else int(bound.lowest.min()),
        worst_high=None if bound is None else int(bound.highest.max()),
        worst_bits=None if bound is None else int(bound.bits.max()),
        worst_channel=worst,
        partial_bits=None if bound is None else int(bound.partial_bits.max()),
        measured_low=low,
        measured_high=high,
        measured_bits=int(accumulator_bits(low, high)),
        bias_bits=None if bias is None else 32 - int(bias_headroom_bits(bias).min()),
        bias_at_limit=0 if bias is None else int(np.isin(bias, (-(2**31), 2**31 - 1)).sum()),
        pairs=pairs,
        saturable_pairs=saturable,
    )


def _bound(spec: IntegerLayer) -> tuple[AccumulatorBound | None, int]:
    """Bound a layer's accumulator and count its terms; None where no weights are stored."""
    x = spec.sides[0]
    ends: dict[str, Any] = {
        "qmin": x.params.qmin,
        "qmax": x.params.qmax,
        "x_zero_point": x.zero_point,
    }
    if spec.kind == "AveragePool":
        shape = spec.kernel_shape or (x.tensor.shape or ())[2:]
        sizes = [size for size in shape if isinstance(size, int)]
        taps = int(np.prod(sizes))
        if len(sizes) != len(shape) or not shape:
            return None, 0
        return accumulator_bits_bound(np.ones((1, taps), np.int64), **ends), taps
    filters = _filters(spec)
    if filters is None:
        return None, 0
    bias: Array | None = spec.bias
    if spec.real_bias is not None:
        bias = np.asarray(with_bias(spec, _zeros(spec, filters), whole=True)).reshape(-1)
    zero_point = spec.sides[1].params.zero_point.reshape(-1)
    return (
        accumulator_bits_bound(filters, w_zero_point=zero_point, bias=bias, **ends),
        filters.shape[1],
    )


def _zeros(spec: IntegerLayer, filters: Array) -> NDArray[np.int64]:
    """Give an accumulator of one position, to see a bias alone."""
    channels = len(filters)
    return np.zeros((1, channels, 1, 1) if spec.kind == "Conv" else (1, channels), np.int64)


def _filters(spec: IntegerLayer) -> Array | None:
    """Give weights [channels, terms] in the order in which kernels add; None if not stored."""
    w = spec.sides[1].data
    if w is None:
        return None
    if spec.kind == "Conv":
        # Innermost the channels, as kernels add them.
        return np.moveaxis(w, 1, -1).reshape(w.shape[0], -1)
    return w.T if w.ndim == 2 else None


def _saturable(spec: IntegerLayer) -> tuple[int | None, int | None]:
    """Count pairs of neighbouring int8 weights, and those whose 16-bit sums can saturate.

    int8 inputs count as well: onnxruntime on x86 may run them as uint8.
    """
    if spec.kind == "AveragePool" or spec.sides[0].params.type_bits != 8:
        return None, None
    filters = _filters(spec)
    if filters is None or filters.dtype != np.int8:
        return None, None
    depthwise = spec.kind == "Conv" and spec.attributes.group == len(filters)
    even = filters[:, : filters.shape[1] // 2 * 2]
    pairs = even.astype(np.int64).reshape(len(filters), -1, 2)
    # onnxruntime's kernel for these is another one, and exact.
    if depthwise and spec.sides[1].data is not None and spec.sides[1].data.shape[1] == 1:
        return pairs.shape[0] * pairs.shape[1], 0
    # The worst inputs: 255 at each weight of one sign, 0 at those of the other; or what the bits
    # in use leave of that.
    x = spec.sides[0].params
    shift = 128 if x.dtype == "int8" else 0
    least, most = x.qmin + shift, x.qmax + shift
    up, down = np.maximum(pairs, 0).sum(axis=2), np.minimum(pairs, 0).sum(axis=2)
    high = up * most + down * least > 32767
    low = down * most + up * least < -32768
    return high.size, int((high | low).sum())
