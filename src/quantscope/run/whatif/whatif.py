"""The effect of edits on a model, found again and again on the same samples."""

from collections.abc import Sequence
from functools import partial

from quantscope.data import SamplesSource, samples_for, stratify
from quantscope.edit import Applied, Edit, Editor, open_editor
from quantscope.errors import BadConfigError
from quantscope.model import Execution, ModelSource
from quantscope.progress import Progress, silent
from quantscope.run.evaluate import MeasureSource
from quantscope.run.evaluation import Evaluation
from quantscope.run.evaluation_delta import EvaluationDelta, compare_evaluations
from quantscope.run.kernels import KernelChange
from quantscope.run.measure import find_measure
from quantscope.run.outputs import same_outputs
from quantscope.run.runnable import open_runnable
from quantscope.run.whatif.baseline import Baseline
from quantscope.run.whatif.downstream import DownstreamSqnr
from quantscope.run.whatif.effect import Effect, Prediction
from quantscope.run.whatif.runner import EditedRunner

__all__ = ["DownstreamSqnr", "Effect", "KernelChange", "Prediction", "WhatIf"]

KEPT_BYTES = 512 << 20
QUICK = 256


class WhatIf:
    """A quantized model, the float one it was made from, and images, opened once for many edits.

    Answers equal those of a whole run of the exported model. A quick answer takes `quick` images,
    classes in the set's proportions, always the same; a full one all of them. For one thread at a
    time.

    An `Editor` that is open already may be given in place of a model. `measure` None counts what
    the samples allow, as `evaluate` does.

    Of an ONNX model activations are kept between answers, see `SuffixRunner`: for quick and for
    full ones at most `kept_bytes_limit` each. A QOperator model is edited as QDQ. Unedited, its
    runtime execution is the file's own; edited, that of the edited QDQ form, and where the two run
    different kernels `kernels_changed` says so.

    A PT2E program (.pt2) has its reference execution only and is run whole for every answer;
    `threads` are those of its second answer, as in `compare`.
    """

    def __init__(
        self,
        model: ModelSource | Editor,
        images: SamplesSource,
        *,
        float_model: ModelSource | None = None,
        measure: MeasureSource | None = None,
        execution: Execution = "reference",
        int8_kernels: bool | None = None,
        quick: int = QUICK,
        threads: int = 0,
        batch: int | None = None,
        kept_bytes_limit: int = KEPT_BYTES,
    ) -> None:
        self.editor = open_editor(model, float_model)
        self.images = samples_for(self.editor.model, images)
        self.quick_images = stratify(self.images, quick)
        self.execution, self.int8_kernels = execution, int8_kernels
        runnable = open_runnable(
            self.editor.model, execution=execution, int8_kernels=int8_kernels, threads=threads
        )
        self._open_baseline = partial(
            Baseline,
            runnable,
            self.editor,
            measure=find_measure(measure) if isinstance(measure, str) else measure,
            int8_kernels=int8_kernels,
            threads=threads,
            batch=batch,
            kept_bytes_limit=kept_bytes_limit,
        )
        self._baselines: dict[bool, Baseline] = {}

    def answer(
        self,
        edits: Sequence[Edit],
        *,
        full: bool = False,
        kernels: bool = True,
        progress: Progress = silent,
    ) -> Effect:
        """Find outputs, score, flips and kernels of the edited model, or raise as `editor` does.

        Without `kernels`, which onnxruntime's optimizer has to be asked about, `kernels_of` may be
        asked later.
        """
        applied = self.editor.apply(edits)
        return self.effect_of(applied, full=full, kernels=kernels, progress=progress)

    def effect_of(
        self,
        applied: Applied,
        *,
        full: bool = False,
        kernels: bool = True,
        progress: Progress = silent,
    ) -> Effect:
        """Answer as `answer` does, for edits that this object's `editor` has applied."""
        baseline = self._baseline(full)
        base, evaluation = self._evaluations(baseline, applied, progress)
        return Effect(
            evaluation=evaluation,
            against_base=compare_evaluations(evaluation, base),
            applied=applied,
            unchanged=same_outputs(evaluation.outputs, base.outputs),
            against_float_of=partial(_against_float, baseline, evaluation),
            kernels_changed=baseline.runner.kernels_changed(applied) if kernels else None,
        )

    def kernels_of(self, applied: Applied, *, full: bool = False) -> tuple[KernelChange, ...]:
        """Name the layers that are executed otherwise than in the unedited model."""
        return self._baseline(full).runner.kernels_changed(applied)

    def downstream_sqnr(
        self, edits: Sequence[Edit], *, full: bool = False, progress: Progress = silent
    ) -> DownstreamSqnr:
        """Find the SQNR of every activation against the float network, before and after the edits.

        They are those of `compare` with `detail="sqnr"`; of an ONNX model only what lies downstream
        of the edits is run again. In runtime execution only what can be seen without changing the
        kernels is shown.
        """
        return self.sqnr_of(self.editor.apply(edits), full=full, progress=progress)

    def sqnr_of(
        self, applied: Applied, *, full: bool = False, progress: Progress = silent
    ) -> DownstreamSqnr:
        """Answer as `downstream_sqnr` does, for edits that this object's `editor` has applied."""
        baseline = self._baseline(full)
        base, evaluation = self._evaluations(baseline, applied, progress)
        return baseline.runner.downstream_sqnr(applied, base, evaluation, progress)

    def runner(self, *, full: bool = False) -> EditedRunner:
        """Give what runs edited models, for what it keeps and how it answered last."""
        return self._baseline(full).runner

    @property
    def kept_bytes(self) -> int:
        """The number of bytes of activations that are kept, for quick and full answers together."""
        return sum(baseline.runner.kept_bytes for baseline in self._baselines.values())

    def _evaluations(
        self, baseline: Baseline, applied: Applied, progress: Progress
    ) -> tuple[Evaluation, Evaluation]:
        """Evaluate the unedited and the edited model."""
        model = self.editor.model
        if applied.base_digest != model.digest:
            raise BadConfigError(
                f"These edits were applied to another model ({applied.base_digest[:12]}), not to "
                f"{model.name} ({model.digest[:12]}); apply them with this what-if's own editor"
            )
        base = baseline.base(progress)
        return (base, baseline.run_edited(applied, progress)) if applied.edits else (base, base)

    def _baseline(self, full: bool) -> Baseline:
        # A small set is its own quick one: the two share a baseline.
        full = full or len(self.quick_images) == len(self.images)
        if full not in self._baselines:
            samples = self.images if full else self.quick_images
            self._baselines[full] = self._open_baseline(samples)
        return self._baselines[full]


def _against_float(
    baseline: Baseline, evaluation: Evaluation, progress: Progress
) -> EvaluationDelta | None:
    of_float = baseline.float(progress)
    if of_float is None or of_float.scored is None:
        return None
    return compare_evaluations(evaluation, of_float)
