"""Give the outputs of an edited model, running only what the edit can change.

The edited graph is compared with the base's, value by value. From the latest value that is the same
in both, and that everything after it depends on, only the rest is run; the base's activations there
are kept. With graph optimizations off, a part of a graph computes what it computes in the whole. In
runtime execution it is the graph that onnxruntime's optimizer wrote for the whole edited model that
is compared and cut: the kernels are those of the whole model because they are its very nodes.
"""

from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import onnx

from quantscope.data import Intake, Samples
from quantscope.model import Execution
from quantscope.progress import Progress, silent
from quantscope.run.onnx.suffix.graph import (
    Digest,
    ValueGraph,
    chain_of,
    executed_graph,
    frontier,
    intake_of,
    value_graph,
)
from quantscope.run.onnx.suffix.kept import Known, SizeLimits
from quantscope.run.onnx.suffix.part import PartRunner
from quantscope.run.outputs import Answers, Outputs, check_rows, join_batches, may_go_one_by_one

_ANSWERS = 32
_SIZES = 4096


@dataclass(frozen=True)
class SuffixRun:
    """The way in which the last answer was found.

    `starts` are the kept values that it was computed from, `fed` the inputs that were fed.
    `executed` of `nodes` operators ran; none where the outputs were known already.
    """

    starts: tuple[str, ...]
    fed: tuple[str, ...]
    bytes_an_image: int
    executed: int
    nodes: int


class SuffixRunner:
    """Answers for edits of one base model on one set of samples. For one thread at a time.

    The edited model may be any model with the same inputs and outputs. It is compared with the base
    and with the model before it, so that edits made on top of one another are cut late as well.
    Kept are the integers of every quantized value, and what everything goes through even where it
    is not quantized: each at most 20 kB a sample, or 64 kB where the base is float there, and more
    where the samples are few. What the last edited quantizers read is kept as well, and what the
    model before has of its own: four values at most. In all, at most `kept_bytes` are kept, those
    used longest ago going first. Answers are kept too, at most 32 and as many bytes. Models are not
    copied: do not change the base, or the last edited one, in place.
    """

    def __init__(
        self,
        base: onnx.ModelProto,
        samples: Samples,
        *,
        intake: Intake | None = None,
        execution: Execution = "reference",
        int8_kernels: bool | None = None,
        threads: int = 0,
        batch: int | None = None,
        kept_bytes: int = 512 << 20,
        name: str = "the model",
    ) -> None:
        self.execution, self.int8_kernels, self.name = execution, int8_kernels, name
        self._open_parts = partial(
            PartRunner,
            intake or intake_of(base, name),
            value_graph(base),
            samples,
            threads=threads,
            kept_bytes=kept_bytes,
        )
        self.parts = self._open_parts(batch=batch)
        self.last_run: SuffixRun | None = None
        self._limits = SizeLimits.of(kept_bytes, len(samples))
        self._base = self._known(self.graph_of(base))
        self._recent: Known | None = None
        self._recent_sizes: dict[Digest, int | None] = {}
        self._base_outputs: Outputs | None = None
        self._answers: OrderedDict[Digest, Outputs] = OrderedDict()

    @property
    def samples(self) -> Samples:
        return self.parts.samples

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

    def base_outputs(self, progress: Progress = silent) -> Outputs:
        """Give the unedited model's outputs; computed once, keeping what edits will start from.

        Of what `kept_bytes` does not allow the largest are kept one by one, when an edit asks.
        """
        if self._base_outputs is None:
            graph = self._base.graph
            named = dict(zip(graph.outputs, graph.outputs, strict=True))
            keep = _as_fit(self._base.keepable, self.parts.kept.limit // len(self.samples))
            found = self._run_from(graph.inputs, graph, named, keep, progress)
            if may_go_one_by_one(found, self.parts.intake, self.parts.batch):
                self.parts = self._open_parts(batch=1)
                found = self._run_from(graph.inputs, graph, named, keep, progress)
            self._base_outputs = check_rows(found, self.name).outputs
        return self._base_outputs

    def outputs(self, edited: onnx.ModelProto, progress: Progress = silent) -> Outputs:
        """Give the very bits of a whole run of `edited`; read-only, under the base's names."""
        return self.outputs_of(self.graph_of(edited), progress)

    def outputs_of(self, graph: ValueGraph, progress: Progress = silent) -> Outputs:
        """Give the outputs of a model that `graph_of` was asked of."""
        found = dict(self.base_outputs(progress))
        base = self._base.graph
        known = self._answers.get(graph.output_digest)
        if graph.output_digest == base.output_digest:
            known = self._base_outputs
        if known is not None:
            self.last_run = SuffixRun((), (), 0, 0, len(graph.proto.graph.node))
            return known
        names = zip(base.outputs, graph.outputs, strict=True)
        # Other outputs are not what the edits reach.
        changed = {
            own: name
            for own, name in names
            if own in found and graph.digests[name] != base.digests[own]
        }
        stored = self.parts.stored(graph)
        ends = list(changed.values())
        cut = self._cut(graph, ends)
        keep = [name for name in cut if name not in stored and name not in graph.inputs]
        starts = frontier(graph, [*ends, *keep], stored) if keep else cut
        found |= self._run_from(starts, graph, changed, keep, progress).outputs
        self._recent = self._known(graph)
        self._answers[graph.output_digest] = found
        while len(self._answers) > _ANSWERS or self._answer_bytes > self.parts.kept.limit:
            self._answers.popitem(last=False)
        return found

    @property
    def _answer_bytes(self) -> int:
        """The bytes of the answers that are kept, but for outputs that they share with the base."""
        shared = {id(array) for array in (self._base_outputs or {}).values()}
        return sum(
            array.nbytes
            for answer in self._answers.values()
            for array in answer.values()
            if id(array) not in shared
        )

    def _known(self, graph: ValueGraph) -> Known:
        return Known(graph, self.parts.sizes, self._limits)

    def _cut(self, graph: ValueGraph, ends: Sequence[str]) -> tuple[str, ...]:
        """Choose kept or keepable values, and perhaps inputs, to compute these outputs from."""
        sizes = {}
        for name in graph.dependent:
            digest = graph.digests[name]
            if digest in self.parts.kept:
                sizes[name] = self.parts.kept.bytes_of(digest) // len(self.samples)
                continue
            size = self._size_of(digest)
            if size is not None and size * len(self.samples) <= self.parts.kept.limit:
                sizes[name] = size
        several = frontier(graph, ends, sizes)
        total = sum(sizes.get(name, 0) for name in several) * len(self.samples)
        if total <= self.parts.kept.limit:
            return several
        # Too much to keep at once: cut where everything goes through one value.
        chain = chain_of(graph.proto.graph.node, graph.inputs, ends)
        return frontier(graph, ends, sizes.keys() & set(chain))

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
        ends: Mapping[str, str],
        keep: Collection[str],
        progress: Progress,
    ) -> Answers:
        """Give outputs, `ends` by the base's name, from kept values or from the samples.

        The values `keep` are kept.
        """
        part = self.parts.part(graph, starts, [*ends.values(), *keep])
        spare = [name for name in keep if graph.digests[name] not in self._base.keepable_digests]
        answers = join_batches(
            (
                ({own: values[name] for own, name in ends.items()}, rows, count)
                for values, rows, count in self.parts.run(part, keep, spare=spare)
            ),
            len(self.samples),
            size=self.parts.batch,
            model=self.name,
            progress=progress,
        )
        self.last_run = SuffixRun(
            tuple(part.kept),
            fed=part.fed,
            bytes_an_image=part.kept_bytes // len(self.samples),
            executed=part.executed,
            nodes=len(graph.proto.graph.node),
        )
        for array in answers.outputs.values():
            # The same array answers again when it is asked for again.
            array.flags.writeable = False
        return answers


def _as_fit(sizes: Mapping[str, int], most: int) -> list[str]:
    """Take as many values as fit into so many bytes a sample, leaving the largest out."""
    left_out = 0
    total = sum(sizes.values())
    order = sorted(sizes, key=lambda name: -sizes[name])
    while total > most:
        total -= sizes[order[left_out]]
        left_out += 1
    chosen = set(order[left_out:])
    return [name for name in sizes if name in chosen]
