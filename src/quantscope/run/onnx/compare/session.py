"""Run the comparison graph, its float half by faster kernels where no number shows it.

Optimized, onnxruntime lays the images of a convolution out in blocks: nearly twice as fast, and in
the last bits another sum. The quantized half must keep the bits of the reference execution, so the
optimized graph is read back: all its nodes must still be there. (They are not where it fuses some
of them, a Conv and its Relu or what is around a MaxPool; then plain kernels serve.) Whether the
float half's other bits can be told from the results is seen on a few images that run both ways.

In `benchmarks/speed_paths.py`, 1,000 images, all numbers and the SQNRs take 1.17 and 1.19 times
less CPU time, with 4,000 images 1.27 and 1.31; with 256 it gains nothing and loses nothing.
"""

import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from numpy.typing import NDArray

from quantscope.errors import BadModelError
from quantscope.run.compare import (
    CLIPPED,
    COUNTS,
    ENERGIES,
    FLOAT_ENDS,
    moved_to_zero,
    source_names,
)
from quantscope.run.onnx.compare.graph import ComparisonGraph, GraphProbe
from quantscope.run.onnx.compare.merge import QUANTIZED
from quantscope.run.onnx.sessions import open_proto, reason_of, session_of, session_options

Array = NDArray[Any]

FEWEST_IMAGES = 256
"""The number of images below which opening a second session costs more than it gains."""
TRIAL_IMAGES = 8

_MOST_NODES, _MOST_BYTES = 2000, 1 << 28
_TOLERANCE, _OF_A_CHANNEL = 1e-4, 1e-2
"""The differences allowed: of an energy 0.0004 dB, of a channel, perhaps eight values, 0.04 dB."""

# Folded, dequantized weights would be constants, and their convolutions laid out in blocks too. The
# others find nothing to do here and take longer than the rest.
_NOT_OPTIMIZED = (
    *("ConstantFolding", "ConstantSharing", "CommonSubexpressionElimination"),
    *("Level1_RuleBasedTransformer", "Level2_RuleBasedTransformer", "TransposeOptimizer"),
)


class ComparisonSession:
    """Runs batches in any number of threads. `trial` decides which kernels it takes.

    Without a trial they are plain ones.
    """

    def __init__(
        self, graph: ComparisonGraph, *, model: str, trial: Sequence[Mapping[str, Array]] = ()
    ) -> None:
        self._graph, self._name = graph, model
        self._outputs = [output.name for output in graph.model.graph.output]
        self.is_faster = False
        """It says whether the float half runs by the faster kernels."""
        if trial and _is_small(graph.model):
            self._session = self._choose(trial)
        else:
            self._session = session_of(graph.model, "reference", threads=1)

    def run(self, given: Mapping[str, Array]) -> dict[str, Array]:
        return self._run(self._session, given)

    def _choose(self, trial: Sequence[Mapping[str, Array]]) -> ort.InferenceSession:
        """Run the trial both ways, beside one another, and take the faster where none differs."""
        with ThreadPoolExecutor(1) as beside:
            waiting = beside.submit(self._try_faster, trial)
            plain = session_of(self._graph.model, "reference", threads=1)
            expected = [self._run(plain, given) for given in trial]
            faster, found = waiting.result()
        if faster is None:
            return plain
        pairs = zip(expected, found, strict=True)
        self.is_faster = all(_same_numbers(self._graph, *pair) for pair in pairs)
        return faster if self.is_faster else plain

    def _try_faster(
        self, trial: Sequence[Mapping[str, Array]]
    ) -> tuple[ort.InferenceSession | None, list[dict[str, Array]]]:
        try:
            session = _faster_session(self._graph)
            found = [] if session is None else [self._run(session, given) for given in trial]
        except Exception:  # of onnxruntime, onnx or the file system: plain kernels serve
            return None, []
        return session, found

    def _run(self, session: ort.InferenceSession, given: Mapping[str, Array]) -> dict[str, Array]:
        try:
            found = session.run(self._outputs, given)
        except Exception as error:  # onnxruntime's exceptions share no base class
            reason = reason_of(error)
            raise BadModelError(f"Comparing {self._name} failed while running: {reason}") from None
        return dict(zip(self._outputs, found, strict=True))


def _is_small(model: onnx.ModelProto) -> bool:
    return len(model.graph.node) <= _MOST_NODES and model.ByteSize() <= _MOST_BYTES


def _faster_session(graph: ComparisonGraph) -> ort.InferenceSession | None:
    """Open an optimized session; None where that would touch the quantized half."""
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
    if not all(np.array_equal(plain[name], other[name]) for name in graph.outputs.values()):
        return False
    with np.errstate(invalid="ignore", over="ignore"):
        for name in graph.float_outputs.values():
            f, g = (values[name].astype(np.float64) for values in (plain, other))
            if not (np.abs(g - f) <= _TOLERANCE * np.abs(f).max(initial=0)).all():
                return False
        return all(_same_sums(probe, plain, other) for probe in graph.probes)


def _same_sums(probe: GraphProbe, plain: Mapping[str, Array], other: Mapping[str, Array]) -> bool:
    """Compare a probe's sums: an error or clipping must be zero in both or in none; NaN differs."""
    mine, theirs = _sums(probe, plain), _sums(probe, other)
    for name in ("error", "local_error", *CLIPPED):
        if name in mine and not np.array_equal(mine[name] == 0, theirs[name] == 0):
            return False
    return all(
        (np.abs(theirs[name] - mine[name]) <= _OF_A_CHANNEL * unit).all()
        and np.abs(theirs[name] - mine[name]).sum() <= _TOLERANCE * unit.sum()
        for name, unit in _units(probe, mine, plain).items()
    )


def _units(
    probe: GraphProbe, sums: Mapping[str, Array], values: Mapping[str, Array]
) -> dict[str, Array]:
    """Give what a difference in each row is measured by, [channels] each."""
    units = {name: sums[name] for name in ENERGIES if name in sums}
    units |= dict.fromkeys(source_names(len(probe.leaves)), sums["error"])
    if probe.size_output is not None:
        channels = len(sums["error"])
        units |= dict.fromkeys(COUNTS, np.full(channels, values[probe.size_output] / channels))
        units |= dict.fromkeys(FLOAT_ENDS, np.abs([sums[end] for end in FLOAT_ENDS]).sum(axis=0))
    return {name: unit for name, unit in units.items() if name in sums}


def _sums(probe: GraphProbe, values: Mapping[str, Array]) -> dict[str, Array]:
    """Add up a probe's sums over the batch, [channels] each."""
    found = probe.by_sum(values[probe.output])
    if probe.size_output is not None:
        numbers = int(values[probe.size_output]) // max(found.shape[0] * found.shape[2], 1)
        found = moved_to_zero(found, probe.sum_names, numbers)
    sums = found.sum(axis=0, dtype=np.float64)
    return dict(zip(probe.sum_names, sums, strict=True))
