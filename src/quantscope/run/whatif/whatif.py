"""The effect of edits on a model, found again and again on the same images."""

import hashlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from quantscope.data import ImageSet
from quantscope.edit import AnyApplied, AnyEditor, Edit, ProgramEditor, open_editor
from quantscope.errors import BadConfigError, BadModelError
from quantscope.progress import Progress, silent
from quantscope.run.evaluate import Evaluation, paired
from quantscope.run.onnx.sessions import Execution
from quantscope.run.onnx.suffix.runner import KEPT_BYTES, SuffixRunner
from quantscope.run.onnx.whatif import OnnxBackend, OnnxRunner
from quantscope.run.whatif.bench import Backend, Bench, Way
from quantscope.run.whatif.downstream import DownstreamSqnr
from quantscope.run.whatif.effect import Effect, Prediction
from quantscope.run.whatif.evaluation import stratified
from quantscope.run.whatif.kernels import KernelChange

__all__ = ["DownstreamSqnr", "Effect", "KernelChange", "Prediction", "WhatIf"]

QUICK = 256


class WhatIf:
    """A quantized model, the float one it was made from, and images, opened once for many edits.

    Answers equal those of a whole run of the exported model. A quick answer takes `quick` images,
    classes in the set's proportions, always the same; a full one all of them. For one thread at a
    time.

    Of an ONNX model activations are kept between answers, see `SuffixRunner`: for quick and for
    full ones at most `kept_bytes_limit` each. A QOperator model is edited as QDQ. Unedited, its
    runtime execution is the file's own; edited, that of the edited QDQ form, and where the two run
    different kernels `kernels_changed` says so.

    A PT2E program (.pt2) has its reference execution only and is run whole for every answer;
    `threads` are those of its second answer, as in `compare`.
    """

    def __init__(
        self,
        model: str | Path,
        images: ImageSet,
        *,
        float_model: str | Path | None = None,
        execution: Execution = "reference",
        int8_kernels: bool | None = None,
        quick: int = QUICK,
        threads: int = 0,
        batch: int | None = None,
        kept_bytes_limit: int = KEPT_BYTES,
    ) -> None:
        self.editor: AnyEditor = open_editor(model, float_model)
        self.images, self.quick_images = images, stratified(images, quick)
        self.execution, self.int8_kernels = execution, int8_kernels
        self._way = Way(execution, int8_kernels, threads, batch)
        self._backend = _backend(self.editor, self._way, kept_bytes_limit)
        self._benches: dict[bool, Bench] = {}

    def answer(
        self, edits: Sequence[Edit], *, full: bool = False, progress: Progress = silent
    ) -> Effect:
        """Logits, accuracy, flips and kernels of the edited model; raises what `editor` refuses."""
        return self.effect_of(self.editor.apply(edits), full=full, progress=progress)

    def effect_of(
        self, applied: AnyApplied, *, full: bool = False, progress: Progress = silent
    ) -> Effect:
        """The same for edits that this object's `editor` has applied."""
        bench = self._bench(full)
        base, evaluation = self._evaluations(bench, applied, progress)
        of_float = bench.float(progress)
        return Effect(
            evaluation=evaluation,
            against_base=paired(evaluation, base),
            against_float=None if of_float is None else paired(evaluation, of_float),
            applied=applied,
            unchanged=bool(np.array_equal(evaluation.scores, base.scores, equal_nan=True)),
            find_kernels=partial(bench.runner.kernels_changed, applied),
        )

    def downstream_sqnr(
        self, edits: Sequence[Edit], *, full: bool = False, progress: Progress = silent
    ) -> DownstreamSqnr:
        """The second answer: SQNR of every activation against the float network, before and after.

        As `compare` finds them with `detail="sqnr"`; of an ONNX model only what lies downstream of
        the edits is run again. In runtime execution only what can be seen without changing the
        kernels is shown.
        """
        bench = self._bench(full)
        applied = self.editor.apply(edits)
        base, evaluation = self._evaluations(bench, applied, progress)
        return bench.runner.downstream_sqnr(applied, base, evaluation, progress)

    def suffix_runner(self, *, full: bool = False) -> SuffixRunner:
        """Who runs edited ONNX models, for what it keeps and how it answered last."""
        runner = self._bench(full).runner
        if not isinstance(runner, OnnxRunner):
            raise BadModelError(
                f"{self.editor.file.path.name} is a PyTorch program, which is run whole for every "
                f"answer; parts of models are run of ONNX files"
            )
        return runner.suffix

    @property
    def kept_bytes(self) -> int:
        """Of activations, for quick and full answers together."""
        return sum(bench.runner.kept_bytes for bench in self._benches.values())

    def _evaluations(
        self, bench: Bench, applied: AnyApplied, progress: Progress
    ) -> tuple[Evaluation, Evaluation]:
        """Of the unedited and the edited model."""
        if applied.base_digest != self.editor.file.digest:
            raise BadConfigError(
                f"These edits were applied to another model ({applied.base_digest[:12]}), not to "
                f"{self.editor.file.path.name} ({self.editor.file.digest[:12]}); apply them with "
                f"this what-if's own editor"
            )
        base = bench.base(progress)
        if not applied.edits:
            return base, base
        digest = hashlib.sha256(applied.to_bytes()).hexdigest()
        return base, bench.edited(applied, digest, progress)

    def _bench(self, full: bool) -> Bench:
        full = full or len(self.quick_images) == len(self.images)
        if full not in self._benches:
            images = self.images if full else self.quick_images
            self._benches[full] = Bench(self.editor, self._backend, self._way, images)
        return self._benches[full]


def _backend(editor: AnyEditor, way: Way, kept_bytes_limit: int) -> Backend:
    if isinstance(editor, ProgramEditor):
        from quantscope.run.torch.whatif import ProgramBackend

        return ProgramBackend(editor, way)
    return OnnxBackend(editor, way, kept_bytes_limit)
