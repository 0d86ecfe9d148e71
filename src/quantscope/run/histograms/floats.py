"""Count the float network's values alone, in bins finer than the quantized network's steps."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from quantscope.data import Batch, Samples
from quantscope.progress import Progress, silent
from quantscope.run.batches import cores, run_side_by_side
from quantscope.run.histograms.counts import Grid
from quantscope.run.histograms.question import Question, Tallies, rows_of
from quantscope.run.histograms.results import Histograms
from quantscope.run.histograms.series import Counting
from quantscope.run.runnable import Runnable

_BINS = 2048
_STEPS = 1024


def float_histograms(
    quantized: Runnable,
    floats: Runnable,
    samples: Samples,
    tensors: Sequence[str] | None = None,
    *,
    threads: int = 0,
    batch: int | None = None,
    progress: Progress = silent,
) -> Histograms:
    """Count the float values of `tensors`, None for all activations; the quantized are not run.

    The bins split each quantization step, so that ranges much narrower than the present one can be
    judged by them. What has no counterpart in the float network is `unseen`.
    """
    asked = Question.of(quantized, floats, tensors)
    finer = tuple(
        replace(each, rounded={}, grid=_split(each.grid))
        for each in asked.countings
        if each.pair is not None
    )
    question = replace(asked, countings=finer)
    unseen = {
        each.tensor.name: each.no_float or "it has no counterpart in the float network"
        for each in asked.countings
        if each.pair is None
    }
    sums: dict[str, Tallies] = {}
    done = 0
    if finer:
        threads = threads or cores()
        batches = quantized.intake.batches(samples, batch or question.batch)
        with floats.spread(threads):
            count = partial(_count, floats, finer)
            for (_, _, rows), found in run_side_by_side(count, batches, threads=threads):
                for name, tallies in found.items():
                    before = sums.get(name)
                    sums[name] = (
                        tallies if before is None else {n: before[n] + tallies[n] for n in before}
                    )
                done += rows
                progress("Counting", done, len(samples))
    return question.answer(sums, unseen, samples, quantized, bins=_BINS)


def _count(floats: Runnable, countings: Sequence[Counting], batch: Batch) -> dict[str, Tallies]:
    names = {each.tensor.name: each.pair.float_name for each in countings if each.pair is not None}
    values = floats.values(list(names.values()), batch.feeds)
    return {
        each.tensor.name: each.count(rows_of(values[names[each.tensor.name]], batch), None)
        for each in countings
    }


def _split(grid: Grid) -> Grid:
    """Split each step by a power of two, until some 1,024 of them are in the range."""
    parts = 1
    while (grid.high - grid.low + 1) * parts < _STEPS and grid.step / (2 * parts) > _TINY:
        parts *= 2
    return Grid(np.float32(grid.step / parts), grid.low * parts, (grid.high + 1) * parts - 1)


_TINY = np.finfo(np.float32).tiny
