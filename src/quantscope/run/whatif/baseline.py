"""The unedited and the float model, evaluated once on one set of samples for many edits."""

from quantscope.data import Samples
from quantscope.edit import Applied, Editor
from quantscope.progress import Progress
from quantscope.run.evaluate import Evaluation, evaluate, evaluate_outputs
from quantscope.run.runnable import Runnable, open_runnable
from quantscope.run.whatif.runner import EditedRunner


class Baseline:
    """Evaluations that edits are measured against; found once, when first asked for.

    `runner` runs the edited models.
    """

    def __init__(
        self,
        runnable: Runnable,
        editor: Editor,
        samples: Samples,
        *,
        int8_kernels: bool | None,
        threads: int,
        batch: int | None,
        kept_bytes_limit: int,
    ) -> None:
        self.samples = samples
        self.runner: EditedRunner = runnable.under_edits(
            editor, samples, batch=batch, kept_bytes_limit=kept_bytes_limit
        )
        self._runnable, self._editor = runnable, editor
        self._int8_kernels, self._threads, self._batch = int8_kernels, threads, batch
        self._base: Evaluation | None = None
        self._float: Evaluation | None = None

    def base(self, progress: Progress) -> Evaluation:
        """Evaluate the unedited model."""
        if self._base is None:
            outputs = self.runner.base(_named(progress, "the unedited model"))
            self._base = evaluate_outputs(outputs, self.samples, self._runnable)
        return self._base

    def float(self, progress: Progress) -> Evaluation | None:
        """Evaluate the float model in the same execution; None where none is known."""
        if self._float is None and self._editor.original is not None:
            self._float = evaluate(
                open_runnable(
                    self._editor.original,
                    execution=self._runnable.execution,
                    int8_kernels=self._int8_kernels,
                    threads=self._threads,
                ),
                self.samples,
                batch=self._batch,
                progress=_named(progress, "the float model"),
            )
        return self._float

    def edited(self, applied: Applied, progress: Progress) -> Evaluation:
        """Evaluate an edited model."""
        outputs = self.runner.edited(applied, _named(progress, "the edited model"))
        name = f"{self._runnable.name}, edited"
        return evaluate_outputs(
            outputs, self.samples, self._runnable, name=name, digest=applied.digest
        )


def _named(progress: Progress, what: str) -> Progress:
    """Report the same progress under another title."""
    return lambda _, done, total: progress(f"Evaluating {what}", done, total)
