"""Run ONNX models under edits: only what an edit can reach is run again."""

from functools import cached_property
from typing import TYPE_CHECKING

import onnx

from quantscope.data import Samples
from quantscope.edit import Applied, Editor
from quantscope.progress import Progress
from quantscope.run.evaluate import Evaluation
from quantscope.run.kernels import KernelChange
from quantscope.run.onnx.kernels import KernelWatch
from quantscope.run.onnx.suffix import SuffixRunner, ValueGraph
from quantscope.run.onnx.whatif_sqnr import SqnrReader
from quantscope.run.outputs import Outputs, gather_outputs
from quantscope.run.whatif import DownstreamSqnr

if TYPE_CHECKING:
    from quantscope.run.onnx.runnable import OnnxRunnable


class OnnxEditedRunner:
    """Runs suffixes; the last edited model's graph is kept for what is asked of it next."""

    def __init__(
        self,
        runnable: "OnnxRunnable",
        editor: Editor,
        samples: Samples,
        *,
        batch: int | None,
        kept_bytes_limit: int,
    ) -> None:
        self._runnable, self._editor, self._batch = runnable, editor, batch
        self.suffix = SuffixRunner(
            editor.base,
            samples,
            intake=runnable.intake,
            execution=runnable.execution,
            int8_kernels=runnable.int8_kernels,
            threads=runnable.threads,
            batch=batch,
            kept_bytes=kept_bytes_limit,
            name=runnable.name,
        )
        self._last: tuple[onnx.ModelProto, ValueGraph] | None = None

    @property
    def samples(self) -> Samples:
        return self.suffix.samples

    @property
    def kept_bytes(self) -> int:
        return self.suffix.kept_bytes

    def base(self, progress: Progress) -> Outputs:
        outputs = self.suffix.base_outputs(progress)
        if not (self._editor.lifted and self._runnable.execution == "runtime"):
            return outputs
        # What ships is the file itself; its QDQ form may be fused in another way.
        answers = gather_outputs(self._runnable, self.samples, batch=self._batch, progress=progress)
        return answers.outputs

    def run_edited(self, applied: Applied, progress: Progress) -> Outputs:
        return self.suffix.outputs_of(self.graph_of(applied), progress)

    def kernels_changed(self, applied: Applied) -> tuple[KernelChange, ...]:
        if not applied.edits:
            return ()
        executed = self.graph_of(applied) if self._runnable.execution == "runtime" else None
        return self._watch.changes(applied.proto, executed)

    def downstream_sqnr(
        self, applied: Applied, base: Evaluation, edited: Evaluation, progress: Progress
    ) -> DownstreamSqnr:
        return self._sqnr.read(applied, base, edited, progress)

    def graph_of(self, applied: Applied) -> ValueGraph:
        """Give what this execution runs for an edited model."""
        proto, last = applied.proto, self._last
        if last is None or last[0] is not proto:
            last = self._last = proto, self.suffix.graph_of(proto)
        return last[1]

    @cached_property
    def _watch(self) -> KernelWatch:
        return KernelWatch(
            self._runnable.model, self._editor, int8_kernels=self._runnable.int8_kernels
        )

    @cached_property
    def _sqnr(self) -> SqnrReader:
        return SqnrReader(self._runnable, self._editor, self.suffix.parts, self.graph_of)
