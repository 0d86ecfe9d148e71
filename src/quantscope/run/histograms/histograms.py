"""Count a quantized network's values beside the float network's, batch by batch.

The values of a batch come out of the runtime, are counted and forgotten: memory does not grow with
the samples.
"""

from collections.abc import Sequence

from quantscope.data import Batch, SamplesSource, samples_for
from quantscope.model import Execution, Model, ModelSource, find_original, open_model
from quantscope.progress import Progress, silent
from quantscope.run.batches import cores, run_side_by_side
from quantscope.run.histograms.question import BINS, Question, Tallies, rows_of, weight_histogram
from quantscope.run.histograms.results import Histograms
from quantscope.run.runnable import Runnable, open_runnable

__all__ = ["histograms", "weight_histogram"]


def histograms(
    model: ModelSource,
    images: SamplesSource,
    tensors: Sequence[str] | None = None,
    *,
    float_model: ModelSource | None = None,
    execution: Execution = "reference",
    int8_kernels: bool | None = None,
    bins: int = BINS,
    threads: int = 0,
    batch: int | None = None,
    progress: Progress = silent,
) -> Histograms:
    """Count the values of `tensors` over all samples; None means every quantized activation.

    A layer's name stands for its output; a weight's name gives its histogram, which needs no
    sample. Counts are exact. Each tensor has at most `bins` bins, the same for all its series.
    Without a float model there are only the quantized values. `execution` is the quantized
    network's; in runtime execution only that is counted which can be looked at without changing
    what runs. A PyTorch program (.pt2) has its reference execution only; its float model is a
    program too, or ResNet8's weights (.safetensors).
    """
    opened = open_model(model)
    images = samples_for(opened, images)
    opened.check_int8_kernels(int8_kernels)
    # Threads take whole batches below, so a session has one.
    quantized = open_runnable(opened, execution=execution, int8_kernels=int8_kernels, threads=1)
    original = _original(opened, float_model)
    floats = None if original is None else open_runnable(original, execution="reference", threads=1)
    question = Question.of(quantized, floats, tensors)
    counter = _Counter(question, quantized, floats)
    threads = threads or cores()
    sums: dict[str, Tallies] = {}
    done = 0
    if counter.seen:
        batches = quantized.intake.batches(images, batch or question.batch)
        with quantized.spread(threads):
            for (_, _, count), found in run_side_by_side(counter.count, batches, threads=threads):
                counter.add(sums, found)
                done += count
                progress("Counting", done, len(images))
    return question.answer(sums, counter.unseen, images, quantized, bins=bins)


def _original(model: Model, given: ModelSource | None) -> Model | None:
    """Find what to count beside the quantized values; a stand-in for want of a float original."""
    original = find_original(model, given)
    if original is None and model.has_stand_in and not model.is_float:
        return model.stand_in
    return original


class _Counter:
    """Reads both networks and counts, a batch at a time, in any number of threads."""

    def __init__(self, question: Question, quantized: Runnable, floats: Runnable | None) -> None:
        self._floats = floats
        self._reader = quantized.reader([each.tensor for each in question.countings])
        self._countings = [
            each for each in question.countings if each.tensor.name in self._reader.seen
        ]
        self._float_names = [
            each.pair.float_name for each in self._countings if each.pair is not None
        ]

    @property
    def seen(self) -> bool:
        """Say whether there is anything to run."""
        return bool(self._countings)

    @property
    def unseen(self) -> dict[str, str]:
        return dict(self._reader.unseen)

    def count(self, batch: Batch) -> dict[str, Tallies]:
        """Run one batch through both networks and count, by the tensors' names."""
        floats = {} if self._floats is None else self._floats.values(self._float_names, batch.feeds)
        integers = self._reader.read(batch.feeds)
        found = {}
        for each in self._countings:
            name = each.tensor.name
            value = None if each.pair is None else floats[each.pair.float_name]
            parts = (value, integers[name])
            found[name] = each.count(*(v if v is None else rows_of(v, batch) for v in parts))
        return found

    def add(self, sums: dict[str, Tallies], found: dict[str, Tallies]) -> None:
        """Add one batch's counts to `sums`, in place."""
        for name, tallies in found.items():
            before = sums.get(name)
            sums[name] = tallies if before is None else {n: before[n] + tallies[n] for n in before}
