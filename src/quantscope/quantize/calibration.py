"""Find the ranges of a float ONNX model's tensors over images, in memory that stays the same.

onnxruntime keeps every tensor of every image until it makes its histograms. Fed in chunks it
merges histograms instead, and the merged ones are others: their bins come from the first chunk.
Here the images are run twice: once for each tensor's extremes, once to count into bins that are
placed by those extremes. Counts add up exactly, so the ranges are those that onnxruntime finds
when it is given everything at once.
"""

import contextlib
import io
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx
import onnxruntime as ort
from numpy.typing import NDArray
from onnxruntime.quantization.calibrate import (
    CalibrationMethod,
    EntropyCalibrater,
    HistogramCollector,
    TensorData,
    TensorsData,
    entropy,
)
from onnxruntime.quantization.quant_utils import smooth_distribution

from quantscope.data import Feeds
from quantscope.errors import BadModelError
from quantscope.progress import Progress, silent
from quantscope.quantize.config import PtqConfig
from quantscope.quantize.images import CalibrationRows

Array = NDArray[Any]

VALUE_BYTES_A_BATCH = 256 << 20
"""The most that all values of a batch may take: they are in memory at once."""
_NO_RANGE = 1e30
"""The size from which on a number is a mask's (infinity, float32's least) and no range's."""


class QuickHistogramCollector(HistogramCollector):  # type: ignore[misc]
    """Finds onnxruntime's thresholds; 2,048 bins take a fifth of a second a tensor, not one."""

    def get_entropy_threshold(
        self, histogram: tuple[Any, ...], num_quantized_bins: int
    ) -> tuple[Array, Array]:
        counts, edges, lowest, highest = histogram[:4]
        middle = counts.size // 2
        widths = range(num_quantized_bins // 2, middle + 1)
        windows = [(middle - i, min(middle + i + 1, counts.size)) for i in widths]
        losses = [_divergence(counts, *window, levels=num_quantized_bins) for window in windows]
        start, stop = windows[int(np.argmin(losses))]
        return max(edges[start], lowest), min(edges[stop], highest)


def _divergence(counts: Array, start: int, stop: int, *, levels: int) -> float:
    """Give the KL divergence of the window, outliers at its ends, from its coarse form."""
    window = counts[start:stop]
    clipped = window.copy()
    clipped[0] += counts[:start].sum()
    clipped[-1] += counts[stop:].sum()
    merged = window.size // levels
    whole = levels * merged
    totals = window[:whole].reshape(levels, merged).sum(axis=1)
    totals[-1] += window[whole:].sum()
    filled = (clipped[:whole] != 0).reshape(levels, merged).sum(axis=1)
    # Counts again, not fractions: onnxruntime stores these quotients as integers.
    spread = np.divide(totals, filled, out=np.zeros(levels), where=filled != 0).astype(np.int64)
    coarse = np.zeros_like(clipped)
    coarse[:whole] = np.repeat(spread, merged)
    fine, approximate = smooth_distribution(clipped), smooth_distribution(coarse)
    if fine is None or approximate is None:
        return float("inf")
    return float(np.float32(entropy(fine, approximate)))


METHODS = {
    "minmax": CalibrationMethod.MinMax,
    "entropy": CalibrationMethod.Entropy,
    "percentile": CalibrationMethod.Percentile,
}
QUANTIZED_BINS = 128  # onnxruntime's own number for entropy


@dataclass(frozen=True)
class Extremes:
    """The extremes of all values that a tensor had; `count` is how many values there were."""

    lowest: Array
    highest: Array
    smallest_magnitude: Array
    count: int

    def merge(self, other: "Extremes") -> "Extremes":
        """Give the extremes of both; without values, a tensor's are zeros that do not count."""
        if 0 in (self.count, other.count):
            return self if self.count else other
        return Extremes(
            lowest=np.minimum(self.lowest, other.lowest),
            highest=np.maximum(self.highest, other.highest),
            smallest_magnitude=np.minimum(self.smallest_magnitude, other.smallest_magnitude),
            count=self.count + other.count,
        )

    @property
    def is_boundless(self) -> bool:
        """Say whether there are values that no range can hold beside others, as masks have them."""
        return bool(self.count and max(abs(self.lowest), abs(self.highest)) >= _NO_RANGE)


@dataclass(frozen=True)
class Ranges:
    """The ranges of all tensors: `data` as `quantize_static` takes them, `extremes` as seen.

    `boundless` are the tensors without a range, in the order in which they are made.
    """

    data: TensorsData
    extremes: dict[str, Extremes]

    @property
    def boundless(self) -> tuple[str, ...]:
        return tuple(name for name, found in self.extremes.items() if found.is_boundless)


def tensor_ranges(
    model: Path,
    config: PtqConfig,
    rows: CalibrationRows,
    *,
    threads: int = 0,
    progress: Progress = silent,
) -> Ranges:
    """Find the range of every float tensor; the rows are run once or twice."""
    method = METHODS[config.calibration or "minmax"]
    with tempfile.TemporaryDirectory(prefix="quantscope-") as folder:
        augmented = Path(folder) / "augmented.onnx"
        # Taken only to make outputs of all tensors that are quantized; it calibrates nothing.
        calibrator = EntropyCalibrater(model, None, str(augmented))
        calibrator.augment_graph()
        names = _in_order(calibrator.model.graph, calibrator.tensors_to_calibrate)
        session = _session(augmented, threads=threads)
        passes = 1 if method is CalibrationMethod.MinMax else 2
        tell = _Counter(progress, len(rows) * passes)
        most = _rows_at_once(session, names, rows)

        def tensors() -> Iterator[dict[str, Array]]:
            for batch in rows.batches(most):
                yield dict(zip(names, _run(session, names, batch.feeds), strict=True))
                tell(batch.samples)

        extremes = _extremes(tensors())
        _check_outputs(extremes, {value.name for value in onnx.load(model).graph.output})
        if method is CalibrationMethod.MinMax:
            found = {name: (e.lowest, e.highest) for name, e in extremes.items()}
        else:
            found = _histogram_ranges(tensors(), extremes, config)
    for name, (lowest, _) in found.items():
        if extremes[name].is_boundless:  # it gets no quantizer, but an entry is asked for
            found[name] = (np.zeros_like(lowest), np.zeros_like(lowest))
    data = {
        n: TensorData(lowest=np.array(lo), highest=np.array(hi)) for n, (lo, hi) in found.items()
    }
    return Ranges(data=TensorsData(method, data), extremes=extremes)


def _session(model: Path, *, threads: int) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = threads
    options.log_severity_level = 4  # errors are raised, and ours to phrase
    return ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])


def _rows_at_once(session: ort.InferenceSession, names: list[str], rows: CalibrationRows) -> int:
    """Find how many rows' values fit into memory at once, by running the first."""
    first = rows.first()
    value_bytes = sum(values.nbytes for values in _run(session, names, first.feeds))
    return max(1, VALUE_BYTES_A_BATCH * first.rows // max(value_bytes, 1))


def _check_outputs(extremes: dict[str, Extremes], outputs: set[str]) -> None:
    """Refuse a network whose own outputs are infinite; inside, masks may be."""
    if any(found.count and _is_infinite(found) for n, found in extremes.items() if n in outputs):
        first = next(name for name, found in extremes.items() if _is_infinite(found))
        raise BadModelError(_no_range(first))


def _is_infinite(found: Extremes) -> bool:
    return not (np.isfinite(found.lowest) and np.isfinite(found.highest))


def _no_range(name: str) -> str:
    return (
        f"Tensor '{name}' has infinite or NaN values for a calibration row, so it has no range; "
        "check the float model and the rows"
    )


def _in_order(graph: onnx.GraphProto, tensors: set[str]) -> list[str]:
    """Sort names as the graph makes them, so that the first that is wrong is named."""
    made = [value.name for value in graph.input]
    made += [name for node in graph.node for name in node.output]
    return [name for name in made if name in tensors]


class _Counter:
    """Reports progress over all passes."""

    def __init__(self, progress: Progress, total: int):
        self.progress, self.total, self.done = progress, total, 0
        progress("Calibrating", 0, total)

    def __call__(self, images: int) -> None:
        self.done += images
        self.progress("Calibrating", self.done, self.total)


def _run(session: ort.InferenceSession, names: list[str], feed: Feeds) -> list[Array]:
    try:
        return list(session.run(names, feed))
    except Exception as error:  # onnxruntime's exceptions share no base class of their own
        reason = str(error).strip().splitlines()[0]
        raise BadModelError(f"The float model failed while it was calibrated: {reason}") from None


def _extremes(batches: Iterator[dict[str, Array]]) -> dict[str, Extremes]:
    found: dict[str, Extremes] = {}
    for batch in batches:
        for name, values in batch.items():
            seen = _extremes_of(name, values)
            found[name] = found[name].merge(seen) if name in found else seen
    return found


def _extremes_of(name: str, values: Array) -> Extremes:
    if not values.size:
        zero = np.zeros((), values.dtype)
        return Extremes(zero, zero, zero, 0)
    if np.isnan(values).any():
        raise BadModelError(_no_range(name))
    return Extremes(values.min(), values.max(), np.abs(values).min(), values.size)


def _histogram_ranges(
    batches: Iterator[dict[str, Array]], extremes: dict[str, Extremes], config: PtqConfig
) -> dict[str, tuple[Array, Array]]:
    """Count into bins over all batches and let onnxruntime choose ranges by the counts."""
    symmetric = config.calibration == "percentile"  # it takes the percentile of magnitudes
    collector = QuickHistogramCollector(
        method=config.calibration,
        symmetric=symmetric,
        num_bins=config.histogram_bins,
        num_quantized_bins=QUANTIZED_BINS,
        percentile=config.percentile,
        scenario="same",
    )
    bins = config.histogram_bins or 0
    filled = {n: found for n, found in extremes.items() if found.count and not found.is_boundless}
    span = {name: _span(found, magnitudes=symmetric) for name, found in filled.items()}
    counts: dict[str, Array] = {}
    edges: dict[str, Array] = {}
    for batch in batches:
        for name, values in ((name, values) for name, values in batch.items() if name in span):
            seen = np.abs(values.ravel()) if symmetric else values.ravel()
            # Not Python floats: the bins' edges must have the tensor's own precision.
            low, high = cast(tuple[float, float], span[name])
            count, edges[name] = np.histogram(seen, bins, range=(low, high))
            counts[name] = counts[name] + count if name in counts else count
    for name, e in filled.items():
        shape = (counts[name], edges[name].astype(e.lowest.dtype), e.lowest, e.highest)
        collector.histogram_dict[name] = (*shape, span[name][1])
    with contextlib.redirect_stdout(io.StringIO()):  # it prints as it goes
        result = collector.compute_collection_result()
    found = {name: (values[0], values[1]) for name, values in result.items()}
    return {name: found.get(name, (e.lowest, e.highest)) for name, e in extremes.items()}


def _span(extremes: Extremes, *, magnitudes: bool) -> tuple[Array, Array]:
    """Give where the bins begin and end, as onnxruntime does for all images at once."""
    largest = np.maximum(np.abs(extremes.lowest), np.abs(extremes.highest))
    return (extremes.smallest_magnitude if magnitudes else -largest), largest
