"""Edited programs, run: as a classifier, and as answers to what-if. Needs the `torch` extra."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from quantscope.data import ImageSet
from quantscope.edit import Edit
from quantscope.edit.torch_apply import AppliedProgram, ProgramEditor
from quantscope.progress import Progress, silent
from quantscope.run.classifier import Classifier
from quantscope.run.evaluate import Evaluation, evaluate, paired
from quantscope.run.torch_classifier import open_torch
from quantscope.run.whatif_effect import Effect
from quantscope.run.whatif_evaluation import stratified

_QUICK = 256


def open_edited(applied: AppliedProgram) -> Classifier:
    """What `evaluate` takes; loaded as any file is, after the same checks."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{applied.sources[0].stem}-edited.pt2"
        path.write_bytes(applied.to_bytes())
        return open_torch(path)


class ProgramWhatIf:
    """A PT2E program, the float one it was made from, and images, opened once for many edits.

    As `WhatIf`, in reference execution; torch has no other here. The whole edited program runs for
    every answer. A quick answer takes `quick` images, always the same; a full one all of them.
    """

    def __init__(
        self,
        model: str | Path,
        images: ImageSet,
        *,
        float_model: str | Path | None = None,
        quick: int = _QUICK,
        batch: int | None = None,
    ) -> None:
        self.editor = ProgramEditor(model, float_model=float_model)
        self.images, self.quick_images = images, stratified(images, quick)
        self._batch = batch
        self._known: dict[tuple[Path, bool], Evaluation] = {}

    def answer(
        self, edits: Sequence[Edit], *, full: bool = False, progress: Progress = silent
    ) -> Effect:
        applied = self.editor.apply(edits)
        images = self.images if full else self.quick_images
        edited = evaluate(open_edited(applied), images, batch=self._batch, progress=progress)
        base = self._evaluated(self.editor.file.path, full, progress)
        original = self.editor.float_path
        floats = None if original is None else self._evaluated(original, full, progress)
        return Effect(
            evaluation=edited,
            against_base=paired(edited, base),
            against_float=None if floats is None else paired(edited, floats),
            applied=cast(Any, applied),
            unchanged=np.array_equal(edited.scores, base.scores, equal_nan=True),
            find_kernels=lambda: (),
        )

    def _evaluated(self, path: Path, full: bool, progress: Progress) -> Evaluation:
        if (path, full) not in self._known:
            images = self.images if full else self.quick_images
            self._known[path, full] = evaluate(path, images, batch=self._batch, progress=progress)
        return self._known[path, full]
