"""What executes a model and its edited versions on one set of samples: the protocol."""

from typing import NamedTuple, Protocol

from quantscope.data import Samples
from quantscope.edit import Applied
from quantscope.progress import Progress
from quantscope.run.evaluate import Evaluation
from quantscope.run.runnable import Scores
from quantscope.run.whatif.downstream import DownstreamSqnr


class KernelChange(NamedTuple):
    """How a layer is executed in runtime execution, in the unedited and in the edited model."""

    layer: str
    before: str
    after: str


class EditedRunner(Protocol):
    """Runs edited versions of one model; for one thread at a time."""

    @property
    def samples(self) -> Samples: ...

    @property
    def kept_bytes(self) -> int:
        """How many bytes of activations are kept, to start from."""

    def base(self, progress: Progress) -> Scores:
        """Give the scores of the model as it was opened."""

    def edited(self, applied: Applied, progress: Progress) -> Scores:
        """Give the scores of an edited version, bit for bit those of a whole run."""

    def kernels_changed(self, applied: Applied) -> tuple[KernelChange, ...]:
        """Name the layers that run otherwise than in the unedited model."""

    def downstream_sqnr(
        self, applied: Applied, base: Evaluation, edited: Evaluation, progress: Progress
    ) -> DownstreamSqnr:
        """Compare both models with the float one, tensor by tensor.

        `base` and `edited` are the evaluations of the two models on these samples.
        """
