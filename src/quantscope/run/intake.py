"""Feed a model: turn rows of samples into the arrays that its inputs take, batch by batch."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from quantscope.data import Samples
from quantscope.errors import BadConfigError, BadDataError, BadModelError
from quantscope.model import Port

Array = NDArray[Any]
Feeds = Mapping[str, Array]
"""An array for each input of a model, by the input's name."""

INPUT_BYTES_A_BATCH = 4 << 20
MAX_BATCH = 256


class Batch(NamedTuple):
    """Some rows as a model takes them. Only the first `samples` of its `rows` are samples; the
    others are copies of the last one that fill a batch up.
    """

    feeds: Feeds
    rows: int
    samples: int


@dataclass(frozen=True)
class Intake:
    """The inputs of a model, and how many rows it takes at once.

    `model` is the file's name, for messages. The first dimension of each port counts rows.
    `fixed_batch` is the only number of rows that the model takes, None where any number goes
    between `least` and `most`.
    """

    model: str
    ports: tuple[Port, ...]
    fixed_batch: int | None = None
    least: int = 1
    most: int | None = None

    def default_batch(self) -> int:
        """Choose as many rows as keep the inputs of a batch near 4 MB, at most 256."""
        if self.fixed_batch:
            return self.fixed_batch
        row_bytes = sum(_bytes_a_row(port) for port in self.ports)
        return int(np.clip(INPUT_BYTES_A_BATCH // max(row_bytes, 1), 1, MAX_BATCH))

    def check_batch(self, batch: int | None) -> None:
        """Refuse a batch that no model, or not this one, can be run with."""
        check_batch(batch)
        if self.fixed_batch and batch not in (None, self.fixed_batch):
            raise BadConfigError(
                f"{self.model} takes batches of {self.fixed_batch} only, not {batch}"
            )

    def batches(self, samples: Samples, batch: int | None = None) -> Iterator[Batch]:
        """Give all rows, `batch` at a time or as many as fit by default."""
        size = self.fixed_batch or min(batch or self.default_batch(), self.most or 1 << 30)
        starts = range(0, len(samples), size)
        return self.pieces(samples, ((s, min(s + size, len(samples))) for s in starts))

    def pieces(self, samples: Samples, ends: Iterable[tuple[int, int]]) -> Iterator[Batch]:
        """Give the rows between each pair of ends, filled up to as many as the model takes."""
        least = self.fixed_batch or self.least
        feed = self.feeder(samples)
        for start, end in ends:
            count = end - start
            yield Batch(fill_up(feed(start, end), least), max(count, least), count)

    def feeder(self, samples: Samples) -> Callable[[int, int], Feeds]:
        """Give a function from a range of rows to the model's inputs; refuse unfitting samples.

        Samples of one array feed a model of one input whatever their names are.
        """
        if len(self.ports) == 1 and len(samples.arrays) == 1:
            arrays = {self.ports[0].name: samples.images}
        else:
            arrays = dict(samples.arrays)
        missing = next((port.name for port in self.ports if port.name not in arrays), None)
        if missing is not None:
            found = ", ".join(arrays) or "none"
            raise BadDataError(
                f"{samples.name} has no array {missing!r}, an input of {self.model}; it has {found}"
            )
        parts = [(port, self._fit(port, arrays[port.name], samples)) for port in self.ports]
        return lambda start, stop: {port.name: take(start, stop) for port, take in parts}

    def _fit(self, port: Port, array: Array, samples: Samples) -> Callable[[int, int], Array]:
        """Give a function from a range of rows to one input, in the layout and type it takes."""
        wanted, found = _row_shape(port), array.shape[1:]
        if samples.layout == "as-is":
            if not _fits(found, wanted):
                raise BadDataError(
                    f"{samples.name} holds images of shape {_text(found)}, but {self.model} takes "
                    f"{_text(wanted)}; save them in the model's own shape"
                )
            return lambda start, stop: self._typed(port, array[start:stop], samples)
        channels_last = (*found[1:], found[0])
        # An open first size is taken for a height, so for channels last.
        if _fits(found, wanted) and None not in wanted[:1]:
            return lambda start, stop: self._typed(port, array[start:stop], samples)
        if _fits(channels_last, wanted):
            return lambda start, stop: self._typed(
                port, array[start:stop].transpose(0, 2, 3, 1), samples
            )
        raise BadModelError(
            f"{self.model} takes input {_text(wanted)}, which is neither layout of CIFAR-10's "
            f"images, {_text(found)} or {_text(channels_last)}; give fitting ones with --data "
            f"FILE.npz"
        )

    def _typed(self, port: Port, rows: Array, samples: Samples) -> Array:
        dtype = np.dtype(port.dtype)
        if rows.dtype == np.uint8 and dtype == np.int8:
            raise BadDataError(
                f"{self.model} takes int8, which cannot hold the pixels 0..255 of {samples.name}; "
                f"give fitting images with --data FILE.npz"
            )
        return np.ascontiguousarray(rows, dtype=dtype)


def check_batch(batch: int | None) -> None:
    if batch is not None and batch < 1:
        raise BadConfigError(f"A batch holds at least one image, not {batch}")


def check_samples(samples: Samples) -> None:
    if len(samples) == 0:
        raise BadDataError(f"{samples.name} holds no images; give at least one")


def fill_up(feeds: Feeds, least: int) -> Feeds:
    """Repeat the last row until there are `least`."""
    return {name: _filled(array, least) for name, array in feeds.items()}


def take_rows(feeds: Feeds, start: int, stop: int) -> Feeds:
    return {name: array[start:stop] for name, array in feeds.items()}


def rows_of(feeds: Feeds) -> int:
    return len(next(iter(feeds.values())))


def _filled(array: Array, least: int) -> Array:
    if len(array) >= least:
        return array
    return np.concatenate([array, np.repeat(array[-1:], least - len(array), axis=0)])


def _row_shape(port: Port) -> tuple[int | None, ...]:
    """Give the shape of one row; None stands where any size goes."""
    return tuple(dim if isinstance(dim, int) else None for dim in (port.shape or ())[1:])


def _bytes_a_row(port: Port) -> int:
    return np.dtype(port.dtype).itemsize * int(np.prod([d or 1 for d in _row_shape(port)]))


def _fits(shape: tuple[int, ...], wanted: tuple[int | None, ...]) -> bool:
    return len(shape) == len(wanted) and all(
        w in (None, s) for w, s in zip(wanted, shape, strict=True)
    )


def _text(shape: tuple[int | None, ...]) -> str:
    return "[" + ",".join(["N", *("?" if d is None else str(d) for d in shape)]) + "]"


Item = TypeVar("Item")
Result = TypeVar("Result")

BYTES_AT_ONCE = 1 << 18
"""The bytes of numbers that wait before NumPy is called for them: for a few it takes as long."""


def cores() -> int:
    """Count the cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_side_by_side(
    run: Callable[[Item], Result], items: Iterable[Item], *, threads: int
) -> Iterator[tuple[Item, Result]]:
    """Give each item and what `run` makes of it, in the items' order.

    At most `threads` results wait, so memory stays bounded. The graphs are many short operators:
    threads that share each of them would mostly wait for one another, threads that take a batch
    each do not.
    """
    waiting: deque[tuple[Item, Future[Result]]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        for item in items:
            waiting.append((item, pool.submit(run, item)))
            if len(waiting) > threads:
                done, future = waiting.popleft()
                yield done, future.result()
        for done, future in waiting:
            yield done, future.result()
