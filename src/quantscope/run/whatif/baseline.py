"""The unedited and the float model, evaluated once on one set of samples for many edits."""

from threading import Lock

from quantscope.data import Samples
from quantscope.edit import Applied, Editor
from quantscope.model import Model
from quantscope.progress import Progress
from quantscope.run.evaluate import evaluate_float, evaluate_outputs
from quantscope.run.evaluation import Evaluation
from quantscope.run.measure import Measure, Outputs, pick_measure
from quantscope.run.runnable import Runnable
from quantscope.run.whatif.runner import EditedRunner


class Baseline:
    """Evaluations that edits are measured against; found once, when first asked for.

    `runner` runs the edited models. `measure` None means what the samples allow, as in `evaluate`.
    """

    def __init__(
        self,
        runnable: Runnable,
        editor: Editor,
        samples: Samples,
        *,
        measure: Measure | None,
        int8_kernels: bool | None,
        threads: int,
        batch: int | None,
        kept_bytes_limit: int,
    ) -> None:
        self.samples = samples
        self.runner: EditedRunner = runnable.under_edits(
            editor, samples, batch=batch, kept_bytes_limit=kept_bytes_limit
        )
        self._runnable, self._editor, self._measure = runnable, editor, measure
        self._int8_kernels, self._threads, self._batch = int8_kernels, threads, batch
        # Whoever shows an effect may be the first to ask for the float model.
        self._lock = Lock()
        self._base: Evaluation | None = None
        self._float: Evaluation | None = None

    def base(self, progress: Progress) -> Evaluation:
        """Evaluate the unedited model."""
        if self._base is None:
            outputs = self.runner.base(_titled(progress, "the unedited model"))
            if self._measure is None:
                self._measure = pick_measure(
                    outputs, self.samples, probabilities=self._runnable.gives_probabilities
                )
            self._base = self._judge(outputs, progress)
        return self._base

    def float(self, progress: Progress) -> Evaluation | None:
        """Evaluate the float model in the same execution; None where none is known or needed.

        A measure that compares with it takes the network with every quantizer off where no original
        is known.
        """
        _ = self.base(progress)
        return self._evaluate_float(progress)

    def run_edited(self, applied: Applied, progress: Progress) -> Evaluation:
        """Evaluate an edited model."""
        _ = self.base(progress)
        outputs = self.runner.run_edited(applied, _titled(progress, "the edited model"))
        return self._judge(
            outputs, progress, name=f"{self._runnable.name}, edited", digest=applied.digest
        )

    def _judge(
        self, outputs: Outputs, progress: Progress, *, name: str = "", digest: str = ""
    ) -> Evaluation:
        needs_floats = self._measure is not None and self._measure.needs_floats
        return evaluate_outputs(
            outputs,
            self.samples,
            self._runnable,
            measure=self._measure,
            floats=self._evaluate_float(progress) if needs_floats else None,
            name=name,
            digest=digest,
        )

    def _evaluate_float(self, progress: Progress) -> Evaluation | None:
        original = self._float_model()
        with self._lock:
            if self._float is None and original is not None:
                self._float = self._run_float(original, progress)
        return self._float

    def _run_float(self, original: Model, progress: Progress) -> Evaluation:
        return evaluate_float(
            self._runnable,
            self.samples,
            measure=self._measure,
            float_model=original,
            batch=self._batch,
            int8_kernels=self._int8_kernels,
            threads=self._threads,
            progress=progress,
        )

    def _float_model(self) -> Model | None:
        if self._measure is not None and self._measure.needs_floats:
            return self._editor.against[0]
        return self._editor.original


def _titled(progress: Progress, what: str) -> Progress:
    """Report the same progress under another title."""
    return lambda _, done, total: progress(f"Evaluating {what}", done, total)
