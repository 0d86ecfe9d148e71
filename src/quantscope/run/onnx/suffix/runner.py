"""Give the scores of an edited model, running only what the edit can change.

The edited graph is compared with the base's, value by value. From the latest value that is the same
in both, and that everything after it depends on, only the rest is run; the base's activations there
are kept. With graph optimizations off, a part of a graph computes what it computes in the whole. In
runtime execution it is the graph that onnxruntime's optimizer wrote for the whole edited model that
is compared and cut: the kernels are those of the whole model because they are its very nodes.
"""

from collections import OrderedDict
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from quantscope.data import Samples
from quantscope.model import Execution
from quantscope.progress import Progress, silent
from quantscope.run.evaluate import one_row_each
from quantscope.run.onnx.suffix.graph import (
    Digest,
    ValueGraph,
    executed_graph,
    frontier,
    intake_of,
    value_graph,
)
from quantscope.run.onnx.suffix.kept import Known
from quantscope.run.onnx.suffix.part import PartRunner
from quantscope.run.runnable import Scores

Array = NDArray[Any]
_ANSWERS = 32
_SIZES = 4096


@dataclass(frozen=True)
class SuffixRun:
    """The way in which the last answer was found.

    `starts` are the kept values that it was computed from, besides the images where `from_images`.
    `executed` of `nodes` operators ran; none where the scores were known already.
    """

    starts: tuple[str, ...]
    from_images: bool
    bytes_an_image: int
    executed: int
    nodes: int


class SuffixRunner:
    """Answers for edits of one base model on one set of images. For one thread at a time.

    The edited model may be any model with the same input. It is compared with the base and with the
    model before it, so that edits made on top of one another are cut late as well. Kept are the
    integers of every quantized value, and what everything goes through even where it is not
    quantized: each at most 20 kB an image, or 64 kB where the base is float there. What the last
    edited quantizers read is kept as well, and what the model before has of its own: four values
    at most. In all, at most `kept_bytes` are kept, those used longest ago going first. Models are
    not copied: do not change the base, or the last edited one, in place.
    """

    def __init__(
        self,
        base: onnx.ModelProto,
        images: Samples,
        *,
        execution: Execution = "reference",
        int8_kernels: bool | None = None,
        threads: int = 0,
        batch: int | None = None,
        kept_bytes: int = 512 << 20,
        name: str = "the model",
    ) -> None:
        self.execution, self.int8_kernels, self.name = execution, int8_kernels, name
        self.parts = PartRunner(
            intake_of(base, name),
            value_graph(base),
            images,
            batch=batch,
            threads=threads,
            kept_bytes=kept_bytes,
        )
        self.last_run: SuffixRun | None = None
        self._base = Known(self.graph_of(base), self.parts.sizes)
        self._recent: Known | None = None
        self._recent_sizes: dict[Digest, int | None] = {}
        self._base_scores: Scores | None = None
        self._answers: OrderedDict[Digest, Scores] = OrderedDict()

    @property
    def images(self) -> Samples:
        return self.parts.images

    def graph_of(self, edited: onnx.ModelProto) -> ValueGraph:
        """Give what this execution runs for a model."""
        return executed_graph(edited, self.execution, int8_kernels=self.int8_kernels)

    @property
    def base_graph(self) -> ValueGraph:
        return self._base.graph

    @property
    def kept_bytes(self) -> int:
        """The number of bytes of activations that are kept now."""
        return self.parts.kept.bytes

    @property
    def kept_bytes_an_image(self) -> dict[str, int]:
        """The bytes an image of each value of the base's graph that an edit can start from."""
        return dict(self._base.keepable)

    def base_scores(self, progress: Progress = silent) -> Scores:
        """Give one row an image; computed once, keeping the values that edits will start from.

        More of them than `kept_bytes` allows are kept one by one, when an edit asks for them.
        """
        if self._base_scores is None:
            cuts = self._base.keepable
            fits = sum(cuts.values()) * len(self.images) <= self.parts.kept.limit
            self._base_scores = self._run_from(
                [self._base.graph.input], self._base.graph, cuts if fits else (), progress
            )
        return self._base_scores

    def scores(self, edited: onnx.ModelProto, progress: Progress = silent) -> Scores:
        """Give the very bits of a whole run of `edited`; one row an image, read-only."""
        return self.scores_of(self.graph_of(edited), progress)

    def scores_of(self, graph: ValueGraph, progress: Progress = silent) -> Scores:
        """Give the scores of a model that `graph_of` was asked of."""
        base_scores = self.base_scores(progress)
        known = self._answers.get(graph.output_digest)
        if graph.output_digest == self._base.graph.output_digest:
            known = base_scores
        if known is not None:
            self.last_run = SuffixRun((), False, 0, 0, len(graph.proto.graph.node))
            return known
        stored = self.parts.stored(graph)
        cut = self._cut(graph)
        keep = [name for name in cut if name not in stored]
        starts = frontier(graph, [graph.output, *keep], stored) if keep else cut
        scores = self._run_from(starts, graph, keep, progress)
        self._recent = Known(graph, self.parts.sizes)
        self._answers[graph.output_digest] = scores
        if len(self._answers) > _ANSWERS:
            self._answers.popitem(last=False)
        return scores

    def _cut(self, graph: ValueGraph) -> tuple[str, ...]:
        """Choose kept or keepable values, and perhaps the input, to compute the output from."""
        sizes = {}
        for name in graph.dependent:
            digest = graph.digests[name]
            if digest in self.parts.kept:
                sizes[name] = self.parts.kept.bytes_of(digest) // len(self.images)
                continue
            size = self._size_of(digest)
            if size is not None and size * len(self.images) <= self.parts.kept.limit:
                sizes[name] = size
        several = frontier(graph, [graph.output], sizes)
        total = sum(sizes.get(name, 0) for name in several) * len(self.images)
        if total <= self.parts.kept.limit:
            return several
        # Too much to keep at once: cut where everything goes through one value.
        return frontier(graph, [graph.output], sizes.keys() & set(graph.chain))

    def _size_of(self, digest: Digest) -> int | None:
        """Give the bytes an image of a value of the base, or the model before; None if not kept."""
        if digest in self._base.digests:
            return self._base.size_of(digest)
        if self._recent is None or digest not in self._recent.digests:
            return None
        # A model has to be run to be measured; edits on top of one another share most values.
        if digest not in self._recent_sizes:
            while len(self._recent_sizes) >= _SIZES:
                self._recent_sizes.pop(next(iter(self._recent_sizes)))
            self._recent_sizes[digest] = self._recent.size_of(digest)
        return self._recent_sizes[digest]

    def _run_from(
        self,
        starts: Collection[str],
        graph: ValueGraph,
        keep: Collection[str],
        progress: Progress,
    ) -> Scores:
        """Give the scores, from kept values or from the images; the values `keep` are kept."""
        part = self.parts.part(graph, starts, [graph.output, *keep])
        batches: list[Array] = []
        done = 0
        spare = [name for name in keep if graph.digests[name] not in self._base.keepable_digests]
        for values, size, count in self.parts.run(part, keep, spare=spare):
            batches.append(one_row_each(values[graph.output], size, self.name)[:count])
            done += count
            progress("Evaluating", done, len(self.images))
        self.last_run = SuffixRun(
            tuple(part.kept),
            from_images=part.from_images,
            bytes_an_image=part.kept_bytes // len(self.images),
            executed=part.executed,
            nodes=len(graph.proto.graph.node),
        )
        scores = np.concatenate(batches)
        # The same array answers again when it is asked for again.
        scores.flags.writeable = False
        return scores
