"""Read the extremes of a float network's values, batch by batch."""

from collections.abc import Iterator, Sequence
from typing import Any

from numpy.typing import NDArray

from quantscope.data import Samples
from quantscope.model.onnx import OnnxModel
from quantscope.progress import Progress, silent
from quantscope.run import open_runnable
from quantscope.run.onnx import ExtremesReader

Array = NDArray[Any]


def read_extremes(
    model: OnnxModel,
    names: Sequence[str],
    samples: Samples,
    *,
    what: str,
    threads: int = 0,
    progress: Progress = silent,
) -> Iterator[tuple[int, str, tuple[Array, Array]]]:
    """Give the least and largest values of each value's samples and channels as they are read.

    With each come the place of its first sample in the set, and its name. Values that have no row a
    sample are left out.
    """
    reader = ExtremesReader(model, names, threads=threads)
    intake = open_runnable(model, execution="reference", threads=threads).intake
    done = 0
    for batch in intake.batches(samples, intake.default_batch()):
        for name, extremes in reader.read(batch.feeds, batch.samples).items():
            yield done, name, extremes
        done += batch.samples
        progress(what, done, len(samples))
