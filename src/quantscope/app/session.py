"""All that was found out about an opened pair. Shared by the pages that show it; no marimo here."""

from collections.abc import Callable, Hashable, Iterator
from copy import copy
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, TypeVar

from quantscope.app.accuracies import Accuracies, Of
from quantscope.app.memo import Memo, Shared, give_back
from quantscope.app.mistake import mistake
from quantscope.app.opened import Opened
from quantscope.data import Samples, load_full, samples_for, stratify
from quantscope.diagnose import Diagnosis, diagnose
from quantscope.errors import QuantscopeError, StoppedError
from quantscope.model import Execution, QuantTensor
from quantscope.progress import Progress, silent
from quantscope.run import Evaluation, KernelGap, KernelMap, Measure, evaluate, gap_between
from quantscope.run.compare import Comparison, TensorComparison, compare
from quantscope.run.histograms import Histogram, Histograms, histograms, weight_histogram
from quantscope.run.whatif import QUICK
from quantscope.study.interactions import Interactions, interactions
from quantscope.study.sensitivity import Sensitivity, sensitivity

T = TypeVar("T")

SAMPLE = 1000
CIFAR10_TEST = 10_000
_MOST_RESULTS = 48
_MOST_PICTURES = 96
_DOING = {
    "images": "Opening",
    "float": "Float",
    "reference": "As the file states it",
    "runtime": "As this CPU runs it",
    "gap": "Which kernels run",
    "comparison": "Comparing",
    "runtime comparison": "Comparing as this CPU runs it",
    "histograms": "Counting values",
    "sensitivity": "Measuring sensitivity",
    "interactions": "Measuring pairs of layers",
    "diagnosis": "Diagnosing",
    "tried": "Trying what is proposed",
}


_COMPARED: dict[Execution, str] = {
    "reference": "comparison",
    "runtime": "runtime comparison",
}


class Session:
    """Results by key, each computed once. `failures` are lines for what could not be had.

    `sample` are the rows that are measured unasked: the given ones, else CIFAR-10's images where
    the model takes them and tells as many classes apart, else rows made at random. `measure` is
    what the person asked to be counted; None leaves it to the rows.
    """

    compared_in: Execution = "reference"

    def __init__(
        self, opened: Opened, samples: Samples | None = None, measure: Measure | None = None
    ) -> None:
        self.opened, self.measured_by = opened, measure
        self.given = samples
        self._all = samples or samples_for(opened.model)
        self.sample = stratify(self._all, SAMPLE)
        self.failures: dict[str, str] = {}
        self.kernels: KernelMap | None = None
        self._core = Memo(_MOST_RESULTS)
        self._results = Memo(_MOST_RESULTS)
        self._pictures = Memo(_MOST_PICTURES)
        self._sets: dict[int, Samples] = {}
        self._quick: Samples | None = None
        self._first_gap: KernelGap | None = None

    def result(self, key: Hashable, make: Callable[[], T]) -> T:
        """The library's answer for `key`; `make` is called at most once while it is kept."""
        return self._results.get(key, make)

    def peek(self, key: Hashable) -> Any:
        """A result that is there already, or None."""
        return self._results.peek(key)

    def _measured(self, name: str, count: int) -> Any:
        return self._core.peek((name, count))

    def picture(self, key: Hashable, make: Callable[[], T]) -> T:
        """Give what was rendered for `key`; a hundred clicks do not push results out."""
        return self._pictures.get(key, make)

    def peek_picture(self, key: Hashable) -> Any:
        """A picture that is there already, or None."""
        return self._pictures.peek(key)

    @property
    def quick(self) -> Samples:
        """The images on which edits are answered at once."""
        if self._quick is None:
            self._quick = stratify(self.sample, QUICK)
            self._sets[len(self._quick)] = self._quick
        return self._quick

    @property
    def accuracies(self) -> Accuracies | None:
        """On the most images for which all are known; while none is complete, what there is."""
        wanted = tuple(of for of in self._runs if of not in self.failures)
        found: list[tuple[int, int, Samples]] = []
        for images in tuple(self._sets.values()):  # a thread may add to them
            there = sum(self._measured(of, len(images)) is not None for of in wanted)
            found.append((int(there == len(wanted)), len(images) if there else -1, images))
        if not found or max(found, key=lambda row: row[:2])[1] < 0:
            return None
        images = max(found, key=lambda row: row[:2])[2]
        count = len(images)
        return Accuracies(
            images=images,
            float_=self._measured("float", count),
            reference=self._measured("reference", count),
            runtime=self._measured("runtime", count),
            gap=self._measured("gap", count),
        )

    @property
    def comparison(self) -> Comparison | None:
        """Float against quantized on the most images so far, in the execution `compared_in`."""
        found: Comparison | None = self._best(_COMPARED[self.compared_in])
        return found

    def find_comparison(self, tensor: str | None) -> TensorComparison | None:
        comparison = self.comparison
        if comparison is None or tensor is None:
            return None
        return next((row for row in comparison.tensors if row.name == tensor), None)

    def measure(self, images: Samples, progress: Progress = silent) -> Iterator[None]:
        """Evaluate everything on these images; yields whenever there is something new to show.

        What fails is a line in `failures`, and the rest goes on; only being stopped ends it. Images
        that the model cannot take are one line.
        """
        count = len(images)
        self._sets[count] = images
        for _ in self._attempt("images", 0, partial(self._try, images), progress):
            if "images" in self.failures:
                yield
        steps: list[tuple[str, Callable[[], Any]]] = [
            (of, partial(self._evaluation, of, images, progress)) for of in self._runs
        ]
        if len(self.opened.executions) == 2:
            steps.append(("gap", partial(self._gap, images)))
        for name, step in steps:
            yield from self._attempt(name, count, step, progress)

    def seen_in(self, execution: Execution) -> "Session":
        """Give the same results, with the comparison of this execution."""
        view = copy(self)
        view.compared_in = execution
        return view

    def compare(
        self, images: Samples, progress: Progress = silent, *, execution: Execution = "reference"
    ) -> Iterator[None]:
        """Compare tensor by tensor; yields when it is there, or has failed."""
        if not self.opened.is_comparable or execution not in self.opened.executions:
            return
        count = len(images)
        self._sets[count] = images
        yield from self._attempt(
            _COMPARED[execution],
            count,
            lambda: compare(
                self.opened.model,
                images,
                float_model=self.opened.compared_with,
                execution=execution,
                progress=progress,
            ),
            progress,
        )

    def count_values(self, images: Samples, progress: Progress = silent) -> Iterator[None]:
        """Histograms of all activations; not of TorchScript archives."""
        if not self._counts_values:
            return
        yield from self._attempt(
            "histograms",
            len(images),
            lambda: histograms(
                self.opened.model,
                images,
                float_model=self.opened.compared_with,
                progress=_as(_DOING["histograms"], progress),
            ),
            progress,
        )

    def switch_layers(self, images: Samples, progress: Progress = silent) -> Iterator[None]:
        """The sensitivity of every layer: each one's quantization switched off; ONNX files only."""
        if self.opened.original is None or not self._is_onnx:
            return
        opened = self.opened
        yield from self._attempt(
            "sensitivity",
            len(images),
            lambda: sensitivity(
                opened.model,
                images,
                float_model=opened.known_float,
                progress=progress,
            ),
            progress,
        )

    @property
    def has_pairs(self) -> bool:
        """Say whether layers can be switched off two at a time."""
        return self.can_be_diagnosed and "images" not in self.failures

    def switch_pairs(self, progress: Progress = silent) -> Iterator[None]:
        """Find what every two layers cost together, on the quick set; a second try is one.

        It takes as long as it takes: whoever asks sees how far it is, and can stop it.
        """
        if not self.has_pairs:
            return
        opened, images = self.opened, self.quick
        self.failures.pop("interactions", None)
        yield from self._attempt(
            "interactions",
            len(images),
            lambda: interactions(
                opened.model,
                images,
                float_model=opened.known_float,
                measure=self.measured_by,
                most_seconds=None,
                progress=progress,
            ),
            progress,
        )

    @property
    def interactions(self) -> Interactions | None:
        found: Interactions | None = self._best("interactions")
        return found

    def diagnose(self, images: Samples, progress: Progress = silent) -> Iterator[None]:
        """Find what is wrong and what it costs; of ONNX files that have something to hold against.

        `failures` has why there is no diagnosis, also where there is nothing to find.
        """
        if self.can_be_diagnosed:
            yield from self._diagnosed("diagnosis", images, tries=False, progress=progress)

    def try_remedies(self, progress: Progress = silent) -> Iterator[None]:
        """Try what the findings propose, on the images of the diagnosis that is shown."""
        shown = self.diagnosis
        if shown is not None:
            images = self._sets[shown.images]
            self.failures.pop("tried", None)
            yield from self._diagnosed("tried", images, tries=True, progress=progress)

    def _diagnosed(
        self, name: str, images: Samples, *, tries: bool, progress: Progress
    ) -> Iterator[None]:
        opened, count = self.opened, len(images)
        self._sets[count] = images
        yield from self._attempt(
            name,
            count,
            lambda: diagnose(
                opened.model,
                images,
                float_model=opened.known_float,
                measure=self.measured_by,
                tries=tries,
                progress=progress,
            ),
            progress,
        )

    @property
    def diagnosis(self) -> Diagnosis | None:
        """On the most images so far; of two of the same, the one that has tried remedies."""
        tried: Diagnosis | None = self._best("tried")
        found: Diagnosis | None = self._best("diagnosis")
        if tried is not None and (found is None or tried.images >= found.images):
            return tried
        return found

    @property
    def can_be_diagnosed(self) -> bool:
        return self._is_onnx and self.opened.original is not None

    @property
    def why_not_diagnosed(self) -> str:
        """Why there is no diagnosis and will be none; empty where one comes."""
        if not self.can_be_diagnosed:
            float_is_missing = self.opened.no_float is not None
            reason = f"it needs {'the float model' if float_is_missing else 'an ONNX file'}"
            return f"There is no diagnosis: {reason}"
        if "images" in self.failures:
            return "The given samples do not fit the model"
        return self.failures.get("diagnosis", "")

    @property
    def sensitivity(self) -> Sensitivity | None:
        found: Sensitivity | None = self._best("sensitivity")
        return found

    def histogram(self, tensor: QuantTensor) -> Histogram | None:
        """Give the histogram of an activation, once they are counted."""
        counted: Histograms | None = self._best("histograms")
        rows = counted.tensors if counted else ()
        return next((row for row in rows if row.name == tensor.name), None)

    def weight_histogram(self, weight: QuantTensor) -> Histogram:
        pairing = self.opened.pairing
        pair = pairing.by_name.get(weight.name) if pairing else None
        key = ("weight histogram", weight.name)
        return self.result(key, lambda: weight_histogram(weight, pair, self._no_floats))

    @property
    def is_bundled_sample(self) -> bool:
        """Say whether the rows are CIFAR-10's bundled ones, of which there are more to fetch."""
        return self.given is None and not self.sample.is_random

    @cached_property
    def full(self) -> Samples:
        """All rows; for CIFAR-10's, an error that says how to get them if they are not here."""
        return load_full("test") if self.is_bundled_sample else self._all

    @property
    def full_count(self) -> int:
        """How many `full` has, known before it is loaded."""
        return CIFAR10_TEST if self.is_bundled_sample else len(self._all)

    @property
    def noun(self) -> str:
        """The word for one row."""
        return "image" if self.sample.shown_as() == "picture" else "sample"

    @property
    def not_compared(self) -> str:
        """Why there is no comparison, in few words: the page's head has them all."""
        if self.opened.is_float:
            return "nothing is quantized"
        if self.opened.no_float:
            return "needs the float model"
        if not self.opened.is_comparable:
            return "needs the float model as .pt2 or .safetensors"
        return (
            "not measured"
            if "images" in self.failures
            else self.failures.get(_COMPARED[self.compared_in], "")
        )

    @property
    def not_counted(self) -> str:
        """Why there are no histograms of activations and will be none; empty where they come."""
        if "images" in self.failures:
            return "Not counted: the given samples do not fit."
        if not self._counts_values:
            return f"The values inside {self.opened.path.name} cannot be seen here."
        if "histograms" in self.failures:
            return self.failures["histograms"]
        return "" if self._best("histograms") is None else "Its values are not to be seen."

    @property
    def _counts_values(self) -> bool:
        return not self.opened.is_float and "reference" in self.opened.executions

    @property
    def _no_floats(self) -> str | None:
        return None if self.opened.original is not None else "the float model is not known"

    @property
    def _runs(self) -> tuple[Of, ...]:
        """The runs that are evaluated."""
        has_float = self.opened.is_float or self.opened.original is not None
        return (*(("float",) if has_float else ()), *self.opened.executions)

    @property
    def _is_onnx(self) -> bool:
        return self.opened.model.framework == "onnx"

    def _attempt(
        self, name: str, count: int, step: Callable[[], Any], progress: Progress
    ) -> Iterator[None]:
        if name in self.failures or "images" in self.failures:
            return
        if self._measured(name, count) is None:
            progress(_DOING[name], 0, 0)  # it may take a while until it counts
        try:
            self._core.get((name, count), step)
        except StoppedError:
            raise
        except QuantscopeError as error:
            self.failures[name] = str(error)
        # Whatever goes wrong in one part, the others are still found.
        except Exception as error:
            self.failures[name] = mistake(error)
        give_back()
        yield

    def _best(self, name: str) -> Any:
        """On the most images for which it is there."""
        counts = sorted(self._sets.copy(), reverse=True)  # a thread may add to them
        found = (self._measured(name, count) for count in counts)
        return next((result for result in found if result is not None), None)

    def _try(self, images: Samples) -> bool:
        """Check that the model takes these rows and knows their labels; raise why not."""
        ends = [0, len(images) - 1]
        if images.targets is not None:
            ends = [int(images.targets.argmin()), int(images.targets.argmax())]
        execution: Execution = next(iter(self.opened.executions), "reference")
        evaluate(self.opened.model, images.select(ends), execution=execution)
        return True

    def _evaluation(self, of: Of, images: Samples, progress: Progress) -> Evaluation:
        opened, told = self.opened, _as(_DOING[of], progress)
        if of != "float":
            floats = self._measured("float", len(images))
            return evaluate(
                opened.model,
                images,
                measure=self.measured_by,
                execution=of,
                floats=floats,
                progress=told,
            )
        model = opened.original or opened.model
        measure = self.measured_by
        # What is held against the float model says nothing of that model itself.
        if measure is not None and measure.needs_floats:
            measure = None
        return evaluate(model, images, measure=measure, execution="reference", progress=told)

    def _gap(self, images: Samples) -> KernelGap:
        reference, runtime = (self._measured(of, len(images)) for of in ("reference", "runtime"))
        if reference is None or runtime is None:
            raise QuantscopeError("The kernel gap needs both executions")
        if self._first_gap is None:
            self._first_gap = gap_between(reference, runtime, self.opened.model, int8_kernels=None)
            self.kernels = self._first_gap.kernels
        return replace(self._first_gap, reference=reference, runtime=runtime)


def _as(what: str, progress: Progress) -> Progress:
    return lambda _, done, total: progress(what, done, total)


_sessions = Shared()


def session_for(
    opened: Opened, samples: Samples | None = None, measure: Measure | None = None
) -> Session:
    """The session of this pair, these rows and this measure, kept while a page shows it."""
    key = (*opened.key, samples.digest if samples else "", measure)
    return _sessions.get(key, lambda: Session(opened, samples, measure))
