"""The comparison graph in onnxruntime, its float half by faster kernels where no number shows it.

Optimized, onnxruntime lays the images of a convolution out in blocks: nearly twice as fast, and in
the last bits another sum. The quantized half must keep the bits of the reference execution, so the
optimized graph is read back: all its nodes must still be there. Whether the float half's other bits
can be told from the results is seen on the first batch, which runs both ways.
"""

import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from numpy.typing import NDArray

from quantscope.errors import BadModelError
from quantscope.run.compare_graph import ComparisonGraph, Probe
from quantscope.run.compare_merge import QUANTIZED
from quantscope.run.sessions import MOST_NODES_TO_PLAN, open_proto, reason_of, session_options

Array = NDArray[Any]

FEWEST_IMAGES = 256
"""With fewer, opening a second session costs more than it gains."""

_MOST_BYTES = 1 << 28
_TOLERANCE = 1e-4
"""Of an energy: 0.0004 dB."""
_FAINT = 1e-2
"""A channel with less than this share of what the others have may differ by more."""
_ENERGIES = ("signal", "error", "quantized_signal", "local_error")
_SOURCES = ("rounding", "clipping", "weights", "inherited", "first_minus_second", "kernel")

# Folded, dequantized weights would be constants, and their convolutions laid out in blocks too. The
# others find nothing to do here and take longer than the rest.
_NOT_OPTIMIZED = (
    *("ConstantFolding", "ConstantSharing", "CommonSubexpressionElimination"),
    *("Level1_RuleBasedTransformer", "Level2_RuleBasedTransformer", "TransposeOptimizer"),
)


class ComparisonSession:
    """Runs batches in any number of threads; which kernels it takes, the first one decides."""

    def __init__(self, graph: ComparisonGraph, *, model: str, images: int) -> None:
        self._graph, self._name = graph, model
        self._outputs = [output.name for output in graph.model.graph.output]
        self._lock = Lock()
        self._session: ort.InferenceSession | None = None
        self.is_faster = False
        """Whether the float half runs by the faster kernels."""
        if images < FEWEST_IMAGES or not _is_small(graph.model):
            self._session = _plain_session(graph)

    def run(self, given: Mapping[str, Array]) -> dict[str, Array]:
        if self._session is None:
            with self._lock:
                if self._session is None:
                    return self._decide(given)
        return self._run(self._session, given)

    def _decide(self, given: Mapping[str, Array]) -> dict[str, Array]:
        with ThreadPoolExecutor(1) as beside:
            waiting = beside.submit(self._run_faster, given)
            session = _plain_session(self._graph)
            values = self._run(session, given)
            faster, others = waiting.result()
        if faster is not None and _same_numbers(self._graph, values, others):
            session, self.is_faster = faster, True
        self._session = session
        return values

    def _run_faster(
        self, given: Mapping[str, Array]
    ) -> tuple[ort.InferenceSession | None, dict[str, Array]]:
        try:
            session = _faster_session(self._graph)
            return session, {} if session is None else self._run(session, given)
        except Exception:  # of onnxruntime, onnx or the file system: plain kernels serve
            return None, {}

    def _run(self, session: ort.InferenceSession, given: Mapping[str, Array]) -> dict[str, Array]:
        try:
            found = session.run(self._outputs, given)
        except Exception as error:  # onnxruntime's exceptions share no base class
            reason = reason_of(error)
            raise BadModelError(f"Comparing {self._name} failed while running: {reason}") from None
        return dict(zip(self._outputs, found, strict=True))


def _is_small(model: onnx.ModelProto) -> bool:
    return len(model.graph.node) <= MOST_NODES_TO_PLAN and model.ByteSize() <= _MOST_BYTES


def _plain_session(graph: ComparisonGraph) -> ort.InferenceSession:
    return open_proto(graph.model, session_options("reference", threads=1))


def _faster_session(graph: ComparisonGraph) -> ort.InferenceSession | None:
    """None where it cannot be had without touching the quantized half."""
    quantized = [node for node in graph.model.graph.node if node.name.startswith(QUANTIZED)]
    if any(a.HasField("g") or a.graphs for node in quantized for a in node.attribute):
        return None  # what is done to a graph inside a node would not be seen
    options = session_options("runtime", threads=1)
    # No integer kernels in place of what the file states.
    options.add_session_config_entry("session.disable_quant_qdq", "1")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "optimized.onnx"
        options.optimized_model_filepath = str(path)
        session = open_proto(graph.model, options, not_optimized=_NOT_OPTIMIZED)
        kept = {_wiring(node) for node in onnx.load(path).graph.node}
    return session if all(_wiring(node) in kept for node in quantized) else None


def _wiring(node: onnx.NodeProto) -> tuple[Any, ...]:
    return node.domain, node.op_type, tuple(node.input), tuple(node.output)


def _same_numbers(
    graph: ComparisonGraph, plain: Mapping[str, Array], other: Mapping[str, Array]
) -> bool:
    scores = graph.quantized_scores
    if not np.array_equal(plain[scores], other[scores]):
        return False
    with np.errstate(invalid="ignore", over="ignore"):
        return all(
            _same_sums(probe, _sums(probe, plain), _sums(probe, other)) for probe in graph.probes
        )


def _sums(probe: Probe, values: Mapping[str, Array]) -> dict[str, Array]:
    """Of the batch, [channels] each."""
    found = values[probe.output]
    if not probe.channels_last:
        found = found.transpose(0, 2, 1)
    return dict(zip(probe.rows, found.sum(axis=0, dtype=np.float64), strict=True))


def _same_sums(probe: Probe, plain: Mapping[str, Array], other: Mapping[str, Array]) -> bool:
    """What has no error must have none, what is not clipped must not be; NaN is never the same."""
    for name in ("error", "local_error", "clipped_low", "clipped_high"):
        if name in plain and not np.array_equal(plain[name] == 0, other[name] == 0):
            return False
    for name in (*_ENERGIES, *_SOURCES, *(f"inherited:{i}" for i in range(len(probe.leaves)))):
        if name in plain:
            unit = np.abs(plain[name if name in _ENERGIES else "error"])
            allowed = _TOLERANCE * np.maximum(unit, _FAINT * unit.mean())
            if not (np.abs(other[name] - plain[name]) <= allowed).all():
                return False
    return True
