"""Feed a model: turn rows of samples into the arrays that its inputs take, batch by batch."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quantscope.data.samples import Samples
from quantscope.errors import BadConfigError, BadDataError, BadModelError
from quantscope.model import Model, Port, Shape, find_batching

Array = NDArray[Any]
Feeds = Mapping[str, Array]
"""An array for each input of a model, by the input's name."""

INPUT_BYTES_A_BATCH = 4 << 20
MAX_BATCH = 256
_MOST_AT_ONCE = 65_536
"""The largest fixed batch that is run: nobody exports more, and each run would fill it up."""
_FED = frozenset(
    (
        *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float16", "float32", "float64"),
    )
)
"""The types that arrays can be given in."""


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

    `model` is the file's name, for messages. `axes` says which dimension of each port counts rows,
    None where none does; left empty, it is the first of all. `fixed_batch` is the only number of
    rows that the model takes, None where any number goes between `least` and `most`. `ids_below`
    are the sizes of the tables that inputs are looked up in, `size_limits` the least and the most
    that open dimensions may be, by their names.
    """

    model: str
    ports: tuple[Port, ...]
    fixed_batch: int | None = None
    least: int = 1
    most: int | None = None
    axes: tuple[int | None, ...] = ()
    ids_below: Mapping[str, int] = field(default_factory=dict)
    size_limits: Mapping[str, tuple[int | None, int | None]] = field(default_factory=dict)

    @classmethod
    def of(cls, model: Model, *, least: int = 1, most: int | None = None) -> "Intake":
        """Say how an opened model is fed; refuse inputs that arrays of numbers cannot be for."""
        limits = {name: use.ids_below for name, use in model.input_uses.items() if use.ids_below}
        found = cls.of_ports(model.name, model.inputs, model.outputs)
        return replace(
            found, least=least, most=most, ids_below=limits, size_limits=model.size_limits
        )

    @classmethod
    def of_ports(cls, model: str, inputs: tuple[Port, ...], outputs: tuple[Port, ...]) -> "Intake":
        """Say how a model with these ports is fed; refuse as `of` does."""
        check_ports(model, inputs)
        found = find_batching(inputs, outputs)
        fixed = found.fixed
        if fixed is not None and fixed > _MOST_AT_ONCE:
            raise BadModelError(
                f"{model} takes {fixed:,} rows at once, more than the {_MOST_AT_ONCE:,} that "
                "are run; export it with a batch of 1, or an open one"
            )
        return cls(model, inputs, fixed, axes=found.axes)

    def default_batch(self) -> int:
        """Choose as many rows as keep the inputs of a batch near 4 MB, at most 256."""
        if self.fixed_batch:
            return self.fixed_batch
        return int(np.clip(INPUT_BYTES_A_BATCH // max(self.row_bytes, 1), 1, MAX_BATCH))

    @property
    def row_bytes(self) -> int:
        """The bytes of one row of all inputs; an open dimension counts as 1."""
        return sum(self._bytes_a_row(place) for place in range(len(self.ports)))

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
            feeds = feed(start, end)
            yield Batch(fill_up(feeds, least) if count < least else feeds, max(count, least), count)

    def feeder(self, samples: Samples) -> Callable[[int, int], Feeds]:
        """Give a function from a range of rows to the model's inputs; refuse unfitting samples.

        Samples of one array feed a model of one input whatever their names are.
        """
        arrays = match_arrays(samples, self.ports, self.model)
        parts = [
            (port.name, self._fit(place, arrays[port.name], samples))
            for place, port in enumerate(self.ports)
        ]
        self._check_open(samples, arrays)
        return lambda start, stop: {name: take(start, stop) for name, take in parts}

    def _axis(self, place: int) -> int | None:
        return self.axes[place] if self.axes else 0

    def _row_shape(self, place: int) -> tuple[int | None, ...] | None:
        """Give the shape of one row; None stands where any size goes, or any shape at all."""
        shape, axis = self.ports[place].shape, self._axis(place)
        if shape is None:
            return None
        return tuple(d if isinstance(d, int) else None for i, d in enumerate(shape) if i != axis)

    def _bytes_a_row(self, place: int) -> int:
        row = self._row_shape(place) or ()
        return np.dtype(self.ports[place].dtype).itemsize * prod(size or 1 for size in row)

    def _fit(self, place: int, array: Array, samples: Samples) -> Callable[[int, int], Array]:
        """Give a function from a range of rows to one input, in the layout and type it takes."""
        port, wanted, found = self.ports[place], self._row_shape(place), array.shape[1:]
        what = "images" if port.name not in samples.arrays else repr(port.name)
        turned = False
        if samples.layout == "as-is" or len(self.ports) > 1:
            # One row at a time, it may also be given as the model takes it, batch and all.
            whole = self.fixed_batch == 1 and _fits(found, _sizes(port.shape))
            if wanted is not None and not whole and not _fits(found, wanted):
                raise BadDataError(
                    f"{samples.name} holds {what} of shape {_text(found)}, but {self.model} "
                    f"takes {_text(wanted)}; save them in the model's own shape"
                )
        elif wanted is not None and (not _fits(found, wanted) or None in wanted[:1]):
            # An open first size is taken for a height, so for channels last.
            channels_last = (*found[1:], found[0])
            if not _fits(channels_last, wanted):
                raise BadModelError(
                    f"{self.model} takes input {_text(wanted)}, which is neither layout of "
                    f"CIFAR-10's images, {_text(found)} or {_text(channels_last)}; give fitting "
                    f"ones with --data FILE.npz"
                )
            turned = True
        check_type(port, array.dtype, samples.name, self.model)

        def give(start: int, stop: int) -> Array:
            rows = np.asarray(array[start:stop])
            rows = rows.transpose(0, 2, 3, 1) if turned else rows
            self._check_values(port, rows, start, samples)
            return self._placed(place, np.ascontiguousarray(rows, np.dtype(port.dtype)), samples)

        return give

    def _placed(self, place: int, rows: Array, samples: Samples) -> Array:
        """Put rows where the model wants them: the batch in its place, or none at all."""
        axis, shape = self._axis(place), self.ports[place].shape
        if axis == 0 and (shape is None or rows.ndim == len(shape)):
            return rows
        if len(rows) > 1 and not all(np.array_equal(row, rows[0]) for row in rows[1:]):
            raise BadDataError(
                f"{self.model} takes one {self.ports[place].name!r} for {self.fixed_batch} rows, "
                f"and those of {samples.name} differ within a batch"
            )
        row: Array = np.asarray(rows[0])  # a single number is an array too
        if axis is None or shape is None or row.ndim == len(shape):
            return row
        return np.ascontiguousarray(np.expand_dims(row, axis))

    def _check_values(self, port: Port, rows: Array, start: int, samples: Samples) -> None:
        """Refuse numbers that the input's type cannot hold, and ids beyond their table."""
        if rows.dtype.kind not in "iu" or not rows.size:
            return
        lowest, highest = int(rows.min()), int(rows.max())
        dtype = np.dtype(port.dtype)
        if dtype.kind in "iu" and not np.can_cast(rows.dtype, dtype):
            ends = np.iinfo(dtype)
            if lowest < ends.min or highest > ends.max:
                raise BadDataError(
                    f"{port.name!r} of {samples.name} runs from {lowest:,} to {highest:,}, but "
                    f"{self.model} takes {port.dtype}, {ends.min:,} to {ends.max:,}"
                )
        below = self.ids_below.get(port.name)
        if below is not None and (highest >= below or lowest < -below):
            outside = (rows >= below) | (rows < -below)
            row = int(np.argmax(outside.reshape(len(rows), -1).any(axis=1)))
            found = rows[outside].ravel()[0]
            raise BadDataError(
                f"Row {start + row} of {samples.name} has the id {found} in {port.name!r}, but "
                f"the table of {self.model} that it is looked up in has {below:,} rows (0 to "
                f"{below - 1:,})"
            )

    def _check_open(self, samples: Samples, arrays: Mapping[str, Array]) -> None:
        """Refuse arrays that give one open dimension of the model two sizes."""
        sizes: dict[str, tuple[int, str]] = {}
        for place, port in enumerate(self.ports):
            row = arrays[port.name].shape[1:]
            dims = [d for at, d in enumerate(port.shape or ()) if at != self._axis(place)]
            for dim, size in zip(dims, row, strict=False) if len(dims) == len(row) else ():
                if not isinstance(dim, str) or not dim.strip("?"):
                    continue
                check_size(port, dim, size, self.size_limits, name=samples.name, model=self.model)
                known, first = sizes.setdefault(dim, (size, port.name))
                if known != size:
                    raise BadDataError(
                        f"{port.name!r} of {samples.name} has {size} where {first!r} has {known}: "
                        f"both are {dim!r} of {self.model}"
                    )


def check_ports(model: str, ports: Sequence[Port]) -> None:
    """Refuse a model with an input that no array of numbers can be given for, by its name."""
    if not ports:
        raise BadModelError(f"{model} has no inputs: it gives the same at every run")
    for port in ports:
        if port.dtype not in _FED:
            article = "a " if port.dtype in ("sequence", "map", "optional", "string") else ""
            raise BadModelError(
                f"The input {port.name!r} of {model} is {article}{port.dtype}, which arrays of "
                f"numbers cannot be given for; those that can are float32, int64, uint8 and the "
                f"like"
            )


def match_arrays(samples: Samples, ports: Sequence[Port], model: str) -> dict[str, Array]:
    """Find the array of each input; a lone array feeds a lone input whatever their names are."""
    if len(ports) == 1 and len(samples.arrays) == 1:
        return {ports[0].name: samples.images}
    missing = next((port for port in ports if port.name not in samples.arrays), None)
    if missing is not None:
        found = ", ".join(samples.arrays) or "none"
        raise BadDataError(
            f"{samples.name} has no array {missing.name!r}, an input of {model}; it has {found}. "
            f"Save one for each input ({', '.join(port.name for port in ports)}) with np.savez, or "
            f"use --data random"
        )
    return {port.name: samples.arrays[port.name] for port in ports}


def check_type(port: Port, found: np.dtype[Any], name: str, model: str) -> None:
    """Refuse rows of a type that the input's does not stand for: fractions as whole numbers."""
    dtype = np.dtype(port.dtype)
    if found == np.uint8 and dtype == np.int8:
        raise BadDataError(
            f"{model} takes int8, which cannot hold the pixels 0..255 of {name}; "
            f"give fitting images with --data FILE.npz"
        )
    if found.kind not in "biu" and dtype.kind in "biu":
        raise BadDataError(
            f"{port.name!r} of {name} is {found}, but {model} takes {port.dtype}; save it as "
            f"{port.dtype}"
        )


def check_size(
    port: Port,
    dim: str,
    size: int,
    limits: Mapping[str, tuple[int | None, int | None]],
    *,
    name: str,
    model: str,
) -> None:
    """Refuse a size of an open dimension that the model says it does not take."""
    least, most = limits.get(dim, (None, None))
    if (least is None or size >= least) and (most is None or size <= most):
        return
    ends = f"at least {least}" if most is None else f"{least or 0} to {most}"
    raise BadDataError(
        f"{port.name!r} of {name} has {size} where {model} takes {ends} ({dim!r}); give shorter or "
        f"longer rows"
    )


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


def _sizes(shape: Shape | None) -> tuple[int | None, ...]:
    return tuple(dim if isinstance(dim, int) else None for dim in shape or ())


def _fits(shape: tuple[int, ...], wanted: tuple[int | None, ...]) -> bool:
    return len(shape) == len(wanted) and all(
        w in (None, s) for w, s in zip(wanted, shape, strict=True)
    )


def _text(shape: tuple[int | None, ...]) -> str:
    return "[" + ",".join(["N", *("?" if d is None else str(d) for d in shape)]) + "]"
