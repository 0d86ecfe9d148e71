"""The protocol of an object that runs a model and edited versions of it on one set of samples."""

from typing import Protocol

from quantscope.data import Samples
from quantscope.edit import Applied
from quantscope.progress import Progress
from quantscope.run.evaluate import Evaluation
from quantscope.run.kernels import KernelChange
from quantscope.run.outputs import Outputs
from quantscope.run.whatif.downstream import DownstreamSqnr


class EditedRunner(Protocol):
    """Runs edited versions of one model; for one thread at a time."""

    @property
    def samples(self) -> Samples: ...

    @property
    def kept_bytes(self) -> int:
        """The number of bytes of activations that are kept, to start from."""

    def base(self, progress: Progress) -> Outputs:
        """Give the outputs of the model as it was opened."""

    def run_edited(self, applied: Applied, progress: Progress) -> Outputs:
        """Give the outputs of an edited version, bit for bit those of a whole run."""

    def kernels_changed(self, applied: Applied) -> tuple[KernelChange, ...]:
        """Name the layers that run otherwise than in the unedited model."""

    def downstream_sqnr(
        self, applied: Applied, base: Evaluation, edited: Evaluation, progress: Progress
    ) -> DownstreamSqnr:
        """Compare both models with the float one, tensor by tensor.

        `base` and `edited` are the evaluations of the two models on these samples.
        """
