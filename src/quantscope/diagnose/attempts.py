"""Try remedies: each alone, then all that helped together."""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from quantscope.diagnose.bench import Bench
from quantscope.diagnose.kernels import Kernels
from quantscope.diagnose.origin import Origin, find_origin
from quantscope.diagnose.results import Attempt, Finding, Gain, Remedy
from quantscope.edit import Edit, Editor
from quantscope.errors import QuantscopeError
from quantscope.model import Model, open_model
from quantscope.model.onnx import OnnxModel
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
    kernels: Kernels,
    *,
    progress: Progress = silent,
) -> tuple[tuple[Finding, ...], Attempt | None]:
    """Try each remedy of each finding alone; then the best of each finding, all at once."""
    trier = _Trier(bench, origin, loss, kernels, progress)
    edited = {
        r.what: r.edits for f in findings for r in f.remedies if r.edits and not r.is_quantization
    }
    trier.run_edits(edited)
    tried = tuple(
        replace(f, attempts=tuple(trier.attempt(r, f) for r in f.remedies if r.can_be_tried))
        for f in findings
    )
    by_kernels = any(a.helps for f in tried if f.cost_of == "kernels" for a in f.attempts)
    best = [
        max(helping, key=lambda attempt: attempt.gain.value if attempt.gain else 0.0).remedy
        for helping in ([a for a in f.attempts if a.helps] for f in tried)
        if helping
    ]
    return tried, trier.together(best, by_kernels) if len(best) > 1 else None


class _Trier:
    """Runs remedies on one bench; models that it makes live as long as a try takes."""

    def __init__(
        self, bench: Bench, origin: Origin, loss: Gain, kernels: Kernels, progress: Progress
    ) -> None:
        self._bench, self._origin, self._loss, self._progress = bench, origin, loss, progress
        self._kernels = kernels
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

    def attempt(self, remedy: Remedy, finding: Finding) -> Attempt:
        """Try one remedy alone; that of kernels is run by them."""
        if remedy.what in self._refused:
            return self._untried(remedy, self._refused[remedy.what])
        try:
            found = self._with_edits(remedy) if remedy.cure else remedy
            return self._tried(found, by_kernels=finding.cost_of == "kernels")
        except (NotTriedError, QuantscopeError) as error:
            return self._untried(remedy, str(error))

    def _with_edits(self, remedy: Remedy) -> Remedy:
        """Find the edits of a cure, and run the model with them."""
        from quantscope.cure import CURES, Readings

        calibration = self._origin.calibration
        if calibration is None:
            raise NotTriedError(
                "a cure looks at the calibration samples; give them with "
                "--calibration-data FILE.npz"
            )
        readings = Readings(self._bench.editor, calibration)
        find: Any = CURES[remedy.cure]
        chosen = {"targets": remedy.cure_targets} if remedy.cure_targets else {}
        cure = find(readings, calibration, edits=(), progress=self._progress, **chosen)
        self.run_edits({remedy.what: cure.edits})
        if remedy.what in self._refused:
            raise NotTriedError(self._refused[remedy.what])
        return replace(remedy, edits=cure.edits)

    def together(self, remedies: Sequence[Remedy], by_kernels: bool) -> Attempt:
        """Try all of them at once: a new quantization with all options, and all edits on it."""
        options = {key: value for remedy in remedies for key, value in remedy.options.items()}
        edits = tuple(edit for remedy in remedies for edit in remedy.edits)
        sets = [remedy.calibration for remedy in remedies if remedy.calibration is not None]
        joined = Remedy(
            "all that helped, together", edits, options, calibration=sets[0] if sets else None
        )
        try:
            if not joined.is_quantization and not by_kernels:
                self.run_edits({joined.what: edits})
            return self._tried(joined, by_kernels=by_kernels)
        except (NotTriedError, QuantscopeError) as error:
            return self._untried(joined, str(error))

    def _tried(self, remedy: Remedy, *, by_kernels: bool) -> Attempt:
        if not remedy.is_quantization and not by_kernels:
            return self._measured(remedy, self._bench.outputs(remedy.what))
        with tempfile.TemporaryDirectory(prefix="quantscope-tried-") as folder:
            made = self._make(remedy, Path(folder))
            kernels = self._kernels if by_kernels else None
            found = self._run(made, kernels)
            # Large answers may lie in a file that goes with the folder's session; keep the numbers.
            name = f"{remedy.what}, by kernels" if by_kernels else remedy.what
            self._bench.keep(name, {key: array.copy() for key, array in found.items()})
        return self._measured(remedy, self._bench.outputs(name), by_kernels=by_kernels)

    def _make(self, remedy: Remedy, folder: Path) -> OnnxModel:
        """Write the model that a remedy makes: quantized anew, edited, or both."""
        source = self._bench.editor.model.path
        editor = self._bench.editor
        if remedy.is_quantization:
            source = self._quantize(remedy, folder / "tried.onnx")
            editor = Editor(source, self._bench.original)
        if remedy.edits:
            source = folder / "edited.onnx"
            editor.apply(remedy.edits).save(source)
        return open_model(source).as_onnx("diagnose")

    def _run(self, model: OnnxModel, kernels: Kernels | None) -> Outputs:
        samples = self._bench.samples
        if kernels is not None:
            return kernels.outputs(model, samples, progress=self._progress)
        runnable = open_runnable(model, execution="reference")
        return gather_outputs(runnable, samples, progress=self._progress).outputs

    def _quantize(self, remedy: Remedy, path: Path) -> Path:
        original, origin = self._bench.original, self._origin
        if original.is_stand_in:
            raise NotTriedError(
                "a new quantization needs the float model; give it with --float FILE"
            )
        calibration = remedy.calibration or origin.calibration
        if calibration is None:
            raise NotTriedError(
                "a new quantization needs the calibration samples; give them with "
                "--calibration-data FILE.npz"
            )
        config = changed_config(origin.config, remedy.options)
        config = replace(config, calibration_images=len(calibration))
        quantize_model(
            original.path, path, config, calibration=calibration, progress=self._progress
        )
        return open_model(path).path

    def _measured(self, remedy: Remedy, outputs: Outputs, *, by_kernels: bool = False) -> Attempt:
        over = self._bench.outputs("runtime") if by_kernels else self._bench.base
        gain = self._bench.gain(outputs, over=over)
        loss = self._bench.gain(self._bench.floats, over=over) if by_kernels else self._loss
        recovered = gain.value / loss.value if loss.value > 0 else None
        execution = "runtime" if by_kernels else "reference"
        return Attempt(remedy, gain, gain.delta.first, recovered, execution)

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
