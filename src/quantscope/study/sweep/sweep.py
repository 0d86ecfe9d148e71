"""Find the outputs of many variants of one network on the same samples."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil, prod

import numpy as np
import onnxruntime as ort

from quantscope.data import Batch, Feeds, Intake, Samples
from quantscope.errors import BadModelError
from quantscope.model import Array, Network
from quantscope.progress import Progress
from quantscope.run import (
    Answers,
    Outputs,
    check_rows,
    cores,
    join_batches,
    may_go_one_by_one,
    run_side_by_side,
)
from quantscope.run.onnx import reason_of, session_of
from quantscope.run.onnx.suffix import ValueGraph, intake_of
from quantscope.study.sweep.graph import SharedGraph

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

    def outputs(self, variants: Iterable[tuple[str, ValueGraph]]) -> dict[str, Outputs]:
        """Give each variant's outputs by their names, bit for bit those of running it alone.

        An output that two variants compute alike is there once.
        """
        graphs: list[tuple[Intake, SharedGraph]] = []
        names: dict[str, tuple[str, ...]] = {}
        for name, graph in variants:
            home = next((shared for _, shared in reversed(graphs) if shared.takes(graph)), None)
            if home is None:
                home = SharedGraph(graph)
                graphs.append((intake_of(graph.proto, name), home))
            home.add(name, graph)
            names[name] = graph.outputs
        total, done = len(graphs) * len(self.images), 0
        found: dict[str, Outputs] = {}
        while graphs:
            intake, shared = graphs.pop(0)
            values = self._run(intake, shared, partial(self._report, done, total))
            for variant, given in shared.outputs.items():
                own = zip(names[variant], given, strict=True)
                found[variant] = {name: values[value] for name, value in own if value in values}
            done += len(self.images)
        return found

    def stream(
        self, variants: Iterable[tuple[str, ValueGraph]], total: int, *, at_once: int
    ) -> Iterator[tuple[str, Outputs]]:
        """Give each variant's outputs as soon as its graph ran; `total` counts the variants.

        No more than `at_once` are in memory. Neighbours are best alike: what a variant shares with
        one that went into an earlier graph runs again.
        """
        done = 0
        for shared, intake, names in _graphs(variants, at_once):
            report = partial(self._report_variants, done, len(names), total)
            values = self._run(intake, shared, report)
            for variant, given in shared.outputs.items():
                own = zip(names[variant], given, strict=True)
                yield variant, {name: values[value] for name, value in own if value in values}
            done += len(names)

    def _run(self, intake: Intake, shared: SharedGraph, report: Progress) -> Outputs:
        # Threads take whole batches: the operators are too short to share one between them.
        session = session_of(shared.model(), "reference", threads=1)
        size = intake.fixed_batch or self.batch
        answers = self._answers(session, intake, shared, size, report)
        if may_go_one_by_one(answers, intake, size):
            answers = self._answers(session, intake, shared, 1, report)
        return check_rows(answers, intake.model).outputs

    def _answers(
        self,
        session: ort.InferenceSession,
        intake: Intake,
        shared: SharedGraph,
        size: int,
        progress: Progress,
    ) -> Answers:
        def run(batch: Batch) -> dict[str, Array]:
            feeds = dict(zip(shared.inputs, batch.feeds.values(), strict=True))
            return dict(zip(shared.values, _answer(session, shared.values, feeds), strict=True))

        batches = intake.batches(self.images, size)
        done = run_side_by_side(run, batches, threads=self.threads or cores())
        return join_batches(
            ((values, batch.rows, batch.samples) for batch, values in done),
            len(self.images),
            size=size,
            model=intake.model,
            progress=progress,
        )

    def _report_variants(
        self, before: int, variants: int, total: int, what: str, done: int, rows: int
    ) -> None:
        del what
        self.progress(self.what, before + variants * done // max(rows, 1), total)

    def _report(self, before: int, total: int, what: str, done: int, rows: int) -> None:
        del what, rows
        self.progress(self.what, before + done, total)


def _graphs(
    variants: Iterable[tuple[str, ValueGraph]], at_once: int
) -> Iterator[tuple[SharedGraph, Intake, dict[str, tuple[str, ...]]]]:
    """Put variants into graphs, one graph at a time, and give each when it is full."""
    home: tuple[SharedGraph, Intake, dict[str, tuple[str, ...]]] | None = None
    for name, graph in variants:
        if home is not None and (len(home[2]) >= at_once or not home[0].takes(graph)):
            yield home
            home = None
        if home is None:
            home = SharedGraph(graph), intake_of(graph.proto, name), {}
        home[0].add(name, graph)
        home[2][name] = graph.outputs
    if home is not None:
        yield home


def fitting_batch(network: Network, images: int, threads: int) -> int:
    """Choose a batch that keeps the largest activation small; batches are of about one size."""
    shapes = [t.shape for t in network.tensors if t.role == "activation" and t.shape]
    sizes = [prod(d for d in shape[1:] if isinstance(d, int)) for shape in shapes]
    fitting = _ACTIVATION_BYTES_A_BATCH // (4 * max(sizes, default=1) or 1)
    most = int(np.clip(min(fitting, ceil(images / threads)), _SMALLEST_BATCH, _LARGEST_BATCH))
    return ceil(images / ceil(images / most))


def _answer(session: ort.InferenceSession, names: Sequence[str], feeds: Feeds) -> list[Array]:
    try:
        found: list[Array] = session.run(list(names), feeds)
    except Exception as error:  # onnxruntime's exceptions share no base class
        raise BadModelError(f"A variant of the model failed to run: {reason_of(error)}") from None
    return found
