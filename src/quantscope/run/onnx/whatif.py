"""ONNX models under edits: only what an edit can reach is run again."""

from functools import cached_property

import onnx

from quantscope.data import ImageSet
from quantscope.edit import AnyApplied, Applied, Editor
from quantscope.progress import Progress
from quantscope.run.classifier import open_classifier
from quantscope.run.evaluate import Evaluation, classify
from quantscope.run.onnx.classifier import open_onnx
from quantscope.run.onnx.suffix.graph import ValueGraph
from quantscope.run.onnx.suffix.runner import Scores, SuffixRunner
from quantscope.run.onnx.whatif_sqnr import SqnrReader
from quantscope.run.whatif.bench import Facts, Way
from quantscope.run.whatif.downstream import DownstreamSqnr
from quantscope.run.whatif.kernels import KernelChange, KernelWatch


class OnnxBackend:
    """`kept_bytes_limit` is for each set of images."""

    def __init__(self, editor: Editor, way: Way, kept_bytes_limit: int) -> None:
        self.editor, self.way, self.kept_bytes_limit = editor, way, kept_bytes_limit
        path = editor.file.path
        # Only its facts are kept: a session would hold threads and memory for nothing.
        opened = open_onnx(path, execution=way.execution, int8_kernels=way.int8_kernels, threads=1)
        self.facts = Facts(path.name, opened.digest, opened.gives_probabilities, opened.provenance)
        self.watch = KernelWatch(editor, int8_kernels=way.int8_kernels)

    def runner(self, images: ImageSet) -> "OnnxRunner":
        return OnnxRunner(self, images)


class OnnxRunner:
    """Runs suffixes; the last edited model's graph is kept for what is asked of it next."""

    def __init__(self, backend: OnnxBackend, images: ImageSet) -> None:
        self._backend, self._editor, self._way = backend, backend.editor, backend.way
        self.suffix = SuffixRunner(
            self._editor.base,
            images,
            execution=self._way.execution,
            int8_kernels=self._way.int8_kernels,
            threads=self._way.threads,
            batch=self._way.batch,
            kept_bytes=backend.kept_bytes_limit,
            name=self._editor.file.path.name,
        )
        self._last: tuple[onnx.ModelProto, ValueGraph] | None = None

    @property
    def kept_bytes(self) -> int:
        return self.suffix.kept_bytes

    def base(self, progress: Progress) -> Scores:
        scores = self.suffix.base_scores(progress)
        if not (self._editor.lifted and self._way.execution == "runtime"):
            return scores
        # What ships is the file itself; its QDQ form may be fused in another way.
        classifier = open_classifier(
            self._editor.file.path,
            execution="runtime",
            int8_kernels=self._way.int8_kernels,
            threads=self._way.threads,
        )
        return classify(classifier, self.suffix.images, batch=self._way.batch, progress=progress)

    def edited(self, applied: AnyApplied, progress: Progress) -> Scores:
        return self.suffix.scores_of(self.graph_of(applied), progress)

    def kernels_changed(self, applied: AnyApplied) -> tuple[KernelChange, ...]:
        if not applied.edits:
            return ()
        executed = self.graph_of(applied) if self._way.execution == "runtime" else None
        return self._backend.watch.changes(_onnx(applied).proto, executed)

    def downstream_sqnr(
        self, applied: AnyApplied, base: Evaluation, edited: Evaluation, progress: Progress
    ) -> DownstreamSqnr:
        return self._sqnr.read(_onnx(applied), base, edited, progress)

    def graph_of(self, applied: AnyApplied) -> ValueGraph:
        proto, last = _onnx(applied).proto, self._last
        if last is None or last[0] is not proto:
            last = self._last = proto, self.suffix.graph_of(proto)
        return last[1]

    @cached_property
    def _sqnr(self) -> SqnrReader:
        return SqnrReader(
            self._editor,
            self._way,
            self.suffix.parts,
            self.graph_of,
            gives_probabilities=self._backend.facts.gives_probabilities,
        )


def _onnx(applied: AnyApplied) -> Applied:
    assert isinstance(applied, Applied), "edits of an ONNX model come from its own editor"
    return applied
