"""The effect of edits on a model, found again and again on the same images."""

import hashlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from quantscope.data import ImageSet
from quantscope.edit import Applied, Edit, Editor
from quantscope.progress import Progress, silent
from quantscope.run.classifier import find_onnx
from quantscope.run.evaluate import Evaluation, paired
from quantscope.run.onnx_classifier import open_onnx
from quantscope.run.sessions import Execution
from quantscope.run.suffix import SuffixRunner
from quantscope.run.whatif_bench import Bench, Facts, OnnxRunner, Way
from quantscope.run.whatif_effect import Effect, Prediction
from quantscope.run.whatif_evaluation import stratified
from quantscope.run.whatif_kernels import KernelChange, KernelWatch
from quantscope.run.whatif_sqnr import DownstreamSqnr, SqnrReader

__all__ = ["DownstreamSqnr", "Effect", "KernelChange", "Prediction", "WhatIf"]

QUICK = 256


class WhatIf:
    """A quantized model, the float one it was made from, and images, opened once for many edits.

    Answers equal those of a whole run of the exported model. A quick answer takes `quick` images,
    classes in the set's proportions, always the same; a full one all of them. Activations of the
    unedited model are kept between answers, see `SuffixRunner`. For one thread at a time.

    A QOperator model is edited as QDQ. Unedited, its runtime execution is the file's own; edited,
    that of the edited QDQ form, and where the two run different kernels `kernels_changed` says so.
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
    ) -> None:
        self.editor = Editor(find_onnx(model, "what-if"), float_model=float_model)
        self.images, self.quick_images = images, stratified(images, quick)
        self.execution, self.int8_kernels = execution, int8_kernels
        self._way = Way(execution, int8_kernels, threads, batch)
        path = self.editor.file.path
        # Only its facts are kept: a session would hold threads and memory for nothing.
        opened = open_onnx(path, execution=execution, int8_kernels=int8_kernels, threads=1)
        self._facts = Facts(path.name, opened.digest, opened.gives_probabilities, opened.provenance)
        self._watch = KernelWatch(self.editor, int8_kernels=int8_kernels)
        self._runners: dict[bool, OnnxRunner] = {}
        self._benches: dict[bool, Bench] = {}
        self._readers: dict[bool, SqnrReader] = {}

    def answer(
        self, edits: Sequence[Edit], *, full: bool = False, progress: Progress = silent
    ) -> Effect:
        """Logits, accuracy, flips and kernels of the edited model; raises what `Editor` refuses."""
        return self.effect_of(self.editor.apply(edits), full=full, progress=progress)

    def effect_of(
        self, applied: Applied, *, full: bool = False, progress: Progress = silent
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

        As `compare` finds them with `detail="sqnr"`; only what lies downstream of the edits is run
        again. In runtime execution only what can be seen without changing the kernels is shown.
        """
        full = self._is_full(full)
        bench = self._bench(full)
        if full not in self._readers:
            self._readers[full] = SqnrReader(
                self.editor,
                self._way,
                self._runners[full],
                gives_probabilities=self._facts.gives_probabilities,
            )
        applied = self.editor.apply(edits)
        base, evaluation = self._evaluations(bench, applied, progress)
        return self._readers[full].read(applied, base, evaluation, progress)

    def suffix_runner(self, *, full: bool = False) -> SuffixRunner:
        """Who runs edited models, for what it keeps and how it answered last."""
        self._bench(full)
        return self._runners[self._is_full(full)].suffix

    @property
    def kept_bytes(self) -> int:
        """Of activations, for quick and full answers together."""
        return sum(runner.suffix.kept_bytes for runner in self._runners.values())

    def _evaluations(
        self, bench: Bench, applied: Applied, progress: Progress
    ) -> tuple[Evaluation, Evaluation]:
        """Of the unedited and the edited model."""
        base = bench.base(progress)
        if not applied.edits:
            return base, base
        digest = hashlib.sha256(applied.to_bytes()).hexdigest()
        return base, bench.edited(applied, digest, progress)

    def _is_full(self, full: bool) -> bool:
        return full or len(self.quick_images) == len(self.images)

    def _bench(self, full: bool) -> Bench:
        full = self._is_full(full)
        if full not in self._benches:
            images = self.images if full else self.quick_images
            runner = OnnxRunner(self.editor, images, self._way, self._watch)
            self._runners[full] = runner
            self._benches[full] = Bench(self.editor, self._facts, self._way, runner, images)
        return self._benches[full]
