"""PT2E programs under edits, run whole. Needs the `torch` extra."""

import hashlib
import tempfile
from collections import OrderedDict
from functools import cached_property
from pathlib import Path

from quantscope.data import ImageSet
from quantscope.edit import AnyApplied, AppliedProgram, ProgramEditor
from quantscope.model import Pairing
from quantscope.progress import Progress
from quantscope.run.classifier import Classifier, refuse_int8_kernels
from quantscope.run.evaluate import Evaluation, classify
from quantscope.run.onnx.suffix.runner import Scores
from quantscope.run.torch.classifier import refuse_runtime
from quantscope.run.torch.programs import Program, opened_program
from quantscope.run.torch.whatif_sqnr import ProgramSqnr, float_side
from quantscope.run.whatif.bench import Facts, Way
from quantscope.run.whatif.downstream import DownstreamSqnr
from quantscope.run.whatif.kernels import KernelChange

_ANSWERS = 32


def open_edited(applied: AppliedProgram) -> Program:
    """Loaded as any file is, after the same checks."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{applied.sources[0].stem}-edited.pt2"
        path.write_bytes(applied.to_bytes())
        with opened_program(path) as program:
            return program


class ProgramBackend:
    """The unedited program, the float one, and the edited one that was asked about last."""

    def __init__(self, editor: ProgramEditor, way: Way) -> None:
        path = editor.file.path
        refuse_runtime(path, way.execution)
        refuse_int8_kernels(path, way.int8_kernels)
        self.editor, self.way = editor, way
        with opened_program(path) as self.base:
            opened = self.base.classifier
        self.facts = Facts(path.name, opened.digest, opened.gives_probabilities, opened.provenance)
        self._last: tuple[AppliedProgram, Program] | None = None

    def runner(self, images: ImageSet) -> "ProgramRunner":
        return ProgramRunner(self, images)

    @cached_property
    def floats(self) -> tuple[Program, Pairing]:
        return float_side(self.base, self.editor.float_path)

    def edited(self, applied: AppliedProgram) -> Program:
        if self._last is None or self._last[0].content != applied.content:
            self._last = None  # not two of them at a time
            self._last = applied, open_edited(applied)
        return self._last[1]


class ProgramRunner:
    """Keeps no activations, and the scores of the last few edited programs."""

    kept_bytes = 0

    def __init__(self, backend: ProgramBackend, images: ImageSet) -> None:
        self._backend, self._images = backend, images
        self._answers: OrderedDict[str, Scores] = OrderedDict()

    def base(self, progress: Progress) -> Scores:
        return self._scores(self._backend.base.classifier, progress)

    def edited(self, applied: AnyApplied, progress: Progress) -> Scores:
        digest = hashlib.sha256(applied.to_bytes()).hexdigest()
        if digest not in self._answers:
            program = self._backend.edited(_program(applied))
            self._answers[digest] = self._scores(program.classifier, progress)
            while len(self._answers) > _ANSWERS:
                self._answers.popitem(last=False)
        return self._answers[digest]

    def kernels_changed(self, applied: AnyApplied) -> tuple[KernelChange, ...]:
        """None: what a program states is what runs."""
        del applied
        return ()

    def downstream_sqnr(
        self, applied: AnyApplied, base: Evaluation, edited: Evaluation, progress: Progress
    ) -> DownstreamSqnr:
        del base  # compared anew, in the batches of a comparison
        program = self._backend.edited(_program(applied)) if applied.edits else None
        return self._sqnr.read(program, edited, progress)

    @cached_property
    def _sqnr(self) -> ProgramSqnr:
        backend = self._backend
        return ProgramSqnr(backend.base, *backend.floats, backend.way, self._images)

    def _scores(self, classifier: Classifier, progress: Progress) -> Scores:
        scores = classify(
            classifier, self._images, batch=self._backend.way.batch, progress=progress
        )
        scores.flags.writeable = False
        return scores


def _program(applied: AnyApplied) -> AppliedProgram:
    assert isinstance(applied, AppliedProgram), "edits of a program come from its own editor"
    return applied
