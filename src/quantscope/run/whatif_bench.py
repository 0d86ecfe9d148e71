"""One set of images for what-if: the unedited and the float model's answers, and who runs edits."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import onnx

from quantscope.data import ImageSet
from quantscope.edit import Applied, Editor
from quantscope.progress import Progress
from quantscope.run.classifier import open_classifier
from quantscope.run.evaluate import Evaluation, classify, evaluate
from quantscope.run.sessions import Execution
from quantscope.run.suffix import Scores, SuffixRunner
from quantscope.run.suffix_graph import ValueGraph
from quantscope.run.whatif_evaluation import evaluation_of
from quantscope.run.whatif_kernels import KernelChange, KernelWatch


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

    def base(self, progress: Progress) -> Scores:
        """Of the model as it was opened."""

    def edited(self, applied: Applied, progress: Progress) -> Scores: ...

    def kernels_changed(self, applied: Applied) -> tuple[KernelChange, ...]: ...


class OnnxRunner:
    """Runs suffixes; the last edited model's graph is kept for what is asked of it next."""

    def __init__(self, editor: Editor, images: ImageSet, way: Way, watch: KernelWatch) -> None:
        self.suffix = SuffixRunner(
            editor.base,
            images,
            execution=way.execution,
            int8_kernels=way.int8_kernels,
            threads=way.threads,
            batch=way.batch,
            name=editor.file.path.name,
        )
        self._editor, self._way, self._watch = editor, way, watch
        self._last: tuple[onnx.ModelProto, ValueGraph] | None = None

    def base(self, progress: Progress) -> Scores:
        scores = self.suffix.base_scores(progress)
        if not (self._editor.lifted and self._way.execution == "runtime"):
            return scores
        # What ships is the file itself; its QDQ form may be fused in another way.
        classifier = open_classifier(
            self._editor.file.path,
            execution="runtime",
            int8_kernels=self._way.int8_kernels,
            threads=self._way.threads,
        )
        return classify(classifier, self.suffix.images, batch=self._way.batch, progress=progress)

    def edited(self, applied: Applied, progress: Progress) -> Scores:
        return self.suffix.scores_of(self.graph_of(applied), progress)

    def kernels_changed(self, applied: Applied) -> tuple[KernelChange, ...]:
        if not applied.edits:
            return ()
        executed = self.graph_of(applied) if self._way.execution == "runtime" else None
        return self._watch.changes(applied.proto, executed)

    def graph_of(self, applied: Applied) -> ValueGraph:
        last = self._last
        if last is None or last[0] is not applied.proto:
            last = self._last = applied.proto, self.suffix.graph_of(applied.proto)
        return last[1]


class Bench:
    """What does not depend on edits is found once."""

    def __init__(
        self, editor: Editor, facts: Facts, way: Way, runner: Runner, images: ImageSet
    ) -> None:
        self.runner, self.images = runner, images
        self._editor, self._facts, self._way = editor, facts, way
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

    def edited(self, applied: Applied, digest: str, progress: Progress) -> Evaluation:
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
