"""Find the scores of many variants of one network on the same images."""

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil, prod

import numpy as np
import onnxruntime as ort

from quantscope.data import Batch, Feeds, Intake, Samples
from quantscope.errors import BadModelError
from quantscope.model import Network
from quantscope.progress import Progress
from quantscope.run import Scores, cores, run_side_by_side
from quantscope.run.onnx import reason_of, session_of
from quantscope.run.onnx.suffix import ValueGraph, intake_of
from quantscope.study.sensitivity.graph import SharedGraph

# What the variants have in common should still be near the cores when they read it; measured.
_ACTIVATION_BYTES_A_BATCH = 2 << 20
_SMALLEST_BATCH, _LARGEST_BATCH = 4, 256


@dataclass(frozen=True)
class Sweep:
    """A run of variants over images; `threads` take a batch each, 0 means all cores."""

    images: Samples
    batch: int
    threads: int
    what: str
    progress: Progress

    def scores(self, variants: Iterable[tuple[str, ValueGraph]]) -> dict[str, Scores]:
        """Give one row an image for each variant, bit for bit those of running it alone."""
        graphs: list[tuple[Intake, SharedGraph]] = []
        for name, graph in variants:
            home = next((shared for _, shared in reversed(graphs) if shared.takes(graph)), None)
            if home is None:
                home = SharedGraph(graph)
                graphs.append((intake_of(graph.proto, name), home))
            home.add(name, graph)
        total, done = len(graphs) * len(self.images), 0
        found: dict[str, Scores] = {}
        for intake, shared in graphs:
            found |= self._run(intake, shared, done, total)
            done += len(self.images)
        return found

    def _run(self, intake: Intake, shared: SharedGraph, done: int, total: int) -> dict[str, Scores]:
        # Threads take whole batches: the operators are too short to share one between them.
        session = session_of(shared.model(), "reference", threads=1)
        names = list(shared.values)
        parts: list[list[Scores]] = []

        def run(batch: Batch) -> list[Scores]:
            feeds = dict(zip(shared.inputs, batch.feeds.values(), strict=True))
            found = _answer(session, names, feeds)
            return [_flat_rows(each, batch.rows)[: batch.samples] for each in found]

        batches = intake.batches(self.images, self.batch)
        for batch, scores in run_side_by_side(run, batches, threads=self.threads or cores()):
            parts.append(scores)
            done += batch.samples
            self.progress(self.what, done, total)
        joined = dict(zip(names, map(np.concatenate, zip(*parts, strict=True)), strict=True))
        return {variant: joined[values[0]] for variant, values in shared.outputs.items()}


def fitting_batch(network: Network, images: int, threads: int) -> int:
    """Choose a batch that keeps the largest activation small; batches are of about one size."""
    shapes = [t.shape for t in network.tensors if t.role == "activation" and t.shape]
    sizes = [prod(d for d in shape[1:] if isinstance(d, int)) for shape in shapes]
    fitting = _ACTIVATION_BYTES_A_BATCH // (4 * max(sizes, default=1) or 1)
    most = int(np.clip(min(fitting, ceil(images / threads)), _SMALLEST_BATCH, _LARGEST_BATCH))
    return ceil(images / ceil(images / most))


def _answer(session: ort.InferenceSession, names: list[str], feeds: Feeds) -> list[Scores]:
    try:
        found: list[Scores] = session.run(names, feeds)
    except Exception as error:  # onnxruntime's exceptions share no base class
        raise BadModelError(f"A variant of the model failed to run: {reason_of(error)}") from None
    return found


def _flat_rows(scores: Scores, images: int) -> Scores:
    """Give scores [N,10,1,1], left by a pooling, as [N,10]."""
    return scores.reshape(images, -1) if scores.ndim > 2 and len(scores) == images else scores
