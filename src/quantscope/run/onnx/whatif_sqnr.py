"""Find the SQNR of every activation before and after edits, running only what they can reach.

The graph is `compare`'s: both networks, and beside each paired activation its signal and its error,
reduced. Of the quantized half, what the edits leave alone is kept already; of the float half, the
value that all downstream tensors depend on is kept, at most 64 kB an image.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat
from typing import TYPE_CHECKING

import numpy as np
import onnx

from quantscope.edit import Applied, Editor
from quantscope.errors import BadConfigError
from quantscope.model import Array
from quantscope.model.pairing import Pairing
from quantscope.progress import Progress
from quantscope.run.classes import class_scores
from quantscope.run.compare import (
    RESCALED,
    Comparison,
    RunningSums,
    ScoreKeeper,
    TensorComparison,
    Uncompared,
)
from quantscope.run.evaluate import Evaluation
from quantscope.run.onnx.compare import FLOAT, ComparisonGraph, GraphProbe, build_graph
from quantscope.run.onnx.narrow import behind_clips
from quantscope.run.onnx.suffix import (
    Digest,
    PartBatch,
    PartRunner,
    SizeLimits,
    ValueGraph,
    chain_of,
    executed_graph,
    frontier,
    value_graph,
)
from quantscope.run.onnx.visible import Visible, carry_over, find_visible
from quantscope.run.onnx.whatif_off import add_switched_off
from quantscope.run.whatif import (
    NOT_QUANTIZED,
    DownstreamSqnr,
    mark_unquantized,
    unseen_activations,
)

if TYPE_CHECKING:
    from quantscope.run.onnx.runnable import OnnxRunnable


_NO_CLASSES = "the first output has no row of scores for each sample"


@dataclass(frozen=True)
class _Measured:
    """The comparison of each tensor by name; `digests` say what each was computed from."""

    tensors: Mapping[str, TensorComparison]
    digests: Mapping[str, Digest]
    unseen: Mapping[str, str]
    not_finite: Mapping[str, str]
    float_scores: Sequence[Array]


class SqnrReader:
    """Reads SQNRs on one set of images, for one thread at a time.

    `graph_of` gives what is executed for edits.
    """

    def __init__(
        self,
        runnable: "OnnxRunnable",
        editor: Editor,
        parts: PartRunner,
        graph_of: Callable[[Applied], ValueGraph],
    ) -> None:
        self._runnable, self._editor = runnable, editor
        self._parts, self._graph_of = parts, graph_of
        self._limits = SizeLimits.of(parts.kept.limit, len(parts.samples))
        self._before: _Measured | None = None
        self._is_scored = False

    def read(
        self, applied: Applied, base: Evaluation, edited: Evaluation, progress: Progress
    ) -> DownstreamSqnr:
        """Compare both models with the float one, given their evaluations on these images."""
        if self._before is None:
            self._is_scored = class_scores(base.outputs) is not None
            self._before = self._measure(None, None, progress)
        before = after = self._before
        if applied.edits:
            after = self._measure(applied, before, progress)
        downstream = tuple(
            name
            for name, digest in after.digests.items()
            if before.digests.get(name) != digest and name in after.tensors
        )
        return DownstreamSqnr.between(
            self._comparison(before, base, before.float_scores),
            self._comparison(after, edited, before.float_scores),
            downstream,
        )

    @cached_property
    def _pairing(self) -> Pairing:
        original, pairing = self._editor.against
        if not pairing.outputs:
            model = self._editor.model
            raise BadConfigError(
                f"{original.name} and {model.name} have no output in common; "
                f"give the float model that {model.name} was made from"
            )
        return pairing

    @property
    def _float(self) -> onnx.ModelProto:
        return self._editor.against[0].as_onnx("compare").proto

    def _measure(
        self, applied: Applied | None, known: _Measured | None, progress: Progress
    ) -> _Measured:
        """Measure a model, the unedited one without `applied`; take what is as in `known` there."""
        proto = self._editor.base if applied is None else applied.proto
        seen = self._visible(applied) if self._runnable.execution == "runtime" else None
        names = self._names_in(proto)
        compared = build_graph(
            self._float,
            proto,
            self._editor.network,
            self._pairing,
            detail="sqnr",
            fed=None if seen is None else [n for n, file in names.items() if file in seen.sights],
        )
        off: frozenset[str] = frozenset()
        if seen is None:
            compared, off = add_switched_off(
                compared, self._editor.base, proto, self._editor.network, self._pairing
            )
        graph = value_graph(compared.model, given=compared.fed.values())
        digests = {probe.pair.name: graph.digests[probe.output] for probe in compared.probes}
        if seen is not None:
            # Integers are fed then, and the comparison's graph does not know what made them.
            digests = {name: own + seen.digest(names[name]) for name, own in digests.items()}
        old = {} if known is None else known.digests
        new = [p for p in compared.probes if old.get(p.pair.name) != digests[p.pair.name]]
        so_far = [RunningSums(probe) for probe in new]
        scores: list[Array] = []
        ends = [probe.output for probe in new]
        first = compared.float_outputs.get(self._runnable.model.outputs[0].name)
        if known is None and self._is_scored and first is not None:
            ends.append(first)
        # Of the unedited model all is measured, and nothing is cut for the next edit.
        may_cut = known is not None
        for batch in self._run(compared, graph, ends, new, seen, may_cut, progress) if ends else ():
            for each, probe in zip(so_far, new, strict=True):
                sums = probe.sums(batch.values)
                each.add(sums.statistics, sums.numbers, batch.rows, batch.samples)
            if first in ends:
                # A copy: onnxruntime's own array would hold on to all memory of its session.
                scores.append(batch.values[first][: batch.samples].copy())
        by_name = {a.probe.pair.name: a for a in so_far}
        found = (a.finish() for a in so_far if not a.mixed)
        tensors = {row.name: row for row in mark_unquantized(found, off)}
        not_finite = {name: a.not_finite(self._parts.samples) for name, a in by_name.items()}
        made = {name for node in proto.graph.node for name in node.output}
        unseen = {} if seen is None else {n: seen.unseen.get(f) for n, f in names.items()}
        unseen |= compared.unseen
        unseen |= {name: NOT_QUANTIZED for name, file in names.items() if file not in made}
        unseen = {name: why for name, why in unseen.items() if name not in off}
        unseen |= {name: a.mixed for name, a in by_name.items() if a.mixed}
        if known is not None:
            same = digests.keys() - by_name.keys()
            tensors |= {name: known.tensors[name] for name in same & known.tensors.keys()}
            unseen |= {name: known.unseen[name] for name in same & known.unseen.keys()}
            not_finite |= {name: known.not_finite[name] for name in same & known.not_finite.keys()}
        for pair, _ in self._editor.rescaled_by(() if applied is None else applied.edits):
            for name in pair.between:
                tensors.pop(name, None)
                unseen[name] = RESCALED
        return _Measured(tensors, digests, _said(unseen), _said(not_finite), scores)

    def _run(
        self,
        compared: ComparisonGraph,
        graph: ValueGraph,
        ends: list[str],
        new: list[GraphProbe],
        seen: Visible | None,
        may_cut: bool,
        progress: Progress,
    ) -> Iterator[PartBatch]:
        stored = self._parts.stored(graph)
        keep = self._float_cut(graph, new, stored) if may_cut else []
        part = self._parts.part(graph, frontier(graph, [*ends, *keep], stored), [*ends, *keep])
        given: Iterable[Mapping[str, Array]] = repeat({})
        if seen is not None:
            files = self._names_in(seen.proto)
            given = self._integers(
                seen, {files[p.pair.name]: compared.fed[p.pair.name] for p in new}
            )
        done = 0
        for batch in self._parts.run(part, keep, spare=keep, given=given):
            yield batch
            done += batch.samples
            progress("Comparing", done, len(self._parts.samples))

    def _float_cut(self, graph: ValueGraph, new: list[GraphProbe], stored: set[str]) -> list[str]:
        """Choose the float value to keep, so that the next edit here need not start before it."""
        needed = [FLOAT + probe.pair.float_name for probe in new]
        for value in chain_of(graph.proto.graph.node, graph.inputs, needed):
            if value in stored or graph.makers[value].op_type in ("Identity", "Cast"):
                break
            size = self._parts.sizes(graph, [value]).get(value)
            total = 0 if size is None else size.bytes_an_image * len(self._parts.samples)
            if size is not None and size.bytes_an_image <= self._limits.floats:
                return [value] if total <= self._parts.kept.limit else []
        return []

    def _integers(self, seen: Visible, fed: Mapping[str, str]) -> Iterator[dict[str, Array]]:
        """Run the optimized graph for the integers to feed, batch by batch."""
        graph, values = seen.graph, seen.values
        read = {values[name]: given for name, given in fed.items()}
        ends = list(read)
        part = self._parts.part(graph, frontier(graph, ends, self._parts.stored(graph)), ends)
        for batch in self._parts.run(part):
            yield {given: batch.values[value] for value, given in read.items()}

    def _names_in(self, proto: onnx.ModelProto) -> dict[str, str]:
        """Give the file's name for the integers of each paired activation, as others read them."""
        pairs = (pair.name for pair in self._pairing.pairs if pair.role == "activation")
        made = {name: self._editor.network.tensor(name).integer_names[0] for name in pairs}
        clipped = behind_clips(proto.graph.node)
        return {name: clipped.get(file, file) for name, file in made.items()}

    def _visible(self, applied: Applied | None) -> Visible:
        if applied is None:
            return self._base_visible
        made = {name for node in applied.proto.graph.node for name in node.output}
        names = [name for name in self._names_in(applied.proto).values() if name in made]
        plain = self._graph_of(applied)
        return carry_over(self._base_visible, applied.proto, plain, names) or find_visible(
            applied.proto, plain, names, int8_kernels=self._runnable.int8_kernels
        )

    @cached_property
    def _base_visible(self) -> Visible:
        editor, int8_kernels = self._editor, self._runnable.int8_kernels
        # What ships of a QOperator model is the file itself.
        proto = self._runnable.model.proto if editor.lifted else editor.base
        plain = executed_graph(proto, "runtime", int8_kernels=int8_kernels)
        names = list(self._names_in(proto).values())
        return find_visible(proto, plain, names, int8_kernels=int8_kernels)

    def _comparison(
        self, measured: _Measured, evaluation: Evaluation, float_scores: Sequence[Array]
    ) -> Comparison:
        pairing = self._pairing
        scores = ScoreKeeper(
            self._parts.samples,
            evaluation.execution,
            model=evaluation.model,
            probabilities=self._runnable.gives_probabilities,
        )
        first, own_scores = next(iter(evaluation.outputs.items()))
        if float_scores:
            ends = np.cumsum([len(part) for part in float_scores])[:-1]
            for floats, own in zip(float_scores, np.split(own_scores, ends), strict=True):
                scores.add({first: floats}, {first: own}, len(own), len(own))
        no_output = scores.no_classes or (None if float_scores else _NO_CLASSES)
        order = [tensor.name for tensor in self._editor.network.tensors]
        return Comparison(
            model=evaluation.model,
            digest=evaluation.digest,
            float_model=self._editor.against[0].name,
            float_digest=pairing.float_digest,
            execution=evaluation.execution,
            data=evaluation.data,
            data_digest=evaluation.data_digest,
            images=evaluation.images,
            tensors=tuple(measured.tensors[name] for name in order if name in measured.tensors),
            unpaired=tuple(Uncompared(u.name, u.role, u.reason) for u in pairing.unpaired),
            unseen=unseen_activations(measured.unseen),
            output=None if no_output else scores.finish(),
            not_finite_from=next(
                (measured.not_finite[n] for n in order if n in measured.not_finite), None
            ),
            provenance=evaluation.provenance,
            no_output=no_output,
            outputs=scores.outputs(),
            sample_word=evaluation.sample_word,
        )


def _said(reasons: Mapping[str, str | None]) -> dict[str, str]:
    return {name: why for name, why in reasons.items() if why}
