"""How far a network's outputs are from its float original's, under one list of edits or another."""

from collections.abc import Sequence

from quantscope.cure.readings import Readings
from quantscope.edit import Edit
from quantscope.progress import Progress, silent
from quantscope.run import (
    Outputs,
    WhatIf,
    finite_rows,
    gather_outputs,
    match_floats,
    open_runnable,
    sqnr_of_outputs,
)


class OutputError:
    """Holds the edits that are taken so far, and tries others on top of them.

    What is measured is the SQNR of all outputs on the calibration samples.
    """

    def __init__(
        self, readings: Readings, edits: Sequence[Edit], progress: Progress = silent
    ) -> None:
        self._progress, self._edits = progress, list(edits)
        editor, samples = readings.editor, readings.samples
        self._what_if = WhatIf(editor, samples, quick=len(samples), measure="signal")
        outputs = self._outputs(edits)
        floats = gather_outputs(
            open_runnable(readings.original, execution="reference"), samples, progress=progress
        ).outputs
        self._floats = match_floats(
            outputs, floats, model=editor.model.name, float_model=readings.original.name
        )
        self._kept = finite_rows(self._floats)
        self.sqnr_db = self._sqnr_db(outputs)

    def best(self, tried: Sequence[Sequence[Edit]]) -> int | None:
        """Take the edits that bring the outputs nearest, and say which; None if none does."""
        found: int | None = None
        for place, edits in enumerate(tried):
            value = self._sqnr_db(self._outputs([*self._edits, *edits]))
            if value is not None and (self.sqnr_db is None or value > self.sqnr_db):
                found, self.sqnr_db = place, value
        if found is not None:
            self._edits += tried[found]
        return found

    def gain_db(self, edits: Sequence[Edit]) -> float:
        """Say how much nearer edits bring the outputs, on top of those that are taken so far."""
        value = self._sqnr_db(self._outputs([*self._edits, *edits]))
        if value is None or self.sqnr_db is None:  # no error is left, or there was none
            return float("inf") if self.sqnr_db is not None else 0.0
        return value - self.sqnr_db

    def _outputs(self, edits: Sequence[Edit]) -> Outputs:
        effect = self._what_if.answer(edits, full=True, kernels=False, progress=self._progress)
        return effect.evaluation.outputs

    def _sqnr_db(self, outputs: Outputs) -> float | None:
        return sqnr_of_outputs(self._floats, outputs, self._kept)
