"""One set of images for what-if: the unedited and the float model's answers, and who runs edits."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from quantscope.data import ImageSet
from quantscope.edit import AnyApplied, AnyEditor
from quantscope.progress import Progress
from quantscope.run.classifier import open_classifier
from quantscope.run.evaluate import Evaluation, evaluate
from quantscope.run.onnx.sessions import Execution
from quantscope.run.onnx.suffix.runner import Scores
from quantscope.run.whatif.downstream import DownstreamSqnr
from quantscope.run.whatif.evaluation import evaluation_of
from quantscope.run.whatif.kernels import KernelChange


@dataclass(frozen=True)
class Way:
    """How all models are run."""

    execution: Execution = "reference"
    int8_kernels: bool | None = None
    threads: int = 0
    batch: int | None = None


@dataclass(frozen=True)
class Facts:
    """Of the model as it was opened."""

    name: str
    digest: str
    gives_probabilities: bool
    provenance: Mapping[str, str]


class Runner(Protocol):
    """What executes a model and its edited versions on one set of images."""

    @property
    def kept_bytes(self) -> int:
        """Of activations, to start from."""

    def base(self, progress: Progress) -> Scores:
        """Of the model as it was opened."""

    def edited(self, applied: AnyApplied, progress: Progress) -> Scores: ...

    def kernels_changed(self, applied: AnyApplied) -> tuple[KernelChange, ...]: ...

    def downstream_sqnr(
        self, applied: AnyApplied, base: Evaluation, edited: Evaluation, progress: Progress
    ) -> DownstreamSqnr:
        """`base` and `edited` are the evaluations of the two models on these images."""


class Backend(Protocol):
    """A kind of model: what is known of the one that was opened, and who runs it."""

    @property
    def facts(self) -> Facts: ...

    def runner(self, images: ImageSet) -> Runner: ...


class Bench:
    """What does not depend on edits is found once."""

    def __init__(self, editor: AnyEditor, backend: Backend, way: Way, images: ImageSet) -> None:
        self.runner, self.images = backend.runner(images), images
        self._editor, self._facts, self._way = editor, backend.facts, way
        self._base: Evaluation | None = None
        self._float: Evaluation | None = None

    def base(self, progress: Progress) -> Evaluation:
        if self._base is None:
            scores = self.runner.base(_named(progress, "the unedited model"))
            self._base = self._evaluation(scores, self._facts.name, self._facts.digest)
        return self._base

    def float(self, progress: Progress) -> Evaluation | None:
        """In the same execution; None where no float model is known."""
        if self._float is None and self._editor.float_path is not None:
            classifier = open_classifier(
                self._editor.float_path,
                execution=self._way.execution,
                int8_kernels=self._way.int8_kernels,
                threads=self._way.threads,
            )
            self._float = evaluate(
                classifier,
                self.images,
                batch=self._way.batch,
                progress=_named(progress, "the float model"),
            )
        return self._float

    def edited(self, applied: AnyApplied, digest: str, progress: Progress) -> Evaluation:
        scores = self.runner.edited(applied, _named(progress, "the edited model"))
        return self._evaluation(scores, f"{self._facts.name}, edited", digest)

    def _evaluation(self, scores: Scores, name: str, digest: str) -> Evaluation:
        return evaluation_of(
            scores,
            self.images,
            model=name,
            digest=digest,
            execution=self._way.execution,
            gives_probabilities=self._facts.gives_probabilities,
            provenance=self._facts.provenance,
        )


def _named(progress: Progress, what: str) -> Progress:
    return lambda _, done, total: progress(f"Evaluating {what}", done, total)
