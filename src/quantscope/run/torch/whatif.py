"""Run PT2E programs under edits, whole each time. Needs the `torch` extra."""

import tempfile
from collections import OrderedDict
from functools import cached_property
from pathlib import Path
from weakref import WeakKeyDictionary

from quantscope.data import Samples
from quantscope.edit import Applied, Editor
from quantscope.model import need_original, open_model
from quantscope.progress import Progress
from quantscope.run.evaluate import Evaluation
from quantscope.run.kernels import KernelChange
from quantscope.run.outputs import Outputs, gather_outputs
from quantscope.run.runnable import open_runnable
from quantscope.run.torch.joint_run import pair_programs
from quantscope.run.torch.program import ProgramRunnable
from quantscope.run.torch.runnable import program_of
from quantscope.run.torch.whatif_sqnr import ProgramSqnr
from quantscope.run.whatif import DownstreamSqnr

_ANSWERS = 32

_last_edited: WeakKeyDictionary[ProgramRunnable, tuple[str, ProgramRunnable]] = WeakKeyDictionary()
"""The edited program that was asked about last, on whichever samples, by the unedited one."""


def open_edited(base: ProgramRunnable, applied: Applied) -> ProgramRunnable:
    """Load an edited program as any file is, after the same checks; the last one is kept."""
    digest, known = applied.digest, _last_edited.get(base)
    if known is not None and known[0] == digest:
        return known[1]
    _last_edited.pop(base, None)  # not two of them at a time
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{base.model.path.stem}-edited.pt2"
        path.write_bytes(applied.to_bytes())
        edited = program_of(open_runnable(open_model(path))).load()
    _last_edited[base] = digest, edited
    return edited


class ProgramEditedRunner:
    """Runs edited programs; keeps no activations, but the outputs of the last few programs.

    These take at most `kept_bytes_limit` bytes.
    """

    kept_bytes = 0

    def __init__(
        self,
        base: ProgramRunnable,
        editor: Editor,
        samples: Samples,
        *,
        batch: int | None,
        kept_bytes_limit: int,
    ) -> None:
        self._limit = kept_bytes_limit
        self._base, self._editor, self._batch = base, editor, batch
        self.samples = samples
        self._answers: OrderedDict[str, Outputs] = OrderedDict()

    def base(self, progress: Progress) -> Outputs:
        return self._outputs(self._base, progress)

    def run_edited(self, applied: Applied, progress: Progress) -> Outputs:
        known = self._answers.get(applied.digest)
        if known is not None:
            return known
        found = self._outputs(open_edited(self._base, applied), progress)
        self._answers[applied.digest] = found
        while len(self._answers) > _ANSWERS or self._answer_bytes > self._limit:
            self._answers.popitem(last=False)
        return found

    def kernels_changed(self, applied: Applied) -> tuple[KernelChange, ...]:
        """Give no layer: what a program states is what runs."""
        del applied
        return ()

    def downstream_sqnr(
        self, applied: Applied, base: Evaluation, edited: Evaluation, progress: Progress
    ) -> DownstreamSqnr:
        del base  # compared anew, in the batches of a comparison
        program = open_edited(self._base, applied) if applied.edits else None
        return self._sqnr.read(program, edited, progress)

    @cached_property
    def _sqnr(self) -> ProgramSqnr:
        original = self._editor.original or need_original(self._editor.model)
        floats = program_of(open_runnable(original))
        pairing = pair_programs(floats, self._base)
        return ProgramSqnr(self._base, floats, pairing, self.samples, batch=self._batch)

    @property
    def _answer_bytes(self) -> int:
        return sum(v.nbytes for answer in self._answers.values() for v in answer.values())

    def _outputs(self, program: ProgramRunnable, progress: Progress) -> Outputs:
        answers = gather_outputs(program, self.samples, batch=self._batch, progress=progress)
        for array in answers.outputs.values():
            # The same array answers again when it is asked for again.
            array.flags.writeable = False
        return answers.outputs
