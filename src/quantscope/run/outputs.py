"""A model's answers for all samples: every output by name, its rows the samples.

Outputs that are large together lie in a temporary file that is mapped into memory, so that memory
stays bounded. What has no row a sample is left out, by name and with the reason.
"""

import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantscope.data import Intake, Samples, check_samples
from quantscope.errors import BadDataError, BadModelError
from quantscope.plain_text import many, printable
from quantscope.progress import Progress, silent
from quantscope.run.runnable import Runnable

Array = NDArray[Any]
Outputs = Mapping[str, Array]
"""A model's outputs for all samples, by their names, the first one first; rows are samples."""

MOST_BYTES_IN_MEMORY = 256 << 20
"""Outputs that take more together lie in a file."""
CHUNK_BYTES = 8 << 20
"""The bytes of float64 that are looked at together where all values of the outputs are."""


@dataclass(frozen=True, eq=False)
class Answers:
    """The outputs of a model for all samples; `left_out` says by name why others are not there."""

    outputs: Outputs
    left_out: Mapping[str, str] = field(default_factory=dict)


def gather_outputs(
    runnable: Runnable, samples: Samples, *, batch: int | None = None, progress: Progress = silent
) -> Answers:
    """Run a model on all samples and keep every output that has a row for each of them.

    Where rows go in one by one, a whole output may also be what belongs to its row. A model none of
    whose outputs counts rows is run that way.
    """
    check_samples(samples)
    intake = runnable.intake
    intake.check_batch(batch)
    size = batch or intake.default_batch()
    found = _gather(runnable, samples, size, progress)
    if may_go_one_by_one(found, intake, size):
        found = _gather(runnable, samples, 1, progress)
    return check_rows(found, runnable.name)


def may_go_one_by_one(found: Answers, intake: Intake, size: int) -> bool:
    """Say whether no output counts rows, and rows can be fed one at a time instead."""
    return not found.outputs and size > 1 and intake.fixed_batch is None and intake.least == 1


def check_rows(found: Answers, model: str) -> Answers:
    """Refuse answers of which none has a row for each sample."""
    if not found.outputs:
        reasons = "; ".join(f"{printable(name)}: {why}" for name, why in found.left_out.items())
        raise BadModelError(
            f"No output of {model} has a row for each sample ({reasons}); "
            f"capture looks at values as they are"
        )
    return found


def sample_word(samples: Samples) -> str:
    """Say what a row is called: an image where the samples are pictures."""
    return "image" if samples.shown_as() == "picture" else "sample"


def free_disk() -> int:
    """Give the bytes that temporary files can still take."""
    return shutil.disk_usage(tempfile.gettempdir()).free


def row_chunks(outputs: Outputs) -> Iterator[slice]:
    """Give ranges of rows whose values, as float64, take about `CHUNK_BYTES`."""
    rows = len(next(iter(outputs.values())))
    row_bytes = 8 * sum(array[:1].size for array in outputs.values())
    step = max(1, CHUNK_BYTES // max(row_bytes, 1))
    return (slice(start, min(start + step, rows)) for start in range(0, rows, step))


def finite_rows(outputs: Outputs) -> NDArray[np.bool_]:
    """Say of each sample whether all its values are finite."""
    parts = [np.isfinite(array).reshape(len(array), -1).all(axis=1) for array in outputs.values()]
    return np.asarray(np.logical_and.reduce(parts))


def same_outputs(one: Outputs, other: Outputs) -> bool:
    """Say whether two models gave the same values, NaNs among them, for every sample."""
    return one.keys() == other.keys() and all(
        array is other[name] or np.array_equal(array, other[name], equal_nan=True)
        for name, array in one.items()
    )


def _gather(runnable: Runnable, samples: Samples, size: int, progress: Progress) -> Answers:
    rows = len(samples)
    ends = ((start, min(start + size, rows)) for start in range(0, rows, size))
    batches = (
        (runnable.run(feeds), fed, count)
        for feeds, fed, count in runnable.intake.pieces(samples, ends)
    )
    return join_batches(batches, rows, size=size, model=runnable.name, progress=progress)


def join_batches(
    batches: Iterable[tuple[Mapping[str, Any], int, int]],
    rows: int,
    *,
    size: int,
    model: str,
    progress: Progress = silent,
) -> Answers:
    """Put the outputs of batches together; each comes with its rows, and how many are samples.

    `size` is that of whole batches, `rows` counts the samples. What a batch gives is copied.
    """
    kept: dict[str, _Kept] | None = None
    done = 0
    for found, fed, count in batches:
        if kept is None:
            kept = {name: _Kept(name, rows) for name in found}
        parts = {name: kept[name].rows_of(value, fed, size) for name, value in found.items()}
        if done == 0:
            _allocate([kept[name] for name in found], parts, model)
        for name, part in parts.items():
            if part is not None:
                kept[name].put(part[:count], done)
        done += count
        progress("Evaluating", done, rows)
    assert kept is not None, "there is at least one sample"
    return Answers(
        {name: each.array for name, each in kept.items() if each.array is not None},
        {name: each.why for name, each in kept.items() if each.array is None},
    )


class _Kept:
    """One output as its batches come; `why` it is left out, once that is known."""

    def __init__(self, name: str, rows: int) -> None:
        self.name, self.rows, self.why = name, rows, ""
        self.array: Array | None = None
        self.shape: tuple[int, ...] | None = None
        self.is_whole: bool | None = None

    def rows_of(self, value: Any, fed: int, size: int) -> Array | None:
        """Give a batch's value as rows, or None where it cannot be and `why` says so."""
        if self.why:
            return None
        if not isinstance(value, np.ndarray) or value.dtype.kind not in "biuf":
            kind = value.dtype if isinstance(value, np.ndarray) else "no tensor"
            self._leave_out(f"it is {kind}, not numbers")
            return None
        if self.is_whole is None:
            self.is_whole = size == fed == 1 and value.shape[:1] != (1,)
        if self.is_whole:
            value = value[None]
        if value.shape[:1] != (fed,):
            self._leave_out(f"its shape is {list(value.shape)} for {many(fed, 'row')}")
            return None
        if self.shape not in (None, value.shape[1:]):
            first = list(self.shape or ())
            self._leave_out(f"its rows have different shapes, {first} and {list(value.shape[1:])}")
            return None
        self.shape = value.shape[1:]
        rows: Array = value
        return rows

    def put(self, part: Array, start: int) -> None:
        assert self.array is not None
        self.array[start : start + len(part)] = part

    def _leave_out(self, why: str) -> None:
        self.why, self.array = why, None


def _allocate(kept: Sequence[_Kept], parts: Mapping[str, Array | None], model: str) -> None:
    """Make room for all rows: in memory, or in a file that is gone with the arrays."""
    wanted = [(each, part) for each in kept if (part := parts[each.name]) is not None]
    total = sum(each.rows * part[0].nbytes for each, part in wanted)
    in_file = total > MOST_BYTES_IN_MEMORY
    if in_file and total > (free := free_disk()):
        raise BadDataError(
            f"The outputs of {model} for {wanted[0][0].rows:,} samples take {total / 1e9:.1f} GB, "
            f"and {free / 1e9:.1f} GB are free in {tempfile.gettempdir()}; take fewer with --images"
        )
    for each, part in wanted:
        shape = (each.rows, *part.shape[1:])
        if in_file and part[0].nbytes:
            with tempfile.TemporaryFile(prefix="quantscope-") as file:
                each.array = np.memmap(file, part.dtype, "w+", shape=shape)
        else:
            each.array = np.empty(shape, part.dtype)
