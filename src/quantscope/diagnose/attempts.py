"""Try remedies: each alone, then all that helped together."""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from quantscope.diagnose.bench import Bench
from quantscope.diagnose.origin import Origin, find_origin
from quantscope.diagnose.results import Attempt, Finding, Gain, Remedy
from quantscope.edit import Edit, Editor
from quantscope.errors import QuantscopeError
from quantscope.model import Model, open_model
from quantscope.progress import Progress, silent
from quantscope.quantize import PtqConfig, quantize_model
from quantscope.run import Outputs, gather_outputs, open_runnable


class NotTriedError(Exception):
    """A remedy that cannot be tried; its text says why."""


def try_all(
    findings: Sequence[Finding],
    bench: Bench,
    origin: Origin,
    loss: Gain,
    *,
    progress: Progress = silent,
) -> tuple[tuple[Finding, ...], Attempt | None]:
    """Try each remedy of each finding alone; then the best of each finding, all at once."""
    trier = _Trier(bench, origin, loss, progress)
    edited = {remedy.what: remedy.edits for f in findings for remedy in f.remedies if remedy.edits}
    trier.run_edits(edited)
    tried = tuple(
        replace(f, attempts=tuple(trier.attempt(r) for r in f.remedies if r.can_be_tried))
        for f in findings
    )
    best = [
        max(helping, key=lambda attempt: attempt.gain.value if attempt.gain else 0.0).remedy
        for helping in ([a for a in f.attempts if a.helps] for f in tried)
        if helping
    ]
    return tried, trier.together(best) if len(best) > 1 else None


class _Trier:
    """Runs remedies on one bench; models that it makes live as long as a try takes."""

    def __init__(self, bench: Bench, origin: Origin, loss: Gain, progress: Progress) -> None:
        self._bench, self._origin, self._loss, self._progress = bench, origin, loss, progress
        self._refused: dict[str, str] = {}

    def run_edits(self, lists: Mapping[str, Sequence[Edit]]) -> None:
        """Run all lists of edits in one graph, those that the model takes."""
        taken: dict[str, Sequence[Edit]] = {}
        for what, edits in lists.items():
            try:
                self._bench.editor.preview(edits)
            except QuantscopeError as error:
                self._refused[what] = str(error)
                continue
            taken[what] = edits
        if taken:
            self._bench.run(taken, what="Trying edits", progress=self._progress)

    def attempt(self, remedy: Remedy) -> Attempt:
        """Try one remedy alone."""
        if remedy.what in self._refused:
            return self._untried(remedy, self._refused[remedy.what])
        try:
            outputs = self._outputs(remedy.edits, remedy.options, remedy.what)
        except (NotTriedError, QuantscopeError) as error:
            return self._untried(remedy, str(error))
        return self._measured(remedy, outputs)

    def together(self, remedies: Sequence[Remedy]) -> Attempt:
        """Try all of them at once: a new quantization with all options, and all edits on it."""
        options = {key: value for remedy in remedies for key, value in remedy.options.items()}
        edits = tuple(edit for remedy in remedies for edit in remedy.edits)
        joined = Remedy("all that helped, together", edits, options)
        try:
            if not options:
                self.run_edits({joined.what: edits})
            return self._measured(joined, self._outputs(edits, options, joined.what))
        except (NotTriedError, QuantscopeError) as error:
            return self._untried(joined, str(error))

    def _outputs(self, edits: Sequence[Edit], options: Mapping[str, Any], what: str) -> Outputs:
        if not options:
            return self._bench.outputs(what)
        with tempfile.TemporaryDirectory(prefix="quantscope-tried-") as folder:
            path = self._quantize(options, Path(folder) / "tried.onnx")
            if edits:
                edited = Editor(path, self._bench.original).apply(edits)
                path = Path(folder) / "edited.onnx"
                edited.save(path)
            runnable = open_runnable(path, execution="reference")
            found = gather_outputs(runnable, self._bench.samples, progress=self._progress).outputs
            # Large answers may lie in a file that goes with the folder's session; keep the numbers.
            self._bench.keep(what, {name: array.copy() for name, array in found.items()})
        return self._bench.outputs(what)

    def _quantize(self, options: Mapping[str, Any], path: Path) -> Path:
        original, origin = self._bench.original, self._origin
        if original.is_stand_in:
            raise NotTriedError(
                "a new quantization needs the float model; give it with --float FILE"
            )
        if origin.calibration is None:
            raise NotTriedError(
                "a new quantization needs the calibration samples; give them with "
                "--calibration-data FILE.npz"
            )
        config = changed_config(origin.config, options)
        config = replace(config, calibration_images=len(origin.calibration))
        quantize_model(
            original.path, path, config, calibration=origin.calibration, progress=self._progress
        )
        return open_model(path).path

    def _measured(self, remedy: Remedy, outputs: Outputs) -> Attempt:
        gain = self._bench.gain(outputs)
        lost = self._loss.value
        recovered = gain.value / lost if lost > 0 else None
        return Attempt(remedy, gain, gain.delta.first, recovered, "reference")

    @staticmethod
    def _untried(remedy: Remedy, why: str) -> Attempt:
        return Attempt(remedy, None, None, None, "reference", not_tried=why)


def changed_config(config: PtqConfig, options: Mapping[str, Any]) -> PtqConfig:
    """Give the options of a quantization with some changed.

    What belonged to another calibration goes with it, so that the new one's own numbers are taken.
    """
    changes = dict(options)
    if changes.get("calibration", config.calibration) != config.calibration:
        changes = {"percentile": None, "histogram_bins": None, **changes}
    return replace(config, **changes)


def remedy_config(model: Model, remedy: Remedy) -> PtqConfig:
    """Give the options that a model was made with, and those that a remedy changes."""
    return changed_config(find_origin(model, model, None).config, remedy.options)
